"""What the training gives the collective, and what it gets back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.record import Ranges, StepRecord
from hydra_node.collective.vectors import Vector, from_bytes


@dataclass(frozen=True, slots=True)
class Contribution:
    """One member's work for one step: the mean gradient over `samples` samples (float32, one dimension)."""

    vector: Vector
    samples: int
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class CommittedStep:
    """An agreed step. `result` is little-endian float32; `contribution` this member's own, empty if it is not in."""

    record: StepRecord
    certificate: Certificate
    result: bytes
    contribution: bytes

    @property
    def step(self) -> int:
        """The step's number."""
        return self.record.step

    @property
    def vector(self) -> Vector:
        """The agreed mean gradient; read-only."""
        vector = from_bytes(self.result)
        vector.flags.writeable = False
        return vector

    @property
    def record_bytes(self) -> bytes:
        """The record's canonical form."""
        return records.encode(self.record)

    @property
    def certificate_bytes(self) -> bytes:
        """The certificate's encoded form."""
        return certificates.encode(self.certificate)


class Workload(Protocol):
    """The training, as the collective sees it. Calls never overlap."""

    def plan(self, step: int, members: tuple[str, ...], telemetry: Mapping[str, Telemetry]) -> Mapping[str, Ranges]:
        """The leader's choice of sample positions for each member."""

    async def contribute(self, step: int, ranges: Ranges) -> Contribution:
        """The mean gradient over `ranges` at the state before `step`; no ranges: a zero vector and no samples."""

    async def apply(self, committed: CommittedStep) -> bytes:
        """Takes a step, in order, once each; returns the 32-byte digest of the state after it."""

    async def state(self) -> tuple[int, bytes]:
        """The next step and the whole state before it."""

    async def restore(self, step: int, state: bytes) -> bytes | None:
        """Goes to the state before `step`; returns its digest if it is known."""
