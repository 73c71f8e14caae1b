"""What goes into a member and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective.messages import Message
from hydra_node.collective.record import Ranges
from hydra_node.collective.workload import CommittedStep, Contribution

# events


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from a peer that the transport has authenticated."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True)
class PeerDown:
    """The connection with a peer closed."""

    peer: str


@dataclass(frozen=True, slots=True)
class Discovered:
    """Peers that are said to belong to the swarm."""

    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; due at `Member.wake_at`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to AskPlan."""

    step: int
    ranges: Mapping[str, Ranges]


@dataclass(frozen=True, slots=True)
class Contributed:
    """The answer to AskContribution."""

    step: int
    ranges: Ranges
    contribution: Contribution


@dataclass(frozen=True, slots=True)
class Applied:
    """The workload took a step; `state_digest` is its state's after it."""

    step: int
    state_digest: bytes


@dataclass(frozen=True, slots=True)
class StateTaken:
    """The answer to AskState: the whole state before `step`."""

    step: int
    state: bytes


@dataclass(frozen=True, slots=True)
class Restored:
    """The workload is at the state before `step`."""

    step: int
    state_digest: bytes


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The owner of this machine wants it out of the swarm after the step."""


Event = (
    Received | PeerDown | Discovered | Tick | Planned | Contributed | Applied | StateTaken | Restored | LeaveRequested
)

# actions


@dataclass(frozen=True, slots=True)
class Send:
    """Bring a message to a peer; it may get lost."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class AskPlan:
    """Have the workload plan a step."""

    step: int
    members: tuple[str, ...]
    telemetry: Mapping[str, Telemetry]


@dataclass(frozen=True, slots=True)
class AskContribution:
    """Have the workload compute."""

    step: int
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Apply:
    """Have the workload take an agreed step."""

    committed: CommittedStep


@dataclass(frozen=True, slots=True)
class AskState:
    """Have the workload hand over its state."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Have the workload go to another state."""

    step: int
    state: bytes


Action = Send | AskPlan | AskContribution | Apply | AskState | Restore


class Role(Enum):
    """What a member is doing in the large."""

    FORMING = "forming"
    LEARNING = "catching up"
    MEMBER = "member"
    WAITING = "waiting for a majority"
    LEFT = "left"
    EJECTED = "ejected"
