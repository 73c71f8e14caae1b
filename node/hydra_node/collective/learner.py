"""Catching up: following the log through one donor, asking for the state where the log does not reach back."""

import hashlib
import logging
from collections.abc import Callable, Iterable

import msgspec

from hydra_node.collective.context import Context
from hydra_node.collective.log import Log
from hydra_node.collective.messages import Message, StateRequest, Status

log = logging.getLogger(__name__)

Send = Callable[[Iterable[str], Message], None]

DONOR_BEATS = 4
STATE_BEATS = 20


class Learner:
    """Follows one donor at a time, not the leader where another is at hand; a silent or lying one is replaced.

    One question is under way at a time: a donor answers each with up to a batch of entries, and passes on by itself
    what is committed later. Once everything that the donor has is applied here, the leader is asked for a place in the
    next view. `state_asked` while a state is on its way.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._donor: str | None = None
        self._asked_at: float | None = None
        self._patience = DONOR_BEATS * context.options.beat
        self._bad: set[str] = set()
        self._head: int | None = None
        self._told_ready = False
        self.state_asked = False
        self._state_due = float("-inf")
        self._state_from: list[str] = []

    def beat(self, own: Log, discovered: Iterable[str], status: Status, now: float, send: Send) -> None:
        """Asks again, which also tells the donor that this one still follows; another donor if it was silent."""
        overdue = self._asked_at is not None and now - self._asked_at > self._patience
        if overdue:
            self._patience *= 2
        if overdue or self._donor is None:
            self._choose(own, discovered, now)
        self._told_ready = False
        self._ask(status, now, send)
        self.go_on(own, status, now, send)

    def go_on(self, own: Log, status: Status, now: float, send: Send) -> None:
        """Asks for what the donor has and this one lacks, or for a place in the view if that is nothing."""
        if self._head is None or own.height < self._head:
            self._ask(status, now, send)
        elif self._context.settled and not self._told_ready:
            self._told_ready = True
            send(self._leader(own), msgspec.structs.replace(status, ready=True))

    def heard(self, sender: str, head: int, own: Log, grew: bool, now: float) -> None:
        """A message of the donor, whose log reaches `head`: was it the answer, or only something newer?"""
        if sender != self._donor:
            return
        self._head = head
        if self._asked_at is not None and (grew or head <= own.height):
            self._patience = max(DONOR_BEATS * self._context.options.beat, 2 * (now - self._asked_at))
            self._asked_at = None

    def behind(self, height: int) -> None:
        """The swarm is at `height` already."""
        if self._head is not None:
            self._head = max(self._head, height)

    def gone(self, peer: str) -> None:
        """A closed connection ends its donations."""
        if peer == self._donor:
            self._donor = self._asked_at = None

    def _ask(self, status: Status, now: float, send: Send) -> None:
        if self._asked_at is None and self._donor is not None:
            self._asked_at = now
            send((self._donor,), msgspec.structs.replace(status, follow=True, ask=True))

    def distrust(self, peer: str) -> None:
        """Never again asks one that sent what does not fit."""
        self._bad.add(peer)
        self.gone(peer)

    def compare(self, step: int, digest: bytes, agreed: bytes) -> bool:
        """Whether the state before `step` is the one that the members agreed on, as far as is known."""
        if not digest or not agreed or digest == agreed:
            return True
        log.warning("the state before step %d differs from the others': fetching theirs", step)
        return False

    def ask_state(self, peers: Iterable[str], now: float, send: Send) -> None:
        """Asks one of `peers` for the state, and another one if it takes too long."""
        if self.state_asked and now < self._state_due:
            return
        self._state_from = [peer for peer in peers if peer != self._context.me and peer not in self._bad]
        if not self._state_from:
            return
        self.state_asked = True
        self._state_due = now + STATE_BEATS * self._context.options.beat
        send((self._order(self._state_from, int(now))[0],), StateRequest())

    def repeat(self, now: float, send: Send) -> None:
        """Asks again for a state that did not come."""
        if self.state_asked and now >= self._state_due:
            self.ask_state(list(self._state_from), now, send)

    def _leader(self, own: Log) -> list[str]:
        """The first member that is there: not an earlier run of this peer, nor one that is gone."""
        gone = {self._context.me, *self._context.down}
        return [peer for peer in own.view.members if peer not in gone][:1]

    def _choose(self, own: Log, discovered: Iterable[str], now: float) -> None:
        leader = own.view.members[0]
        known = [*own.view.members, *discovered]
        peers = {peer for peer in known if peer not in self._bad and peer != self._context.me}
        alive = [peer for peer in peers if peer not in self._context.down]
        order = self._order([peer for peer in alive if peer != leader] or alive or sorted(peers), int(now))
        previous, self._donor = self._donor, order[0] if order else None
        if self._donor == previous and len(order) > 1:
            self._donor = order[1]
        self._head = self._asked_at = None

    def _order(self, peers: list[str], salt: int) -> list[str]:
        """A different order for each newcomer and moment, so that none swamps one donor."""
        seed = f"{self._context.me} {salt} "
        return sorted(peers, key=lambda peer: hashlib.sha256((seed + peer).encode()).digest())
