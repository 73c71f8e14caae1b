"""What waits for a peer that takes nothing is bounded."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from hydra_node.collective import messages as msg
from hydra_node.collective.outbox import MAX_BYTES, Outbox
from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.node import PeerNode

PEER = PeerId("somebody")


class Stalled:
    """A node whose peer takes nothing until `taking` is set."""

    def __init__(self) -> None:
        self.taking = asyncio.Event()
        self.sent: list[int] = []
        self.all_sent = asyncio.Event()
        self.expected = 0

    async def send(self, peer: PeerId, protocol: str, body: bytes, payload: bytes, timeout: float) -> None:
        await self.taking.wait()
        self.sent.append(len(payload))
        if len(self.sent) == self.expected:
            self.all_sent.set()


@pytest.fixture
async def stalled() -> AsyncIterator[tuple[Stalled, Outbox]]:
    node = Stalled()
    async with asyncio.TaskGroup() as tasks:
        outbox = Outbox(cast(PeerNode, node), "test", tasks, lambda peer: None)
        yield node, outbox
        outbox.close()


def part(height: int, payload: bytes) -> msg.Part:
    return msg.Part(height=height, view=1, attempt=0, owner="a", payload=payload)


async def test_answers_to_one_that_catches_up_do_not_pile_up(stalled: tuple[Stalled, Outbox]) -> None:
    node, outbox = stalled
    for height in range(100):
        outbox.send(PEER, msg.Committed(height=height, payload=bytes(1000)))
    assert outbox.waiting(PEER) == 1000
    node.expected = 1
    node.taking.set()
    await node.all_sent.wait()
    node.all_sent.clear()
    await asyncio.sleep(0)
    node.expected = 2
    outbox.send(PEER, msg.Committed(height=100, payload=bytes(500)))
    await node.all_sent.wait()
    assert node.sent == [1000, 500]


async def test_payloads_that_wait_for_one_peer_are_bounded(stalled: tuple[Stalled, Outbox]) -> None:
    _, outbox = stalled
    payload = bytes(MAX_BYTES // 10)
    for height in range(50):
        outbox.send(PEER, part(height, payload))
    assert MAX_BYTES / 2 < outbox.waiting(PEER) <= MAX_BYTES


async def test_a_single_payload_may_be_larger(stalled: tuple[Stalled, Outbox]) -> None:
    node, outbox = stalled
    node.expected = 1
    outbox.send(PEER, part(1, bytes(MAX_BYTES + 1)))
    node.taking.set()
    await node.all_sent.wait()
    assert node.sent == [MAX_BYTES + 1]
