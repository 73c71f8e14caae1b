"""Blocks between peers: who has them (DHT), asking for them, and checking every one against its CID.

Protocol `blocks/1`: a Want names CIDs; the answer gives for each its size, or that the block is not here, or that it
did not fit, and the payload holds the blocks one after the other. Only roots are announced in the DHT; what hangs
below a root is asked of the peers that had the block above it.
"""

import asyncio
import contextlib
import itertools
import logging
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from hydra_node.p2p.errors import MalformedFrame, PeerError
from hydra_node.p2p.frames import Message
from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.node import PeerNode
from hydra_node.storage.blockstore import MAX_BLOCK_BYTES, BlockStore, links_of
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import ContentNotFound, CorruptBlock, InvalidCid, MalformedNode, StorageError
from hydra_node.storage.fetching import FetchingReader

log = logging.getLogger(__name__)

PROTOCOL = "blocks/1"
PROVIDER_PREFIX = "provider/"
PROVIDER_TTL = 3600.0
MAX_WANTED = 64
MAX_ANSWER = 8 * 1024 * 1024
MAX_PARENTS = 65536
MAX_LIARS = 4096
ABSENT = -1
NOT_SENT = -2


class Want(msgspec.Struct, frozen=True, array_like=True):
    """Send me these blocks: CIDs in binary form."""

    cids: Annotated[list[Annotated[bytes, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=MAX_WANTED)]


class Have(msgspec.Struct, frozen=True, array_like=True):
    """For each wanted block its size in the payload, or ABSENT, or NOT_SENT (ask again for it alone)."""

    sizes: Annotated[
        list[Annotated[int, msgspec.Meta(ge=NOT_SENT, le=MAX_BLOCK_BYTES)]], msgspec.Meta(max_length=MAX_WANTED)
    ]


_want = msgspec.msgpack.Decoder(Want)
_have = msgspec.msgpack.Decoder(Have)
_encode = msgspec.msgpack.encode


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """Times in seconds: `timeout` of a fetch, `answer` of one request, `hedge` before a second provider is asked too,
    `retry` the first pause before providers are looked for again (it doubles up to `longest_retry`)."""

    timeout: float = 30.0
    answer: float = 15.0
    hedge: float = 1.0
    retry: float = 0.25
    longest_retry: float = 4.0


class BlockExchange:
    """Serves the store's blocks to peers and fetches missing ones into it."""

    def __init__(self, node: PeerNode, store: BlockStore, options: ExchangeOptions | None = None) -> None:
        self._node = node
        self._store = store
        self._options = options or ExchangeOptions()
        self._parents: OrderedDict[bytes, tuple[PeerId, ...]] = OrderedDict()
        self._recent: OrderedDict[PeerId, None] = OrderedDict()
        self._liars: OrderedDict[PeerId, None] = OrderedDict()
        self._locks: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()
        self._turn = itertools.count()
        node.handle(PROTOCOL, self._serve)

    async def provide(self, cid: Cid) -> None:
        """Announce in the DHT that this node has `cid` and what hangs below it, as long as the node runs."""
        await self._node.dht.publish(PROVIDER_PREFIX + str(cid), b"", PROVIDER_TTL)

    def withdraw(self, cid: Cid) -> None:
        """Announce it no longer."""
        self._node.dht.withdraw(PROVIDER_PREFIX + str(cid))

    async def providers(self, cid: Cid) -> list[PeerId]:
        """The peers that announced a root, this node left out."""
        records = await self._node.dht.find(PROVIDER_PREFIX + str(cid))
        return [record.peer_id for record in records if record.peer_id != self._node.peer_id]

    async def fetch(self, cid: Cid, timeout: float | None = None) -> None:
        """Bring one block into the store, verified. Looks for providers again until `timeout` (seconds) is over.

        Raises ContentNotFound.
        """
        limit = self._options.timeout if timeout is None else timeout
        lock = self._locks.setdefault(cid.digest, asyncio.Lock())
        try:
            async with asyncio.timeout(limit), lock:
                await self._bring(cid)
        except TimeoutError as error:
            raise ContentNotFound(
                f"block {cid} was not found",
                expected=f"a peer that has it, within {limit:g} s",
                remedy="check that whoever published it still runs",
            ) from error

    async def fetch_all(self, root: Cid, timeout: float) -> None:
        """Bring `root` and every block below it into the store, many at a time. Raises ContentNotFound."""
        try:
            async with asyncio.timeout(timeout):
                await FetchingReader(self._store, self.fetch).whole(root)
        except TimeoutError as error:
            raise ContentNotFound(f"not all of {root} was found", expected=f"within {timeout:g} s") from error

    @property
    def liars(self) -> frozenset[PeerId]:
        """Peers that sent bytes which are not what they were asked for; they are asked nothing more."""
        return frozenset(self._liars)

    # fetching

    async def _bring(self, cid: Cid) -> None:
        if await asyncio.to_thread(self._store.has, cid):
            return
        pause = self._options.retry
        while True:
            async for providers in self._candidates(cid):
                found = await self._race(cid, providers)
                if found is not None:
                    await self._keep(cid, *found, providers)
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._options.longest_retry)

    async def _candidates(self, cid: Cid) -> AsyncIterator[Sequence[PeerId]]:
        """Whom to ask, best first: who had the block above it; who announced it; who is at hand."""
        asked: set[PeerId] = set()

        def fresh(peers: Iterable[PeerId]) -> list[PeerId]:
            found = [p for p in dict.fromkeys(peers) if p not in asked and p not in self._liars]
            asked.update(found)
            return found

        if above := fresh(self._parents.get(cid.digest, ())):
            yield self._rotated(above)
        if announced := fresh(await self.providers(cid)):
            yield self._rotated(announced)
        if at_hand := fresh((*reversed(self._recent), *self._node.peers)):
            yield at_hand[:16]

    def _rotated(self, peers: list[PeerId]) -> list[PeerId]:
        """The same peers from another start each time, so that all donors carry the load."""
        start = next(self._turn) % len(peers)
        return peers[start:] + peers[:start]

    async def _race(self, cid: Cid, providers: Sequence[PeerId]) -> tuple[PeerId, bytes] | None:
        """Ask one provider; the next at once if it fails, or besides it if it is slow. The first good block wins."""
        waiting = list(reversed(providers))
        asking: dict[asyncio.Task[bytes | None], PeerId] = {}
        try:
            while waiting or asking:
                if waiting:
                    peer = waiting.pop()
                    asking[asyncio.create_task(self._ask(peer, cid))] = peer
                patience = self._options.hedge if waiting else None
                done, _ = await asyncio.wait(asking, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    peer = asking.pop(task)
                    block = task.result()
                    if block is not None:
                        return peer, block
            return None
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, peer: PeerId, cid: Cid) -> bytes | None:
        """The block from one peer, verified; None if it has none, is away or lies."""
        try:
            answer = await self._node.request(peer, PROTOCOL, _encode(Want([bytes(cid)])), timeout=self._options.answer)
            block = _blocks(answer, 1)[0]
            if block is not None:
                cid.verify(block)
            return block
        except (CorruptBlock, MalformedFrame) as error:
            log.warning("peer %s sent a false block and is not asked again: %s", peer, error)
            self._remember_liar(peer)
        except PeerError as error:
            log.debug("no block %s from %s: %s", cid, peer, error)
        return None

    async def _keep(self, cid: Cid, giver: PeerId, block: bytes, providers: Sequence[PeerId]) -> None:
        children = await asyncio.to_thread(_store_block, self._store, cid, block)
        self._recent[giver] = None
        self._recent.move_to_end(giver)
        while len(self._recent) > 16:
            self._recent.popitem(last=False)
        peers = (giver, *(peer for peer in providers if peer != giver))
        for child in children:
            self._parents[child.digest] = peers
            self._parents.move_to_end(child.digest)
        self._parents.pop(cid.digest, None)
        while len(self._parents) > MAX_PARENTS:
            self._parents.popitem(last=False)

    def _remember_liar(self, peer: PeerId) -> None:
        self._liars[peer] = None
        while len(self._liars) > MAX_LIARS:
            self._liars.popitem(last=False)

    # serving

    async def _serve(self, peer: PeerId, message: Message) -> Message:
        try:
            wanted = [Cid.from_bytes(data) for data in _want.decode(message.body).cids]
        except (msgspec.DecodeError, InvalidCid) as error:
            raise MalformedFrame(f"a want list that cannot be read: {error}") from error
        return await asyncio.to_thread(_answer, self._store, wanted)


def _store_block(store: BlockStore, cid: Cid, block: bytes) -> list[Cid]:
    """Keep a verified block; the CIDs it links to, if it can be read."""
    store.put(cid, block)
    with contextlib.suppress(MalformedNode):
        return links_of(cid, block)
    return []


def _answer(store: BlockStore, wanted: Sequence[Cid]) -> Message:
    sizes: list[int] = []
    payload = bytearray()
    for cid in wanted:
        try:
            block = store.get(cid) if store.has(cid) else None
        except StorageError as error:
            log.warning("block %s cannot be served: %s", cid, error)
            block = None
        if block is None:
            sizes.append(ABSENT)
        elif payload and len(payload) + len(block) > MAX_ANSWER:
            sizes.append(NOT_SENT)
        else:
            sizes.append(len(block))
            payload += block
    return Message(_encode(Have(sizes)), payload)


def _blocks(answer: Message, count: int) -> list[bytes | None]:
    """The blocks of an answer, unverified; raises MalformedFrame if sizes and payload do not agree."""
    try:
        sizes = _have.decode(answer.body).sizes
    except msgspec.DecodeError as error:
        raise MalformedFrame(f"a block answer that cannot be read: {error}") from error
    if len(sizes) != count or sum(size for size in sizes if size > 0) != len(answer.payload):
        raise MalformedFrame("a block answer whose sizes do not fit its payload")
    blocks: list[bytes | None] = []
    position = 0
    for size in sizes:
        blocks.append(bytes(answer.payload[position : position + size]) if size >= 0 else None)
        position += max(size, 0)
    return blocks
