"""What has happened on chain so far, kept current, and a way to wait for what comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from hydra_node.chain.events import Event, EventLog
from hydra_node.chain.feed import EventFeed
from hydra_node.errors import HydraError

POLL_SECONDS = 0.3


class NotSeenOnChain(HydraError):
    """Something that was waited for did not happen on chain in time."""


class History:
    """Every event of a deployment, in the order of the chain; a reorganisation takes its events back out."""

    def __init__(self, log: EventLog, from_block: int = 0) -> None:
        self._feed = EventFeed(log, from_block)
        self._events: dict[tuple[bytes, int], Event] = {}
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read up to the newest block."""
        with self._lock:
            update = self._feed.poll()
            for event in update.removed:
                self._events.pop((event.block_hash, event.log_index), None)
            for event in update.added:
                self._events[event.block_hash, event.log_index] = event

    def all(self) -> list[Event]:
        """Every event so far."""
        with self._lock:
            return list(self._events.values())

    def find(self, name: str, contract: str = "", **args: Any) -> list[Event]:
        """The events of that name whose arguments equal `args`; `contract` tells equal names apart."""
        return [
            event
            for event in self.all()
            if event.name == name
            and (not contract or event.contract == contract)
            and all(event.args[key] == value for key, value in args.items())
        ]

    async def wait_for(self, seek: Callable[[History], list[Event]], what: str, timeout: float) -> Event:
        """The first event that `seek` finds in the history, now or later. Raises NotSeenOnChain after `timeout` s."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    await asyncio.to_thread(self.refresh)
                    if found := seek(self):
                        return found[0]
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotSeenOnChain(
                f"{what} was not seen on chain in {timeout:.0f} s", remedy="check that the chain makes blocks"
            ) from None


def evidence_of(history: History, tallied: Event) -> str:
    """The CID of the document behind a `Tallied`: the one that its first backer named."""
    result = {name: tallied.args[name] for name in ("roundId", "root", "total")}
    return str(history.find("Revealed", "QualityRounds", **result)[0].args["evidenceCid"])
