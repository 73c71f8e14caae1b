"""The enumerations of the contracts, in the order of their Solidity declarations."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Role(IntEnum):
    """What a stake is for."""

    VALIDATOR = 0
    TRAINER = 1


class Kind(IntEnum):
    """What a job pays for."""

    CAMPAIGN = 0
    TRAINING = 1


class State(IntEnum):
    """Where a job stands."""

    NONE = 0
    OPEN = 1
    COLLECTING = 2
    SCORING = 3
    CHALLENGE = 4
    SETTLED = 5
    REFUNDED = 6


class SubmissionState(IntEnum):
    """Where a submission stands."""

    NONE = 0
    COMMITTED = 1
    REVEALED = 2
    EXPIRED = 3
    REVOKED = 4


class RoundState(IntEnum):
    """Where a scoring round stands."""

    NONE = 0
    COMMIT = 1
    REVEAL = 2
    TALLIED = 3
    FAILED = 4


class DisputeState(IntEnum):
    """Where a dispute stands."""

    NONE = 0
    DRAWING = 1
    VOTING = 2
    UPHELD = 3
    OVERTURNED = 4
    UNDECIDED = 5


ENUMS: Mapping[str, type[IntEnum]] = {
    each.__name__: each for each in (Role, Kind, State, SubmissionState, RoundState, DisputeState)
}
