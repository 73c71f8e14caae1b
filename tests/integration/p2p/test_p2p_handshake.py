"""Who gets in: the right key with a fresh signature of this very connection, and nobody else."""

import asyncio
import ssl

import pytest
from p2p_world import RawClient, address_of, peer, until

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.errors import PeerUnreachable
from hydra_node.p2p.frames import Head, MessageType, encode_head
from hydra_node.p2p.handshake import PROTOCOL, Challenge
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.node import NodeOptions, PeerNode
from hydra_node.p2p.tls import client_context
from hydra_node.p2p.transport import TransportOptions


async def still_serves(node: PeerNode) -> None:
    """Whatever a stranger did, others are served."""
    async with peer(node) as other:
        assert (await other.request(node.peer_id, "echo/1", b"well?")).body == b"well?"


async def test_two_peers_know_each_other() -> None:
    async with peer() as a, peer(a) as b:
        assert (await b.request(a.peer_id, "echo/1", b"hello")).body == b"hello"
        assert a.peers == (b.peer_id,)
        assert b.peers == (a.peer_id,)


async def test_a_server_with_another_key_is_refused() -> None:
    wanted = Identity.generate().peer_id
    async with peer() as impostor, peer() as node:
        at = address_of(impostor)
        node.learn([PeerAddress(at.host, at.port, wanted)])
        with pytest.raises(PeerUnreachable, match="another peer answered"):
            await node.request(wanted, "echo/1")
        assert node.peers == ()
        assert impostor.peers == ()


async def test_a_proof_signed_by_another_key_is_refused() -> None:
    async with peer() as node:
        client = await RawClient.dial(node)
        honest = client.prove(Identity.generate(), await client.challenge())
        victim = Identity.generate().peer_id
        client.say(type(honest)(victim, honest.boot, [], honest.signature))
        assert (await client.verdict()).refusal == "HandshakeFailed"
        await client.closed()
        await client.hang_up()
        assert node.peers == ()


async def test_a_replayed_proof_is_refused() -> None:
    identity = Identity.generate()
    async with peer() as node:
        first = await RawClient.dial(node)
        proof = first.prove(identity, await first.challenge())
        first.say(proof)
        assert (await first.verdict()).refusal == ""
        await until(lambda: node.peers == (identity.peer_id,))
        await first.hang_up()
        await until(lambda: node.peers == ())
        second = await RawClient.dial(node)
        await second.challenge()
        second.say(proof)
        assert (await second.verdict()).refusal == "HandshakeFailed"
        await second.hang_up()
        assert node.peers == ()


async def test_a_proof_passed_on_by_a_server_in_the_middle_is_refused() -> None:
    """The middle server shows the client the victim's nonce; the client signs it for the middle server's key."""
    client_identity = Identity.generate()
    async with peer() as middle, peer() as victim:
        towards_victim = await RawClient.dial(victim)
        victims_nonce: Challenge = await towards_victim.challenge()
        towards_middle = await RawClient.dial(middle)
        await towards_middle.challenge()
        towards_victim.say(towards_middle.prove(client_identity, victims_nonce))
        assert (await towards_victim.verdict()).refusal == "HandshakeFailed"
        await towards_victim.hang_up()
        await towards_middle.hang_up()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n",
        bytes(5000),
        b"\xff" * 5000,
        encode_head(0, Head(MessageType.ONE_WAY, PROTOCOL, 0, b"no proof", 0)),
        encode_head(0, Head(MessageType.REQUEST, "echo/1", 0, b"", 0)),
        encode_head(0, Head(MessageType.ONE_WAY, PROTOCOL, 0, b"", 1000)),
    ],
)
async def test_whoever_speaks_otherwise_is_dropped_and_the_node_lives_on(data: bytes) -> None:
    async with peer() as node:
        client = await RawClient.dial(node)
        client.write(data)
        assert await client.closed()
        await client.hang_up()
        await still_serves(node)


async def test_a_client_that_says_nothing_is_dropped() -> None:
    options = NodeOptions(transport=TransportOptions(handshake=0.2))
    async with peer(options=options) as node:
        client = await RawClient.dial(node)
        assert await client.closed()
        await client.hang_up()


async def test_clients_that_prove_nothing_do_not_keep_others_out() -> None:
    options = NodeOptions(transport=TransportOptions(max_unproven=4))
    async with peer(options=options) as node:
        crowd = [await RawClient.dial(node) for _ in range(8)]
        await still_serves(node)
        for client in crowd:
            await client.hang_up()


async def test_older_tls_is_refused() -> None:
    async with peer() as node:
        old = client_context()
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        at = address_of(node)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(at.host, at.port, ssl=old)


async def test_a_peer_that_is_not_admitted_is_told_so() -> None:
    friend = Identity.generate()

    def admit(peer_id: PeerId) -> bool:
        return peer_id == friend.peer_id

    options = NodeOptions(transport=TransportOptions(admit=admit))
    async with peer(options=options) as node, peer(node) as stranger, peer(node, identity=friend) as guest:
        with pytest.raises(PeerUnreachable, match="not admitted"):
            await stranger.request(node.peer_id, "echo/1")
        assert (await guest.request(node.peer_id, "echo/1", b"x")).body == b"x"
        assert node.peers == (friend.peer_id,)


async def test_a_client_may_not_name_addresses_of_others() -> None:
    async with peer() as node, peer() as other:
        client = await RawClient.dial(node)
        identity = Identity.generate()
        honest = client.prove(identity, await client.challenge())
        client.say(type(honest)(honest.peer_id, honest.boot, [str(other.address)], honest.signature))
        assert (await client.verdict()).refusal == "HandshakeFailed"
        await client.hang_up()
