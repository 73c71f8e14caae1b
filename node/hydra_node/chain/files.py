"""Small private files that survive a crash: written beside, fsynced, renamed, readable by their owner alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra_node.errors import HydraError


class FolderUnusable(HydraError):
    """A folder cannot be made where one was asked for."""


def private_directory(path: Path) -> Path:
    """Make `path` with mode 0700 if it is not there; an existing directory keeps its mode. Raises `FolderUnusable`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(
            f"the folder {path} cannot be made ({error.strerror})", remedy="choose one that you may write to"
        ) from None
    return path


def write_private(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: after a crash at any moment the old or the new content is there, whole, mode 0600."""
    with _written_beside(path, data) as temporary:
        temporary.replace(path)
    sync_directory(path.parent)


def create_private(path: Path, data: bytes) -> None:
    """Like `write_private`, but never over a file that is there. Raises `FileExistsError`; of several processes that
    create the same file at once, one succeeds."""
    with _written_beside(path, data) as temporary:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links: as good as it gets there.
            if path.exists():
                raise FileExistsError(path) from None
            temporary.replace(path)
    sync_directory(path.parent)


@contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make renames and removals in `path` durable, where the platform can open a directory."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
