"""The state of a training between two steps: one value, one form of bytes, one digest."""

import hashlib
import json
from dataclasses import dataclass
from typing import Self

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hydra_node.errors import HydraError
from hydra_node.training import models, optimisers
from hydra_node.training.compute import FlatModel
from hydra_node.training.ledger import Ledger
from hydra_node.training.optimisers import Optimiser, Vector
from hydra_node.training.spec import TrainingSpec

_HEADER = "hydra"


class BadState(HydraError):
    """Bytes that are not a training state of this job."""


@dataclass(slots=True)
class TrainState:
    """`step` steps have been applied to `parameters`; the next one is number `step`."""

    step: int
    parameters: Vector
    optimiser: Optimiser
    ledger: Ledger

    @classmethod
    def start(cls, spec: TrainingSpec) -> Self:
        """The state before the first step: alike for everybody who has the spec."""
        parameters = FlatModel(models.build(spec)).vector()
        return cls(0, parameters, optimisers.build(spec, len(parameters)), Ledger())

    def apply(self, gradient: Vector, ledger: Ledger) -> None:
        """Takes one step along the agreed `gradient`."""
        self.optimiser.update(self.step, self.parameters, gradient)
        self.ledger = ledger
        self.step += 1

    def digest(self) -> bytes:
        """SHA-256 over step, ledger, parameters and optimiser."""
        hasher = hashlib.sha256(self._header())
        for _, vector in sorted(self._vectors().items()):
            hasher.update(vector.astype("<f4", copy=False).tobytes())
        return hasher.digest()

    def to_bytes(self) -> bytes:
        """safetensors with `parameters` and the optimiser's vectors; step and ledger in the metadata."""
        return bytes(save(self._vectors(), metadata={_HEADER: self._header().decode()}))

    @classmethod
    def from_bytes(cls, spec: TrainingSpec, data: bytes) -> Self:
        """Reads what `to_bytes` wrote; every size is checked against the spec's model."""
        state = cls.start(spec)
        size = len(state.parameters)
        try:
            vectors = load(data)
            step, ledger = _read_header(data)
        except (SafetensorError, msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
            raise BadState(
                f"the training state cannot be read: {error}", remedy="fetch it from another peer"
            ) from error
        expected = {"parameters", *state.optimiser.slots}
        if set(vectors) != expected or any(
            vector.shape != (size,) or vector.dtype != np.float32 for vector in vectors.values()
        ):
            raise BadState(
                f"the training state holds {sorted(vectors)}", expected=f"{sorted(expected)}, each of {size} float32"
            )
        state.step, state.ledger = step, ledger
        state.parameters = np.array(vectors.pop("parameters"))
        for name, vector in vectors.items():
            state.optimiser.slots[name][:] = vector
        return state

    def _header(self) -> bytes:
        return msgspec.json.encode({"step": self.step, "ledger": self.ledger}, order="deterministic")

    def _vectors(self) -> dict[str, Vector]:
        return {"parameters": self.parameters, **self.optimiser.slots}


class _Header(msgspec.Struct):
    step: int
    ledger: Ledger


def _read_header(data: bytes) -> tuple[int, Ledger]:
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = msgspec.json.decode(metadata[_HEADER], type=_Header)
    if header.step < 0:
        raise ValueError(f"step {header.step}")
    return header.step, header.ledger
