"""When blocks are made, and which time they carry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from eth.abc import SignedTransactionAPI
from eth_typing import Address

from hydra_node.devnet.embedded.evm import Built, EvmChain
from hydra_node.devnet.embedded.pool import TransactionPool

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_INSTANT_BUDGET = 1.0
_SHARE_OF_INTERVAL = 0.8


class ChainClock:
    """The wall clock plus what tests moved it forward; seconds."""

    def __init__(self, now: Callable[[], float] = time.time, offset: float = 0.0) -> None:
        self._now = now
        self.offset = offset

    def now(self) -> float:
        return self._now() + self.offset

    def set(self, timestamp: float) -> None:
        """Make it `timestamp` now."""
        self.offset = timestamp - self._now()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    head: bytes
    offset: float


class BlockProducer:
    """Builds blocks from the pool, one at a time, off the event loop.

    With `block_time` > 0 a block is made each `block_time` seconds, empty or not, and never dated ahead of the clock.
    With 0 a block is made as soon as a transaction can run, from all that can; dates rise by at least a second a
    block, so a busy chain may run ahead of the clock.
    """

    def __init__(
        self, chain: EvmChain, pool: TransactionPool[SignedTransactionAPI], clock: ChainClock, block_time: int
    ) -> None:
        self.chain = chain
        self.pool = pool
        self.clock = clock
        self.block_time = block_time
        self._next_timestamp: int | None = None
        self._snapshots: dict[int, _Snapshot] = {}
        self._snapshots_taken = 0
        self._turn = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="block-builder")
        if chain.head.timestamp > clock.now():
            clock.set(chain.head.timestamp)

    def transaction_arrived(self) -> None:
        """Tell the producer that the pool has something new."""
        self._arrived.set()

    async def run(self) -> None:
        """Make blocks until cancelled; a block that has begun is finished and written."""
        try:
            while True:
                if self.block_time:
                    await self._next_interval()
                else:
                    await self._next_arrival()
        finally:
            await asyncio.to_thread(self._builder.shutdown)

    async def mine(self, timestamp: int | None = None, blocks: int = 1) -> None:
        """Make blocks now. `timestamp` dates the first; the clock moves along if that is ahead of it."""
        async with self._turn:
            for _ in range(blocks):
                if timestamp is not None:
                    self.set_next_timestamp(timestamp)
                    timestamp = None
                await self._build()
                if self.chain.head.timestamp > self.clock.now():
                    self.clock.set(self.chain.head.timestamp)

    def advance(self, seconds: int) -> None:
        """Make it later, counted from the clock or from the newest block if that is ahead of the clock."""
        self.clock.set(max(self.clock.now(), self.chain.head.timestamp) + seconds)

    def next_timestamp(self) -> int:
        """The date of a block made now."""
        if self._next_timestamp is not None:
            return self._next_timestamp
        return max(int(self.clock.now()), self.chain.head.timestamp + 1)

    def set_next_timestamp(self, timestamp: int) -> None:
        """Date the next block; time goes on from there. Raises ValueError unless it is after the newest block."""
        if timestamp <= self.chain.head.timestamp:
            raise ValueError(f"timestamp {timestamp} is not after the newest block's {self.chain.head.timestamp}")
        self._next_timestamp = timestamp

    def snapshot(self) -> int:
        """Remember the present state; the number to revert to it with, until the process ends."""
        self._snapshots_taken += 1
        self._snapshots[self._snapshots_taken] = _Snapshot(self.chain.head.hash, self.clock.offset)
        return self._snapshots_taken

    async def revert(self, number: int) -> bool:
        """Go back to a snapshot, which is used up with all later ones. False if there is no such snapshot."""
        async with self._turn:
            snapshot = self._snapshots.get(number)
            if snapshot is None:
                return False
            self._snapshots = {key: value for key, value in self._snapshots.items() if key < number}
            self.pool.clear()
            self._next_timestamp = None
            await self._in_builder(lambda: self.chain.rewind(snapshot.head))
            self.clock.offset = snapshot.offset
            return True

    async def _next_interval(self) -> None:
        due = self.chain.head.timestamp + self.block_time
        delay = due - self.clock.now()
        if delay > 0 and self._next_timestamp is None:
            await asyncio.sleep(min(delay, self.block_time))
        async with self._turn:
            if self._next_timestamp is not None or self.clock.now() >= self.chain.head.timestamp + self.block_time:
                await self._build()

    async def _next_arrival(self) -> None:
        await self._arrived.wait()
        self._arrived.clear()
        async with self._turn:
            built = await self._build(only_with_transactions=True)
        if built is not None:
            self._arrived.set()

    async def _build(self, *, only_with_transactions: bool = False) -> Built | None:
        return await self._in_builder(lambda: self._build_in_thread(only_with_transactions))

    def _build_in_thread(self, only_with_transactions: bool) -> Built | None:
        state = self.chain.state(self.chain.head)
        candidates = self.pool.executable(lambda sender: state.get_nonce(Address(sender)))
        if only_with_transactions and not candidates:
            return None
        budget = self.block_time * _SHARE_OF_INTERVAL if self.block_time else _INSTANT_BUDGET
        timestamp, dated = self.next_timestamp(), self._next_timestamp is not None
        built = self.chain.build(candidates, timestamp, budget)
        if dated:
            self._next_timestamp = None
            self.clock.set(timestamp)
        mined = {transaction.hash for transaction in built.block.transactions}
        self.pool.discard([transaction for transaction in candidates if transaction.hash in mined])
        for transaction, reason in built.rejected:
            log.warning("dropped transaction 0x%s: %s", transaction.hash.hex(), reason)
        self.pool.discard([transaction for transaction, _ in built.rejected])
        return built

    async def _in_builder(self, work: Callable[[], Result]) -> Result:
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._builder, work))
