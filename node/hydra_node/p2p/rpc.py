"""Questions and answers of the DHT in UDP datagrams, and the routing table they feed.

The table is the `kademlia` package's. Datagrams are ours rather than rpcudp's: typed and bounded, an unreadable one is
ignored, and a node enters the table only after it answered a question of ours at its address, so that forged source
addresses do not fill it.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, cast

import msgspec
from kademlia.node import Node
from kademlia.routing import RoutingTable

from hydra_node.p2p.errors import BadRecord
from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.records import KEY_SIZE, Record, decode, encode
from hydra_node.p2p.storage import RecordStorage
from hydra_node.p2p.walk import Contact

log = logging.getLogger(__name__)

MAX_DATAGRAM = 8192
RECORDS_BUDGET = 6144
K = 16
"""Kademlia's k: the size of a bucket, and how many nodes one answer names."""

Id = Annotated[bytes, msgspec.Meta(min_length=KEY_SIZE, max_length=KEY_SIZE)]
Tag = Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
Host = Annotated[str, msgspec.Meta(max_length=45)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Blob = Annotated[bytes, msgspec.Meta(max_length=MAX_DATAGRAM)]


class Ping(msgspec.Struct, frozen=True, array_like=True, tag="hydra1.ping"):
    """Are you there?"""

    tag: Tag
    sender: Id


class Store(msgspec.Struct, frozen=True, array_like=True, tag="hydra1.store"):
    """Keep this record."""

    tag: Tag
    sender: Id
    record: Blob


class Find(msgspec.Struct, frozen=True, array_like=True, tag="hydra1.find"):
    """Which nodes do you know near `target`; and, if `records`, what do you hold there after publisher `after`?"""

    tag: Tag
    sender: Id
    target: Id
    records: bool
    after: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="hydra1.answer"):
    """The answer to any of them. `more`: the records did not fit; ask again after the last one's publisher."""

    tag: Tag
    sender: Id
    stored: bool = False
    nodes: Annotated[list[tuple[Id, Host, Port]], msgspec.Meta(max_length=K)] = []
    records: Annotated[list[Blob], msgspec.Meta(max_length=64)] = []
    more: bool = False


_decoder = msgspec.msgpack.Decoder(Ping | Store | Find | Answer)
_encode = msgspec.msgpack.Encoder().encode

Address = tuple[str, int]


def node_id_of(peer_id: PeerId) -> bytes:
    """The place of a peer in the DHT's key space: 20 bytes."""
    return hashlib.sha256(b"hydra-dht-node:" + peer_id.encode()).digest()[:KEY_SIZE]


class DhtProtocol(asyncio.DatagramProtocol):
    """One node's side of the datagrams. `clock` gives Unix time; `wait` is the deadline of an answer in seconds."""

    def __init__(
        self, node_id: bytes, storage: RecordStorage, clock: Callable[[], float], *, wait: float, silence: float
    ) -> None:
        self.node_id = node_id
        self._storage = storage
        self._clock = clock
        self._wait = wait
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None
        self._asked: dict[bytes, tuple[Address, asyncio.Future[Answer | None]]] = {}
        self._silent_until: dict[Address, float] = {}
        self._table = RoutingTable(self, K, Node(node_id))
        self.on_contact: Callable[[Contact], None] = lambda contact: None

    # the table

    def near(self, target: bytes, count: int = K) -> list[Contact]:
        """The known nodes nearest to a place."""
        # a Node never excludes itself from another's neighbours unless ids are equal, which a key never is
        nodes = self._table.find_neighbors(Node(target), k=self._size())
        contacts = [Contact(node.id, node.ip, node.port) for node in nodes]
        return sorted(contacts, key=lambda contact: contact.distance(target))[:count]

    def contacts(self) -> list[Contact]:
        """All known nodes."""
        return [Contact(node.id, node.ip, node.port) for bucket in self._table.buckets for node in bucket.get_nodes()]

    def is_silent(self, contact: Contact) -> bool:
        """Whether the node lately gave no answer."""
        return self._silent_until.get((contact.host, contact.port), 0.0) > self._loop.time()

    def suspect(self, contact: Contact) -> None:
        """Leave a node that keeps a lookup waiting out of the next ones, until it answers."""
        self._silent_until[(contact.host, contact.port)] = self._loop.time() + self._silence

    async def call_ping(self, node: Node) -> None:
        """What the routing table calls when a bucket is full, to see whether its oldest node is still there."""
        await self.ask(Ping(self._tag(), self.node_id), (node.ip, node.port))

    # asking

    async def ping(self, address: Address) -> Answer | None:
        """The answer to a ping, or None."""
        return await self.ask(Ping(self._tag(), self.node_id), address)

    async def store(self, contact: Contact, record: Record) -> bool:
        """Whether the node keeps the record."""
        answer = await self.ask(Store(self._tag(), self.node_id, encode(record)), (contact.host, contact.port))
        return answer is not None and answer.stored

    async def find(self, contact: Contact, target: bytes, *, records: bool, after: str = "") -> Answer | None:
        """What the node knows and holds near `target`, or None."""
        question = Find(self._tag(), self.node_id, target, records, after)
        return await self.ask(question, (contact.host, contact.port))

    async def ask(self, question: Ping | Store | Find, address: Address) -> Answer | None:
        """Send a question; None if no answer comes in time, and then the node leaves the table.

        It leaves the table also when the caller lost patience before.
        """
        return await self._send_question(question, address)

    def hand_over(self, contact: Contact, records: list[Record]) -> None:
        """Send records to a node without waiting for its answers."""
        for record in records:
            self._send(Store(self._tag(), self.node_id, encode(record)), (contact.host, contact.port))

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if len(data) > MAX_DATAGRAM:
            return
        try:
            message = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            log.debug("an unreadable datagram from %s is ignored: %s", addr, error)
            return
        address = (addr[0], addr[1])
        if message.sender == self.node_id:
            return
        if isinstance(message, Answer):
            self._answered(message, address)
        else:
            self._send(self._answer(message), address)
            self._meet(message.sender, address)

    def error_received(self, exc: Exception) -> None:
        log.debug("a datagram could not be delivered: %s", exc)

    # inside

    def _tag(self) -> bytes:
        return secrets.token_bytes(8)

    def _size(self) -> int:
        return sum(len(bucket) for bucket in self._table.buckets) or 1

    def _send(self, message: Ping | Store | Find | Answer, address: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(_encode(message), address)

    def _send_question(self, question: Ping | Store | Find, address: Address) -> asyncio.Future[Answer | None]:
        future: asyncio.Future[Answer | None] = self._loop.create_future()
        self._asked[question.tag] = (address, future)
        self._loop.call_later(self._wait, self._unanswered, question.tag)
        self._send(question, address)
        return future

    def _unanswered(self, tag: bytes) -> None:
        asked = self._asked.pop(tag, None)
        if asked is None:
            return
        address, future = asked
        if not future.done():
            future.set_result(None)
        self._forget(address)

    def _answer(self, question: Ping | Store | Find) -> Answer:
        if isinstance(question, Store):
            return Answer(question.tag, self.node_id, stored=self._keep(question.record))
        if isinstance(question, Find):
            near = [(c.node_id, c.host, c.port) for c in self.near(question.target) if not self.is_silent(c)]
            records, more = self._piece(question) if question.records else ([], False)
            return Answer(question.tag, self.node_id, nodes=near, records=records, more=more)
        return Answer(question.tag, self.node_id)

    def _keep(self, data: bytes) -> bool:
        try:
            record = decode(data)
            return self._storage.put(record.location, record, self._clock())
        except BadRecord as error:
            log.debug("a record is not kept: %s", error)
            return False

    def _piece(self, question: Find) -> tuple[list[bytes], bool]:
        """As many records, by publisher, as fit one datagram, and whether there are more."""
        piece: list[bytes] = []
        size = 0
        for record in self._storage.get(question.target, self._clock()):
            if record.publisher <= question.after:
                continue
            data = encode(record)
            if piece and size + len(data) > RECORDS_BUDGET:
                return piece, True
            piece.append(data)
            size += len(data)
        return piece, False

    def _answered(self, answer: Answer, address: Address) -> None:
        asked = self._asked.pop(answer.tag, None)
        if asked is None or asked[0] != address:
            return
        if not asked[1].done():
            asked[1].set_result(answer)
        self._silent_until.pop(address, None)
        self._admit(Contact(answer.sender, *address))

    def _admit(self, contact: Contact) -> None:
        node = Node(contact.node_id, contact.host, contact.port)
        fresh = self._table.is_new_node(node)
        self._table.add_contact(node)
        if fresh:
            self.on_contact(contact)

    def _meet(self, node_id: bytes, address: Address) -> None:
        """A question came from a node: if it is not known at that address, see whether it answers there."""
        known = self._table.buckets[self._table.get_bucket_for(Node(node_id))][node_id]
        if known is not None and (known.ip, known.port) == address:
            self._silent_until.pop(address, None)
            return
        if len(self._asked) > 1024 or any(asked == address for asked, _ in self._asked.values()):
            return
        self._send_question(Ping(self._tag(), self.node_id), address)

    def _forget(self, address: Address) -> None:
        now = self._loop.time()
        self._silent_until = {a: until for a, until in self._silent_until.items() if until > now}
        self._silent_until[address] = now + self._silence
        for contact in self.contacts():
            if (contact.host, contact.port) == address:
                self._table.remove_contact(Node(contact.node_id, contact.host, contact.port))


def contacts_of(answer: Answer) -> list[Contact]:
    """The nodes an answer names, as far as their addresses are IP literals."""
    return [Contact(node_id, host, port) for node_id, host, port in answer.nodes if _is_ip_literal(host)]


@lru_cache(maxsize=4096)
def _is_ip_literal(host: str) -> bool:
    try:
        return str(ip_address(host)) == host
    except ValueError:
        return False
