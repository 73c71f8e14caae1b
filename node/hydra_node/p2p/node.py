"""A peer: its identity, its connections and its place in the DHT."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.book import MAX_ADDRESSES, AddressBook, read_json, read_texts, write_json
from hydra_node.p2p.connection import Connection, Handler
from hydra_node.p2p.dht import Dht, DhtOptions
from hydra_node.p2p.errors import PeerUnreachable, PortUnavailable
from hydra_node.p2p.frames import Buffer, Message
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.records import PEER_PREFIX
from hydra_node.p2p.tasks import TaskOwner
from hydra_node.p2p.transport import Transport, TransportOptions

log = logging.getLogger(__name__)

PEER_TTL = 3600.0
BOOK_SECONDS = 30.0
_PORT_TRIES = 20
_RESOLVE_PAUSES = (0.2, 0.4, 0.8, 1.6)
_addresses_decoder = msgspec.msgpack.Decoder(list[str])


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How a node behaves. `advertise` is the host that others shall dial, by default the one it binds."""

    transport: TransportOptions = field(default_factory=TransportOptions)
    dht: DhtOptions = field(default_factory=DhtOptions)
    advertise: str | None = None


class PeerNode:
    """Requests to peers by id, handlers for theirs, and the DHT. Make it with `start`."""

    def __init__(
        self, identity: Identity, bootstrap: Iterable[PeerAddress], state_dir: Path | None, options: NodeOptions
    ):
        if state_dir is not None:
            state_dir.mkdir(parents=True, exist_ok=True)
        self.identity = identity
        self.address: PeerAddress | None = None
        self._options = options
        self._handlers: dict[str, Handler] = {}
        self._book = AddressBook()
        self._book_file = state_dir / "peers.json" if state_dir else None
        self._book_saved: list[str] = []
        stored = read_json(self._book_file) if self._book_file else None
        self._book.add(read_texts(stored if isinstance(stored, list) else []))
        entries = list(bootstrap)
        self._book.add(entries)
        self._tasks = TaskOwner()
        self._transport = Transport(
            identity, self._handlers, self._tasks, options.transport, on_met=lambda _, found: self._book.add(found)
        )
        self.dht = Dht(
            identity,
            [(entry.host, entry.port) for entry in entries],
            state_dir / "dht.json" if state_dir else None,
            options.dht,
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        identity: Identity,
        host: str = "127.0.0.1",
        port: int = 0,
        bootstrap: Iterable[PeerAddress] = (),
        state_dir: Path | None = None,
        *,
        options: NodeOptions | None = None,
    ) -> AsyncIterator[Self]:
        """A running node for the duration of the `async with`.

        TCP and UDP use the same port, chosen by the system if 0. Bootstrap peers need not be up: they are tried for
        ever in the background. `state_dir` keeps known peers over a restart. Raises PortUnavailable.
        """
        node = cls(identity, bootstrap, state_dir, options or NodeOptions())
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(node._save_book)
            stack.push_async_callback(node._tasks.close)
            stack.push_async_callback(node._transport.close)
            await node._bind(stack, host, port)
            node._tasks.start(node._transport.keep_alive())
            node._tasks.start(node.dht.run())
            node._tasks.start(node._keep_book())
            yield node

    # use

    @property
    def peer_id(self) -> PeerId:
        """This node's own id."""
        return self.identity.peer_id

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """The peers connected now."""
        return self._transport.peers

    def connected(self) -> list[tuple[PeerId, str]]:
        """The peers connected now, each with an address known of it, or an empty text."""
        return [(peer, next(map(str, self._book.get(peer)), "")) for peer in self.peers]

    def handle(self, protocol: str, handler: Handler) -> None:
        """Answer requests of a protocol with `async handler(peer_id, message) -> Message | None`.

        Handlers run at the same time and in no promised order. A HydraError raised in one reaches the peer as a
        RemoteError with its name and text.
        """
        if protocol in self._handlers:
            raise ValueError(f"protocol {protocol!r} already has a handler")
        self._handlers[protocol] = handler

    async def request(
        self, peer_id: PeerId, protocol: str, body: bytes = b"", payload: Buffer = b"", timeout: float = 30.0
    ) -> Message:
        """Ask a peer and wait for its answer, connecting first if need be, all within `timeout` seconds.

        Raises PeerUnreachable, PeerDisconnected (the connection was lost meanwhile; the peer may or may not have
        acted), RequestTimeout, RemoteError, FrameTooLarge. `payload` must not change until this returns.
        """
        ends = asyncio.get_running_loop().time() + timeout
        connection = await self._connected(peer_id, timeout)
        left = ends - asyncio.get_running_loop().time()
        return await connection.request(protocol, Message(body, payload), left)

    async def send(
        self, peer_id: PeerId, protocol: str, body: bytes = b"", payload: Buffer = b"", timeout: float = 30.0
    ) -> None:
        """Send a one-way message; returns when it is on its way. Raises as `request` does, but for RemoteError."""
        ends = asyncio.get_running_loop().time() + timeout
        connection = await self._connected(peer_id, timeout)
        await connection.send(protocol, Message(body, payload), ends - asyncio.get_running_loop().time())

    def on_disconnect(self, callback: Callable[[PeerId], None]) -> Callable[[], None]:
        """Have `callback` called at once when a peer's connection closes, however; the result undoes it."""
        return self._transport.on_disconnect(callback)

    def learn(self, addresses: Iterable[PeerAddress]) -> None:
        """Remember where peers listen."""
        self._book.add(addresses)

    async def resolve(self, peer_id: PeerId) -> list[PeerAddress]:
        """The addresses that a peer published of itself in the DHT; they are remembered."""
        found: list[PeerAddress] = []
        for record in await self.dht.find(PEER_PREFIX + peer_id):
            # a record of other form was signed by the peer itself: it says nothing we can use
            with contextlib.suppress(msgspec.DecodeError):
                found += read_texts(_addresses_decoder.decode(record.value))
        own = [address for address in found if address.peer_id == peer_id][:MAX_ADDRESSES]
        self._book.add(reversed(own))
        return own

    # inside

    async def _bind(self, stack: contextlib.AsyncExitStack, host: str, port: int) -> None:
        """Bind TCP and UDP on one port number and say so to the DHT."""
        for left in reversed(range(_PORT_TRIES if port == 0 else 1)):
            chosen = await self._transport.listen(host, port)
            try:
                await stack.enter_async_context(self.dht.open(host, chosen))
            except PortUnavailable:
                self._transport.stop_listening()
                if not left:
                    raise
                continue
            break
        self.address = PeerAddress(self._options.advertise or host, chosen, self.peer_id)
        self._transport.addresses = [self.address]
        await self.dht.publish(PEER_PREFIX + self.peer_id, msgspec.msgpack.encode([str(self.address)]), PEER_TTL)

    async def _connected(self, peer_id: PeerId, timeout: float) -> Connection:
        """The connection with a peer: the one there is, or the first that either side makes."""
        connection = self._transport.connection(peer_id)
        if connection is not None:
            return connection
        dialling = asyncio.create_task(self._connect(peer_id))
        coming = asyncio.create_task(self._transport.arrival(peer_id, timeout))
        try:
            await asyncio.wait([dialling, coming], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if found := self._transport.connection(peer_id):
                return found
            if dialling.done():
                return dialling.result()
        finally:
            dialling.cancel()
            coming.cancel()
            await asyncio.gather(dialling, coming, return_exceptions=True)
        raise PeerUnreachable(f"peer {peer_id} was not reached in time", expected=f"within {timeout:g} s")

    async def _connect(self, peer_id: PeerId) -> Connection:
        """Try the addresses that are known, then those that the DHT knows."""
        known = self._book.get(peer_id)
        failure: PeerUnreachable | None = None
        if known:
            try:
                return await self._transport.connect(peer_id, known)
            except PeerUnreachable as error:
                failure = error
        fresh = [address for address in await self.resolve(peer_id) if address not in known]
        if failure is not None and not fresh:
            raise failure
        return await self._transport.connect(peer_id, fresh or await self._await_address(peer_id))

    async def _await_address(self, peer_id: PeerId) -> Sequence[PeerAddress]:
        """The addresses of a peer that may have started this moment, so that the DHT does not know it yet."""
        for pause in _RESOLVE_PAUSES:
            await asyncio.sleep(pause)
            found = self._book.get(peer_id) or await self.resolve(peer_id)
            if found:
                return found
        return ()

    async def _keep_book(self) -> None:
        while True:
            await asyncio.sleep(BOOK_SECONDS)
            self._save_book()

    def _save_book(self) -> None:
        texts = self._book.texts()
        if self._book_file is None or texts == self._book_saved:
            return
        try:
            write_json(self._book_file, texts)
        except OSError as error:
            # the file only makes the next start quicker
            log.warning("cannot keep the known peers in %s: %s", self._book_file, error)
            return
        self._book_saved = texts
