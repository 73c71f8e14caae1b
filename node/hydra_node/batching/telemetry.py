"""What a worker says about the step it just did."""

import math
from dataclasses import dataclass

MAX_SAMPLES = 2**31 - 1
MAX_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One worker's account of one step; sent to the leader, so never trusted.

    `samples` were computed in `compute_seconds` of wall time (any deliberate pause that keeps the machine
    usable included), and `wait_seconds` were spent waiting for the others.
    """

    samples: int
    compute_seconds: float
    wait_seconds: float = 0.0

    def usable(self) -> bool:
        """Whether a cost can be learned from it: at least one sample, in a finite time above zero."""
        return (
            0 < self.samples <= MAX_SAMPLES
            and math.isfinite(self.compute_seconds)
            and 0.0 < self.compute_seconds <= MAX_SECONDS
        )
