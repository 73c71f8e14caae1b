"""Tells the DHT which roots this node keeps: every pin of its store, also those that other processes set."""

import asyncio
from pathlib import Path

from hydra_node.p2p.blocks import BlockExchange
from hydra_node.storage.blockstore import BlockStore
from hydra_node.storage.cid import Cid

POLL_SECONDS = 0.2


class Announcer:
    """Follows the store's pins. A pin is a file (blockstore.py), so the folder's time of change says when to look."""

    def __init__(self, store: BlockStore, exchange: BlockExchange) -> None:
        self._store = store
        self._exchange = exchange
        self._folder: Path = store.directory / "pins"
        self._seen: int = -1
        self._announced: set[Cid] = set()

    async def run(self) -> None:
        """Announce new pins and withdraw removed ones, until cancelled."""
        while True:
            await self.catch_up()
            await asyncio.sleep(POLL_SECONDS)

    async def catch_up(self) -> None:
        """Bring the announcements in line with the pins of this moment."""
        changed = self._folder.stat().st_mtime_ns
        if changed == self._seen:
            return
        pins = set(await asyncio.to_thread(self._store.pins))
        for cid in self._announced - pins:
            self._exchange.withdraw(cid)
        for cid in pins - self._announced:
            await self._exchange.provide(cid)
        self._announced = pins
        self._seen = changed
