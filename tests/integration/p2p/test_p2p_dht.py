"""Discovery among real nodes over UDP, some of them dead, late or false."""

import asyncio
import signal
import socket
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from p2p_world import address_of, peer, peer_process, until

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.errors import BadRecord
from hydra_node.p2p.identity import Identity
from hydra_node.p2p.node import PeerNode
from hydra_node.p2p.records import make_record
from hydra_node.p2p.rpc import Answer, Ping, Store, node_id_of


async def joined(*nodes: PeerNode, others: int | None = None) -> None:
    """Wait until every node knows enough others."""
    wanted = len(nodes) - 1 if others is None else others
    await until(lambda: all(len(node.dht.contacts) >= wanted for node in nodes))


async def values(node: PeerNode, key: str) -> list[bytes]:
    return sorted(record.value for record in await node.dht.find(key))


async def test_eight_nodes_find_each_others_records_with_one_killed() -> None:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(peer())]
        for _ in range(6):
            nodes.append(await stack.enter_async_context(peer(nodes[0])))
        process, at = await stack.enter_async_context(peer_process(nodes[0]))
        await joined(*nodes, others=7)
        for node in nodes:
            await node.dht.publish(f"name/{node.peer_id}", node.peer_id.encode(), 600)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        for asking in nodes:
            for asked in nodes:
                assert await values(asking, f"name/{asked.peer_id}") == [asked.peer_id.encode()]
            assert await values(asking, f"name/{at.peer_id}") == [b"from another process"]


async def test_all_publishers_values_are_merged_even_when_one_datagram_cannot_hold_them() -> None:
    """Of twelve nodes only eight hold a key, so that some readers have to ask."""
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(peer())]
        for _ in range(11):
            nodes.append(await stack.enter_async_context(peer(nodes[0])))
        await joined(*nodes, others=8)
        expected = sorted(bytes([n]) * 4000 for n in range(6))
        for node, value in zip(nodes, expected, strict=False):
            assert await node.dht.publish("data/1", value, 600) >= 1
        for node in nodes:
            assert await values(node, "data/1") == expected


async def test_a_newer_value_of_one_publisher_is_what_others_find() -> None:
    async with peer() as a, peer(a) as b:
        await joined(a, b)
        await a.dht.publish("k", b"old", 600)
        await a.dht.publish("k", b"new", 600)
        assert await values(b, "k") == [b"new"]


async def test_a_withdrawn_value_is_published_no_more() -> None:
    async with peer() as a:
        await a.dht.publish("k", b"v", 600)
        a.dht.withdraw("k")
        assert await values(a, "k") == []


async def test_a_peer_is_reached_by_id_alone() -> None:
    async with peer() as a, peer(a) as b, peer(a) as c:
        await joined(a, b, c)
        assert (await b.request(c.peer_id, "echo/1", b"x")).body == b"x"


async def test_nodes_start_while_their_bootstrap_is_down_and_meet_when_it_comes() -> None:
    identity = Identity.generate()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = [PeerAddress("127.0.0.1", port, identity.peer_id)]
    async with PeerNode.start(Identity.generate(), bootstrap=start) as a:
        assert await a.dht.publish("early", b"v", 600) == 0
        async with (
            PeerNode.start(Identity.generate(), bootstrap=start) as b,
            peer(identity=identity, port=port),
        ):

            async def found() -> bool:
                return await values(b, "early") == [b"v"]

            await until(found)


async def test_a_record_outlives_its_publisher_among_those_that_came_later() -> None:
    async with peer() as a, AsyncExitStack() as publisher:
        b = await publisher.enter_async_context(peer(a))
        await joined(a, b)
        await b.dht.publish("k", b"v", 600)
        async with peer(a) as late:
            await joined(late, others=2)
            await publisher.aclose()
            assert await values(late, "k") == [b"v"]


async def test_known_nodes_survive_a_restart_without_any_bootstrap(tmp_path: Path) -> None:
    identity = Identity.generate()
    async with peer() as a:
        async with peer(a, identity=identity, state_dir=tmp_path) as b:
            await joined(a, b)
        await a.dht.publish("k", b"v", 600)
        async with peer(identity=identity, state_dir=tmp_path) as b:
            await joined(b, others=1)
            assert await values(b, "k") == [b"v"]


class Stranger(asyncio.DatagramProtocol):
    """Sends what it likes from a UDP port of its own, and keeps what comes back."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.got.put_nowait(data)


async def test_garbage_and_forged_records_change_nothing() -> None:
    async with peer() as a, peer(a) as b:
        await joined(a, b)
        await a.dht.publish("k", b"good", 600)
        loop = asyncio.get_running_loop()
        transport, stranger = await loop.create_datagram_endpoint(Stranger, local_addr=("127.0.0.1", 0))
        target = (address_of(b).host, address_of(b).port)
        me = node_id_of(Identity.generate().peer_id)
        forged = msgspec.structs.replace(
            make_record(a.identity, "k", b"good", sequence=2**62, expires=int(time.time()) + 600), value=b"evil"
        )
        for data in [
            b"",
            b"\xff" * 100,
            b"\x91" * 8000,
            bytes(9000),
            msgspec.msgpack.encode(Answer(b"12345678", me)),
            msgspec.msgpack.encode(Ping(b"1234", b"short")),
        ]:
            transport.sendto(data, target)
        transport.sendto(msgspec.msgpack.encode(Store(b"87654321", me, msgspec.msgpack.encode(forged))), target)
        async with asyncio.timeout(30):
            while True:
                reply = msgspec.msgpack.decode(await stranger.got.get())
                if reply[0] == "hydra1.answer":
                    assert reply[1] == b"87654321"
                    assert reply[3] is False, "the forged record was kept"
                    break
        transport.close()
        assert await values(b, "k") == [b"good"]


async def test_a_forged_source_address_does_not_enter_the_table() -> None:
    """A node is kept only after it answered: this one asks but never answers."""
    async with peer() as a:
        loop = asyncio.get_running_loop()
        transport, stranger = await loop.create_datagram_endpoint(Stranger, local_addr=("127.0.0.1", 0))
        me = node_id_of(Identity.generate().peer_id)
        transport.sendto(msgspec.msgpack.encode(Ping(b"12345678", me)), (address_of(a).host, address_of(a).port))
        async with asyncio.timeout(30):
            await stranger.got.get()
        assert a.dht.contacts == []
        transport.close()


async def test_what_may_not_be_published_is_refused_by_name() -> None:
    async with peer() as a:
        with pytest.raises(BadRecord):
            await a.dht.publish("k", bytes(4096), 600)
        with pytest.raises(BadRecord):
            await a.dht.publish(f"peer/{Identity.generate().peer_id}", b"", 600)
        with pytest.raises(BadRecord):
            await a.dht.publish("k", b"", 10**9)
