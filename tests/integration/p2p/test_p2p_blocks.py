"""Files between peers, block by block, though some peers lie, die or have nothing."""

import asyncio
import io
import os
from pathlib import Path

import msgspec
import pytest
from p2p_world import address_of, peer, until

from hydra_node.p2p.blocks import PROTOCOL, PROVIDER_PREFIX, BlockExchange, Have, Want
from hydra_node.p2p.connection import Handler
from hydra_node.p2p.errors import RemoteError
from hydra_node.p2p.frames import Message
from hydra_node.p2p.host import Host
from hydra_node.p2p.identity import PeerId
from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import BlockStore
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import ContentNotFound

FILE = os.urandom(3 * 1024 * 1024 + 17)


def filled(directory: Path, data: bytes = FILE) -> tuple[BlockStore, Cid]:
    store = BlockStore(directory)
    return store, unixfs.import_file(io.BytesIO(data), store.put)


def content(store: BlockStore, root: Cid) -> bytes:
    return b"".join(unixfs.export_file(root, store.get))


async def known_to(exchange: BlockExchange, root: Cid, count: int) -> bool:
    return len(await exchange.providers(root)) == count


def lying(store: BlockStore) -> tuple[list[Cid], Handler]:
    """A handler that sends blocks of the right size with one wrong bit, and notes what it was asked."""
    asked: list[Cid] = []

    async def serve(sender: PeerId, message: Message) -> Message:
        cids = [Cid.from_bytes(data) for data in msgspec.msgpack.decode(message.body, type=Want).cids]
        asked.extend(cids)
        blocks = [bytearray(store.get(cid)) for cid in cids]
        for block in blocks:
            block[0] ^= 1
        return Message(msgspec.msgpack.encode(Have([len(b) for b in blocks])), b"".join(blocks))

    return asked, serve


def counted(handler: Handler, served: dict[PeerId, int], name: PeerId) -> Handler:
    """The same handler, counting its calls under `name`."""

    async def serve(sender: PeerId, message: Message) -> Message | None:
        served[name] = served.get(name, 0) + 1
        return await handler(sender, message)

    return serve


async def test_a_file_comes_whole_from_two_providers_of_which_one_lies(tmp_path: Path) -> None:
    store, root = filled(tmp_path / "honest")
    async with peer() as honest, peer(honest) as liar, peer(honest) as reader:
        await BlockExchange(honest, store).provide(root)
        asked, serve = lying(store)
        liar.handle(PROTOCOL, serve)
        await liar.dht.publish(PROVIDER_PREFIX + str(root), b"", 600)
        mine = BlockStore(tmp_path / "mine")
        exchange = BlockExchange(reader, mine)
        await until(lambda: known_to(exchange, root, 2))
        await exchange.fetch_all(root, 60)
        assert content(mine, root) == FILE
        for _ in range(4):  # whoever it began with, the liar's turn comes within a few files
            if exchange.liars:
                break
            more = unixfs.import_file(io.BytesIO(os.urandom(1000)), store.put)
            await honest.dht.publish(PROVIDER_PREFIX + str(more), b"", 600)
            await liar.dht.publish(PROVIDER_PREFIX + str(more), b"", 600)
            await exchange.fetch_all(more, 60)
        assert exchange.liars == {liar.peer_id}
        count = len(asked)
        other = unixfs.import_file(io.BytesIO(os.urandom(1000)), store.put)
        await honest.dht.publish(PROVIDER_PREFIX + str(other), b"", 600)
        await liar.dht.publish(PROVIDER_PREFIX + str(other), b"", 600)
        await exchange.fetch_all(other, 60)
        assert len(asked) == count, "a peer that lied was asked again"


async def test_two_honest_providers_share_the_load(tmp_path: Path) -> None:
    store, root = filled(tmp_path / "one")
    served: dict[PeerId, int] = {}
    async with peer() as one, peer(one) as two, peer(one) as reader:
        for node in (one, two):
            exchange = BlockExchange(node, store)
            node._handlers[PROTOCOL] = counted(node._handlers[PROTOCOL], served, node.peer_id)
            await exchange.provide(root)
        mine = BlockStore(tmp_path / "mine")
        await BlockExchange(reader, mine).fetch_all(root, 60)
        assert content(mine, root) == FILE
        assert all(served.get(node.peer_id, 0) >= 3 for node in (one, two)), served


async def test_a_provider_that_dies_is_replaced_by_the_other(tmp_path: Path) -> None:
    store, root = filled(tmp_path / "one")
    async with peer() as one, peer(one) as reader:
        await BlockExchange(one, store).provide(root)
        mine = BlockStore(tmp_path / "mine")
        exchange = BlockExchange(reader, mine)
        async with peer(one) as dying:
            await dying.dht.publish(PROVIDER_PREFIX + str(root), b"", 600)
            await until(lambda: known_to(exchange, root, 2))
        await exchange.fetch_all(root, 60)
        assert content(mine, root) == FILE


async def test_what_nobody_has_is_not_found_in_time(tmp_path: Path) -> None:
    async with peer() as a, peer(a) as b:
        BlockExchange(a, BlockStore(tmp_path / "a"))
        exchange = BlockExchange(b, BlockStore(tmp_path / "b"))
        with pytest.raises(ContentNotFound, match=r"within 0\.5 s"):
            await exchange.fetch(unixfs.cid_of(b"nobody"), timeout=0.5)


async def test_content_that_is_published_while_it_is_sought_is_found(tmp_path: Path) -> None:
    async with peer() as a, peer(a) as b:
        store = BlockStore(tmp_path / "a")
        there = BlockExchange(a, store)
        mine = BlockStore(tmp_path / "b")
        exchange = BlockExchange(b, mine)
        seeking = asyncio.create_task(exchange.fetch(unixfs.cid_of(FILE), timeout=60))
        root = unixfs.import_file(io.BytesIO(FILE), store.put)
        await there.provide(root)
        await seeking
        assert mine.has(root)


async def test_a_malformed_want_list_is_refused_by_name(tmp_path: Path) -> None:
    async with peer() as a, peer(a) as b:
        BlockExchange(a, BlockStore(tmp_path / "a"))
        for body in (b"", b"\xff", msgspec.msgpack.encode(Want([b"no cid"])), msgspec.msgpack.encode(Want([b""] * 65))):
            with pytest.raises(RemoteError) as caught:
                await b.request(a.peer_id, PROTOCOL, body)
            assert caught.value.name == "MalformedFrame"


async def test_hosts_pass_content_on_through_their_kubo_rpcs(tmp_path: Path) -> None:
    async with (
        Host.start(tmp_path / "a") as a,
        Host.start(tmp_path / "b", bootstrap=[str(a.address)]) as b,
        Host.start(tmp_path / "c", bootstrap=[str(a.address)]) as c,
    ):
        file = await asyncio.to_thread(a.ipfs.add, FILE)
        node = await asyncio.to_thread(a.ipfs.put_node, {"file": file})
        assert await asyncio.to_thread(b.ipfs.get_node, node) == {"file": file}
        assert await asyncio.to_thread(b.ipfs.cat, file) == FILE
        await asyncio.to_thread(c.ipfs.pin, node)
        assert content(c.store, file) == FILE
        assert node in c.store.pins()


async def test_a_pinned_file_stays_available_when_its_first_owner_is_gone(tmp_path: Path) -> None:
    async with Host.start(tmp_path / "b") as b:
        async with Host.start(tmp_path / "a", bootstrap=[str(b.address)]) as a:
            file = await asyncio.to_thread(a.ipfs.add, FILE)
            await asyncio.to_thread(b.ipfs.pin, file)
        async with Host.start(tmp_path / "c", bootstrap=[str(b.address)]) as c:
            assert await asyncio.to_thread(c.ipfs.cat, file) == FILE


async def test_a_host_keeps_its_identity_and_blocks(tmp_path: Path) -> None:
    async with Host.start(tmp_path / "a") as a:
        first = a.peer_id
        file = await asyncio.to_thread(a.ipfs.add, b"kept")
    async with Host.start(tmp_path / "a") as a:
        assert a.peer_id == first
        assert await asyncio.to_thread(a.ipfs.cat, file) == b"kept"
        assert address_of(a.node) == a.address
