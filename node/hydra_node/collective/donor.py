"""Helping those who catch up: entries when they ask, new ones once committed, the state where entries are gone."""

from collections.abc import Callable, Iterable

from hydra_node.collective import messages as msg
from hydra_node.collective.context import Context
from hydra_node.collective.log import Entry, Log
from hydra_node.collective.messages import Message

BATCH_BYTES = 4 * 1024 * 1024
FOLLOW_BEATS = 10


class Donor:
    """Knows who follows this member's log; each question gets one answer of about BATCH_BYTES at most."""

    def __init__(self, context: Context, send: Callable[[Iterable[str], Message], None]) -> None:
        self._context = context
        self._send = send
        self._followers: dict[str, float] = {}
        self._state_wanted: set[str] = set()

    def followers(self, now: float) -> tuple[str, ...]:
        """Peers that are catching up with this one's help."""
        recent = now - FOLLOW_BEATS * self._context.options.beat
        return tuple(peer for peer, at in self._followers.items() if at >= recent)

    def follow(self, peer: str, now: float) -> None:
        """From now on `peer` is told of what is committed; it says so again every beat."""
        self._followers[peer] = now

    def gone(self, peer: str) -> None:
        """A closed connection ends it."""
        self._followers.pop(peer, None)

    def answer(self, own: Log, peer: str, height: int, is_member: bool) -> None:
        """Sends the entries from `height` on, or says that they are kept no longer."""
        entries = own.since(height, BATCH_BYTES)
        if not entries and not is_member:
            # two that catch up must not take each other for the swarm
            return
        if entries is None:
            self._send((peer,), msg.Behind(height=own.height))
        else:
            self._send((peer,), msg.Committed(height=own.height, payload=msg.pack_entries(entries)))

    def pass_on(self, own: Log, entry: Entry, now: float) -> None:
        """Tells the followers of a new entry. A follower that is a member now hears of the next ones as such."""
        followers = self.followers(now)
        if followers:
            self._send(followers, msg.Committed(height=own.height, payload=msg.pack_entries([entry])))
        for peer in own.view.members:
            self._followers.pop(peer, None)

    def want_state(self, peer: str) -> bool:
        """Notes who asks for the state; True if the workload must now be asked for it."""
        first = not self._state_wanted
        self._state_wanted.add(peer)
        return first

    def give_state(self, own: Log | None, step: int, state: bytes) -> None:
        """Sends the state before `step`, with the proof of its place, to all who wanted it."""
        wanted, self._state_wanted = self._state_wanted, set()
        border = own.border(step) if own is not None else None
        if own is not None and border is not None:
            self._send(sorted(wanted), msg.State(step=step, payload=msg.pack_state(own.proof(border), state)))
