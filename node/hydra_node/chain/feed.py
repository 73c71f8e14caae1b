"""Events as they come, for who acts on them: each once, and again as removed when a reorganisation takes it back."""

from __future__ import annotations

from dataclasses import dataclass

from hydra_node.chain.events import Event, EventLog

DEPTH = 64


@dataclass(frozen=True, slots=True)
class Update:
    """What changed since the last poll. `removed` is newest first, to be undone in that order; then apply `added`."""

    added: tuple[Event, ...]
    removed: tuple[Event, ...]
    head: int


class EventFeed:
    """Follows an `EventLog` from `from_block` on.

    The newest `depth` blocks are read again at each poll, and events are known by (block hash, log index): what is no
    longer there was taken back. A reorganisation deeper than `depth` is not noticed. With `confirmations`, only
    events with so many blocks above theirs are reported.
    """

    def __init__(self, log: EventLog, from_block: int = 0, *, depth: int = DEPTH, confirmations: int = 0) -> None:
        self._log = log
        self._first = from_block
        self._next = from_block
        self._depth = depth
        self._confirmations = confirmations
        self._recent: dict[tuple[bytes, int], Event] = {}

    def poll(self) -> Update:
        """Read up to the head of the chain. Raises what `EventLog.poll` raises; then nothing is lost or repeated."""
        head = self._log.head() - self._confirmations
        start = max(self._first, min(self._next, head - self._depth + 1))
        fresh = {(event.block_hash, event.log_index): event for event in self._log.poll(start, head)}
        known = {key: event for key, event in self._recent.items() if event.block >= start}
        added = tuple(event for key, event in fresh.items() if key not in known)
        removed = tuple(event for key, event in reversed(known.items()) if key not in fresh)
        self._recent = {key: event for key, event in fresh.items() if event.block > head - self._depth}
        self._next = max(head + 1, self._first)
        return Update(added, removed, head)
