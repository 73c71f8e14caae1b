"""When the embedded chain makes blocks and how they are dated, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from eth_account import Account

from hydra_node.devnet.embedded.evm import EvmChain, Genesis
from hydra_node.devnet.embedded.pool import TransactionPool
from hydra_node.devnet.embedded.producer import BlockProducer, ChainClock
from hydra_node.devnet.embedded.store import BlockStore

START = 1_700_000_000
ALICE = Account.from_key(b"\x01" * 32)


class HandClock:
    """A wall clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = float(START)

    def __call__(self) -> float:
        return self.time


class Devnet:
    """A chain in memory with its pool, producer and clock."""

    def __init__(self, block_time: int) -> None:
        self.wall = HandClock()
        self.chain = EvmChain.open(BlockStore(None), Genesis(99, START, {bytes.fromhex(ALICE.address[2:]): 10**20}))
        self.pool: TransactionPool[Any] = TransactionPool()
        self.clock = ChainClock(self.wall)
        self.producer = BlockProducer(self.chain, self.pool, self.clock, block_time)

    @property
    def number(self) -> int:
        return self.chain.head.block_number

    @property
    def timestamp(self) -> int:
        return self.chain.head.timestamp

    def send(self, nonce: int) -> None:
        fields = {"type": 2, "chainId": 99, "nonce": nonce, "gas": 21_000, "maxFeePerGas": 10**9}
        signed = ALICE.sign_transaction({**fields, "maxPriorityFeePerGas": 1, "to": ALICE.address, "value": 1})
        self.pool.add(self.chain.decode(bytes(signed.raw_transaction)), account_nonce=0, balance=10**20)
        self.producer.transaction_arrived()

    @asynccontextmanager
    async def running(self):  # type: ignore[no-untyped-def]  # a test helper
        task = asyncio.create_task(self.producer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  the chain has no event to wait for
            await asyncio.sleep(0.01)


async def test_a_block_a_second_empty_or_not_and_never_ahead_of_the_clock() -> None:
    devnet = Devnet(block_time=1)
    async with devnet.running():
        for second in range(1, 4):
            devnet.wall.time = START + second + 0.4
            await until(lambda second=second: devnet.number == second)  # type: ignore[misc]  # the value now
            assert devnet.timestamp == START + second
        await asyncio.sleep(0)
        assert devnet.number == 3


async def test_transactions_wait_for_the_next_block_and_share_it() -> None:
    devnet = Devnet(block_time=1)
    async with devnet.running():
        for nonce in range(3):
            devnet.send(nonce)
        assert devnet.number == 0
        devnet.wall.time = START + 1
        await until(lambda: devnet.number == 1)
    assert len(devnet.chain.block(devnet.chain.head).transactions) == 3
    assert len(devnet.pool) == 0


async def test_at_once_means_without_the_clock_and_without_empty_blocks() -> None:
    devnet = Devnet(block_time=0)
    async with devnet.running():
        devnet.send(0)
        await until(lambda: len(devnet.pool) == 0)
        devnet.send(1)
        await until(lambda: len(devnet.pool) == 0)
    assert devnet.number == 2
    assert devnet.timestamp == START + 2


async def test_at_once_holds_back_what_has_a_gap_before_it() -> None:
    devnet = Devnet(block_time=0)
    async with devnet.running():
        devnet.send(1)
        devnet.send(0)
        await until(lambda: len(devnet.pool) == 0)
    assert devnet.chain.state(devnet.chain.head).get_nonce(bytes.fromhex(ALICE.address[2:])) == 2  # type: ignore[arg-type]  # an address


async def test_mining_by_hand_takes_the_clock_along() -> None:
    devnet = Devnet(block_time=1)
    await devnet.producer.mine(blocks=5)
    assert (devnet.number, devnet.timestamp) == (5, START + 5)
    assert devnet.clock.now() == START + 5
    await devnet.producer.mine(START + 100)
    assert devnet.timestamp == START + 100
    assert devnet.clock.now() == START + 100


async def test_moved_time_is_the_time_of_the_next_block() -> None:
    devnet = Devnet(block_time=1)
    devnet.clock.offset += 3600
    await devnet.producer.mine()
    assert devnet.timestamp == START + 3600


async def test_the_next_block_can_be_dated_but_not_before_the_newest() -> None:
    devnet = Devnet(block_time=1)
    devnet.producer.set_next_timestamp(START + 50)
    async with devnet.running():
        await until(lambda: devnet.number == 1)
    assert devnet.timestamp == START + 50
    with pytest.raises(ValueError, match="not after the newest"):
        devnet.producer.set_next_timestamp(START + 50)


async def test_a_snapshot_brings_back_blocks_and_time_once() -> None:
    devnet = Devnet(block_time=1)
    await devnet.producer.mine()
    first = devnet.producer.snapshot()
    second = devnet.producer.snapshot()
    devnet.clock.offset += 1000
    await devnet.producer.mine(blocks=2)
    assert await devnet.producer.revert(first)
    assert (devnet.number, devnet.clock.now()) == (1, START + 1)
    assert not await devnet.producer.revert(second)
    assert not await devnet.producer.revert(first)


async def test_a_chain_that_was_ahead_of_the_clock_goes_on_from_there() -> None:
    devnet = Devnet(block_time=1)
    await devnet.producer.mine(START + 5000)
    later = BlockProducer(devnet.chain, devnet.pool, ChainClock(devnet.wall), 1)
    assert later.next_timestamp() == START + 5001
