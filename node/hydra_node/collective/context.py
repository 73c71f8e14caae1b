"""What the machines of one member share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective.keys import Keys
from hydra_node.collective.log import Log
from hydra_node.collective.messages import Message
from hydra_node.collective.options import Options
from hydra_node.collective.record import Binding, Ranges
from hydra_node.collective.vectors import Vector


@dataclass(frozen=True, slots=True)
class Offer:
    """This member's work for one step, signed; it outlives attempts and views, so no gradient is computed twice."""

    step: int
    ranges: Ranges
    binding: Binding
    vector: Vector
    telemetry: Telemetry


@dataclass(slots=True)
class Context:
    """Who this member is and what it knows beyond one height of the log.

    `down` are members that count as gone, `joining` the incarnations of those that have caught up and wait for a
    view, `leaving` those that asked to go. `assignment` is the newest plan seen: (step, ranges by peer). `settled`
    tells whether the workload is at the log's step, `state_digest` what its state is then (empty: unknown).
    """

    me: str
    incarnation: int
    swarm: bytes
    keys: Keys
    options: Options
    is_banned: Callable[[str], bool]
    send: Callable[[Iterable[str], Message], None]
    ask_plan: Callable[[int], None]
    ask_contribution: Callable[[int, Ranges], None]
    ask_lacking: Callable[[], None]
    down: set[str] = field(default_factory=set)
    joining: dict[str, int] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    telemetry: dict[str, Telemetry] = field(default_factory=dict)
    assignment: tuple[int, Mapping[str, Ranges]] | None = None
    offer: Offer | None = None
    asked: tuple[int, Ranges] | None = None
    state_digest: bytes = b""
    settled: bool = True
    until: int | None = None

    def finished(self, log: Log) -> bool:
        """Whether the last step asked for is committed."""
        return self.until is not None and log.step >= self.until

    def missing(self, peer: str) -> bool:
        """Whether `peer` is to be left out of the next view."""
        return peer in self.down or peer in self.leaving or self.is_banned(peer)

    def ranges_of(self, step: int) -> Mapping[str, Ranges] | None:
        """What the members were told to work on in `step`, if a plan was seen."""
        return self.assignment[1] if self.assignment is not None and self.assignment[0] == step else None
