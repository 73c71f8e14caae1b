"""The chain as a validator's agents see it: one task reads it, the others wait for what they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from hydra_node.chain.clock import chain_time
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.events import Event
from hydra_node.chain.rpc import RpcError, RpcUnavailable
from hydra_node.errors import HydraError

POLL_SECONDS = 0.4
Report = Callable[[str, str, dict[str, Any]], None]
T = TypeVar("T")


class TooLate(HydraError):
    """Something that was waited for had not happened when its time on chain was over."""


class Watch:
    """The deployment's events so far, and chain time; `run` keeps both current."""

    def __init__(self, client: ChainClient, report: Report) -> None:
        self.client = client
        self.now = 0  # chain time, seconds
        self._report = report
        self._history = client.history
        self._news = asyncio.Condition()

    async def run(self) -> None:
        """Read the chain until cancelled; an endpoint that does not answer is asked again."""
        while True:
            try:
                await asyncio.to_thread(self._history.refresh)
                self.now = await asyncio.to_thread(chain_time, self.client.rpc)
            except (RpcUnavailable, RpcError) as error:
                self._report("chain_unavailable", str(error), {})
            async with self._news:
                self._news.notify_all()
            await asyncio.sleep(POLL_SECONDS)

    def find(self, name: str, contract: str = "", *, final: bool = False, **args: Any) -> list[Event]:
        """The events so far with that name and these arguments, in chain order; with `final`, those that stay."""
        return self._history.find(name, contract, final=final, **args)

    def all(self, *names: str) -> list[Event]:
        """The events so far with any of these names, in chain order."""
        return sorted((event for name in names for event in self._history.find(name)), key=position)

    def first(self, name: str, contract: str = "", **args: Any) -> Event | None:
        found = self.find(name, contract, **args)
        return found[0] if found else None

    async def until(self, seek: Callable[[], T | None], what: str, by: int | None = None) -> T:
        """Wait until `seek` finds something; with `by`, at most until chain time has passed `by` (TooLate)."""
        async with self._news:
            while (found := seek()) is None:
                if by is not None and self.now > by:
                    raise TooLate(f"chain time is {self.now}: too late for {what}", expected=f"before {by}")
                await self._news.wait()
            return found

    async def until_time(self, timestamp: int) -> None:
        """Wait until chain time has reached `timestamp`."""
        await self.until(lambda: self.now >= timestamp or None, "a time")


def position(event: Event) -> tuple[int, int, int]:
    """Where an event stands in the order of the chain."""
    return event.block, event.tx_index, event.log_index
