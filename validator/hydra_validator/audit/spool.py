"""Vectors on disk by their digests, so that memory does not grow with the steps of a job."""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import Self

from hydra_node.collective import vectors
from hydra_node.collective.vectors import Vector


class Spool:
    """Vectors of `size` numbers in a file without a name, which ends with this object or its process.

    One digest is stored once. The file lies where temporary files do (TMPDIR). One thread at a time may add; any
    may read.
    """

    def __init__(self, size: int) -> None:
        self.width = vectors.DTYPE.itemsize * size
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  closed where this object's context ends
        self._places: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._places

    def take(self, data: memoryview, digest: bytes) -> bool:
        """Keeps a vector's bytes under its digest; False if they are of another vector, or of another size."""
        if len(data) != self.width or vectors.vector_digest(vectors.from_bytes(data)) != digest:
            return False
        if digest not in self._places:
            place, written = len(self._places) * self.width, 0
            while written < self.width:
                written += os.pwrite(self._file.fileno(), data[written:], place + written)
            self._places[digest] = place
        return True

    def get(self, digest: bytes) -> Vector:
        """The vector with this digest, which must be here."""
        data = os.pread(self._file.fileno(), self.width, self._places[digest])
        return vectors.from_bytes(data)
