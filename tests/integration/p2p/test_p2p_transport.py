"""Requests between real peers: large ones, many at once, and what happens when one side dies, stops or misbehaves."""

import asyncio
import os
import signal

import pytest
from p2p_world import address_of, peer, peer_process, until

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.connection import ConnectionOptions
from hydra_node.p2p.errors import (
    FrameTooLarge,
    PeerDisconnected,
    PeerUnreachable,
    PortUnavailable,
    RemoteError,
    RequestTimeout,
)
from hydra_node.p2p.frames import Limits, Message
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.node import NodeOptions, PeerNode
from hydra_node.p2p.records import BadRecord
from hydra_node.p2p.transport import TransportOptions

MB = 1024 * 1024
PATIENT = NodeOptions(transport=TransportOptions(silence=600.0))
"""So that a noticed death was a closed socket, not a missed sign of life."""


def with_limits(**limits: int) -> NodeOptions:
    return NodeOptions(transport=TransportOptions(connection=ConnectionOptions(Limits(**limits))))


async def test_twenty_megabytes_go_there_and_back() -> None:
    payload = os.urandom(20 * MB)
    async with peer() as a, peer(a) as b:
        answer = await b.request(a.peer_id, "echo/1", b"body", payload)
        assert answer.body == b"body"
        assert answer.payload == payload


async def test_a_small_request_passes_two_large_ones() -> None:
    finished: list[str] = []

    async with peer() as a, peer(a) as b:

        async def ask(name: str, payload: bytes) -> bool:
            answer = await b.request(a.peer_id, "echo/1", payload=payload)
            finished.append(name)
            return answer.payload == payload

        await b.request(a.peer_id, "echo/1")
        first, second = os.urandom(32 * MB), os.urandom(32 * MB)
        same = await asyncio.gather(ask("first", first), ask("second", second), ask("small", b"x"))
        assert all(same)
        assert finished[0] == "small"


async def test_many_requests_share_one_connection() -> None:
    async with peer() as a, peer(a) as b:
        bodies = [str(n).encode() for n in range(200)]
        answers = await asyncio.gather(*(b.request(a.peer_id, "echo/1", body) for body in bodies))
        assert [answer.body for answer in answers] == bodies
        assert (await a.request(b.peer_id, "echo/1", b"back")).body == b"back"
        assert len(a.peers) == len(b.peers) == 1


async def test_one_way_messages_arrive() -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(sender: PeerId, message: Message) -> None:
        got.put_nowait(bytes(message.payload))

    async with peer() as a, peer(a) as b:
        a.handle("take/1", take)
        await b.send(a.peer_id, "take/1", payload=b"x" * MB)
        async with asyncio.timeout(30):
            assert await got.get() == b"x" * MB


async def test_peers_that_dial_each_other_at_once_end_with_one_connection() -> None:
    for _ in range(10):
        async with peer() as a, peer() as b:
            lost: list[PeerId] = []
            a.on_disconnect(lost.append)
            b.on_disconnect(lost.append)
            a.learn([address_of(b)])
            b.learn([address_of(a)])
            answers = await asyncio.gather(
                *(one.request(two.peer_id, "echo/1", b"x") for one, two in [(a, b), (b, a)] * 3)
            )
            assert len(answers) == 6
            assert (a.peers, b.peers) == ((b.peer_id,), (a.peer_id,))
            assert lost == []


async def test_a_killed_process_is_noticed_at_once_by_all_who_wait() -> None:
    async with peer(options=PATIENT) as node, peer_process(node) as (process, at):
        lost: list[PeerId] = []
        node.on_disconnect(lost.append)
        node.learn([at])
        waiting = asyncio.create_task(node.request(at.peer_id, "hang/1", timeout=600))
        assert (await node.request(at.peer_id, "echo/1", b"x")).body == b"x"
        process.send_signal(signal.SIGKILL)
        with pytest.raises(PeerDisconnected):
            await asyncio.wait_for(waiting, 30)
        await until(lambda: lost == [at.peer_id])
        with pytest.raises(PeerUnreachable):
            await node.request(at.peer_id, "echo/1")


async def test_a_stopped_process_is_noticed_by_its_silence() -> None:
    options = NodeOptions(transport=TransportOptions(keepalive=0.2, silence=1.0))
    async with peer(options=options) as node, peer_process(node) as (process, at):
        lost: list[PeerId] = []
        node.on_disconnect(lost.append)
        node.learn([at])
        await node.request(at.peer_id, "echo/1")
        process.send_signal(signal.SIGSTOP)
        await until(lambda: lost == [at.peer_id])


async def test_an_idle_connection_stays() -> None:
    options = NodeOptions(transport=TransportOptions(keepalive=0.05, silence=0.5))
    async with peer(options=options) as a, peer(a, options=options) as b:
        lost: list[PeerId] = []
        a.on_disconnect(lost.append)
        await b.request(a.peer_id, "echo/1")
        await asyncio.sleep(1.0)  # twice the silence that would end it
        assert lost == []
        assert a.peers == (b.peer_id,)


async def test_a_peer_that_restarts_is_reached_again() -> None:
    identity = Identity.generate()
    async with peer() as a:
        async with peer(a, identity=identity) as b:
            port = address_of(b).port
            a.learn([address_of(b)])
            await a.request(b.peer_id, "echo/1")
        await until(lambda: a.peers == ())
        with pytest.raises(PeerUnreachable):
            await a.request(identity.peer_id, "echo/1")
        async with peer(a, identity=identity, port=port):
            assert (await a.request(identity.peer_id, "echo/1", b"again")).body == b"again"


async def test_a_late_answer_is_a_timeout_and_the_work_for_it_stops() -> None:
    stopped = asyncio.Event()

    async def slow(sender: PeerId, message: Message) -> Message:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return message

    async with peer() as a, peer(a) as b:
        a.handle("slow/1", slow)
        with pytest.raises(RequestTimeout, match=r"slow/1.*within 0\.\d+ s"):
            await b.request(a.peer_id, "slow/1", timeout=0.2)
        async with asyncio.timeout(30):
            await stopped.wait()
        assert (await b.request(a.peer_id, "echo/1", b"x")).body == b"x"


async def test_errors_travel_by_name() -> None:
    async def broken(sender: PeerId, message: Message) -> Message:
        raise BadRecord("no such thing", expected="another")

    async def faulty(sender: PeerId, message: Message) -> Message:
        raise ZeroDivisionError

    async with peer() as a, peer(a) as b:
        a.handle("broken/1", broken)
        a.handle("faulty/1", faulty)
        for protocol, name in [
            ("broken/1", "BadRecord"),
            ("faulty/1", "ZeroDivisionError"),
            ("unheard/1", "UnknownProtocol"),
        ]:
            with pytest.raises(RemoteError) as caught:
                await b.request(a.peer_id, protocol)
            assert caught.value.name == name
        assert (await b.request(a.peer_id, "echo/1", b"x")).body == b"x"


async def test_too_large_a_payload_is_refused_before_it_is_sent() -> None:
    async with peer() as a, peer(a, options=with_limits(payload=MB)) as b:
        with pytest.raises(FrameTooLarge):
            await b.request(a.peer_id, "echo/1", payload=bytes(MB + 1))


async def test_who_sends_more_than_agreed_is_dropped() -> None:
    async with peer(options=with_limits(payload=MB)) as a, peer(a) as b, peer(a) as c:
        with pytest.raises(PeerDisconnected):
            await b.request(a.peer_id, "echo/1", payload=bytes(2 * MB))
        assert (await c.request(a.peer_id, "echo/1", b"x")).body == b"x"


async def test_more_requests_than_can_be_handled_are_refused_not_queued() -> None:
    options = NodeOptions(transport=TransportOptions(connection=ConnectionOptions(max_handlers=4)))
    async with peer(options=options) as a, peer(a) as b:
        hanging = [asyncio.create_task(b.request(a.peer_id, "hang/1", timeout=60)) for _ in range(4)]
        refused = [asyncio.create_task(b.request(a.peer_id, "hang/1", timeout=60)) for _ in range(4)]
        done, _ = await asyncio.wait([*hanging, *refused], timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert done
        with pytest.raises(RemoteError, match="PeerBusy"):
            done.pop().result()
        for task in (*hanging, *refused):
            task.cancel()
        await asyncio.gather(*hanging, *refused, return_exceptions=True)


async def test_an_occupied_port_is_named() -> None:
    async with peer() as a:
        with pytest.raises(PortUnavailable, match=str(address_of(a).port)):
            async with PeerNode.start(Identity.generate(), port=address_of(a).port):
                pass


async def test_the_body_of_a_node_sees_its_own_exceptions() -> None:
    with pytest.raises(ZeroDivisionError):
        async with peer():
            raise ZeroDivisionError


async def test_a_request_that_looks_for_a_peer_goes_out_when_the_peer_comes_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    identity, looking = Identity.generate(), asyncio.Event()
    async with peer() as a:
        async with peer(a, identity=identity) as before:
            await before.request(a.peer_id, "echo/1")
        await until(lambda: not a.peers)

        async def endless(peer_id: PeerId) -> list[PeerAddress]:
            looking.set()
            await asyncio.Event().wait()
            return []

        # the lookup of a peer's new address can take long: some of the nodes asked are gone, too
        monkeypatch.setattr(a, "resolve", endless)
        waiting = asyncio.create_task(a.request(identity.peer_id, "echo/1", b"at last", timeout=20.0))
        await looking.wait()
        async with peer(a, identity=identity) as again:
            await again.request(a.peer_id, "echo/1")
            assert (await waiting).body == b"at last"
