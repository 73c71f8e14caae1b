"""Connections with peers: listening, dialling, one connection a pair, noticing who is gone.

When two peers dial each other at the same moment, the connection dialled by the smaller peer id stays. Each side can
tell from what it knows: the smaller one refuses the other's dial while its own is under way or up; the larger one
takes the smaller one's and finds its own refused.
"""

import asyncio
import contextlib
import logging
import secrets
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.backoff import Backoff
from hydra_node.p2p.connection import Connection, ConnectionOptions, Handler
from hydra_node.p2p.errors import (
    HandshakeFailed,
    NotAdmitted,
    PeerDisconnected,
    PeerError,
    PeerUnreachable,
    PortUnavailable,
)
from hydra_node.p2p.frames import UNPROVEN
from hydra_node.p2p.handshake import BOOT_SIZE, Accepting, Dialling, Duplicate
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.link import Link
from hydra_node.p2p.tasks import TaskOwner
from hydra_node.p2p.tls import client_context, fingerprint, make_certificate, server_context

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Deadlines in seconds. A peer that is silent for `silence` is dropped; it is asked every `keepalive`.

    `admit`, if given, decides at the handshake whether a peer may connect to us.
    """

    handshake: float = 10.0
    keepalive: float = 2.5
    silence: float = 10.0
    max_unproven: int = 128
    max_peers: int = 1024
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    admit: Callable[[PeerId], bool] | None = None


class Transport:
    """All connections of one node. Handlers are looked up in `handlers` when a request comes."""

    def __init__(
        self,
        identity: Identity,
        handlers: Mapping[str, Handler],
        tasks: TaskOwner,
        options: TransportOptions,
        on_met: Callable[[PeerId, list[PeerAddress]], None] = lambda peer, addresses: None,
    ) -> None:
        self._identity = identity
        self._handlers = handlers
        self._tasks = tasks
        self._options = options
        self._on_met = on_met
        certificate = make_certificate(identity)
        self._fingerprint = fingerprint(certificate)
        self._server_tls = server_context(identity, certificate)
        self._client_tls = client_context()
        self._boot = secrets.token_bytes(BOOT_SIZE)
        self._server: asyncio.Server | None = None
        self._unproven: dict[Accepting, Link] = {}
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._connections: dict[PeerId, Connection] = {}
        self._committed: set[PeerId] = set()
        self._arrivals: dict[PeerId, set[asyncio.Future[None]]] = {}
        self._locks: weakref.WeakValueDictionary[PeerId, asyncio.Lock] = weakref.WeakValueDictionary()
        self._backoff = Backoff()
        self._disconnect_callbacks: list[Callable[[PeerId], None]] = []
        self.addresses: list[PeerAddress] = []

    # use

    async def listen(self, host: str, port: int) -> int:
        """Accept connections; returns the port (chosen by the system if 0). Raises PortUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._accepting,
                host,
                port,
                ssl=self._server_tls,
                ssl_handshake_timeout=self._options.handshake,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError as error:
            raise PortUnavailable(
                f"cannot listen on {host} port {port}: {error.strerror or error}",
                remedy="stop what uses it, or choose another port",
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    def connection(self, peer_id: PeerId) -> Connection | None:
        """The connection with a peer, if there is one now."""
        connection = self._connections.get(peer_id)
        return None if connection is None or connection.link.closing else connection

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """The peers connected now."""
        return tuple(self._connections)

    def on_disconnect(self, callback: Callable[[PeerId], None]) -> Callable[[], None]:
        """Have `callback` called at once when a peer's connection closes; the result undoes it."""
        self._disconnect_callbacks.append(callback)

        def undo() -> None:
            with contextlib.suppress(ValueError):
                self._disconnect_callbacks.remove(callback)

        return undo

    async def connect(self, peer_id: PeerId, addresses: Iterable[PeerAddress]) -> Connection:
        """The connection with a peer: the one there is, or a new one to the first address that answers.

        After failures the next attempt waits (exponential backoff), unless the peer comes by itself meanwhile.
        Raises PeerUnreachable.
        """
        lock = self._locks.setdefault(peer_id, asyncio.Lock())
        asked_at = asyncio.get_running_loop().time()
        async with lock:
            if found := self.connection(peer_id):
                return found
            if error := self._backoff.error_since(peer_id, asked_at):
                raise error
            await self.arrival(peer_id, self._backoff.delay(peer_id, asyncio.get_running_loop().time()))
            return self.connection(peer_id) or await self._dial_any(peer_id, addresses)

    async def arrival(self, peer_id: PeerId, timeout: float) -> None:
        """Wait until the peer is connected, at most `timeout` seconds."""
        if timeout <= 0 or self.connection(peer_id) is not None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._arrivals.setdefault(peer_id, set())
        waiting.add(future)
        try:
            await asyncio.wait([future], timeout=timeout)
        finally:
            waiting.discard(future)
            if not waiting and self._arrivals.get(peer_id) is waiting:
                del self._arrivals[peer_id]

    async def keep_alive(self) -> None:
        """Ask silent peers for a sign of life and drop those that give none. Runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._options.keepalive
            await asyncio.sleep(self._options.keepalive)
            if loop.time() - due > self._options.keepalive:
                # this process itself was stopped or starved: what the others sent meanwhile is still unread
                continue
            for connection in list(self._connections.values()):
                self._check_alive(connection.link, loop.time())

    def stop_listening(self) -> None:
        """Accept nobody any more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        """Close all connections, politely first. Nobody is told of these disconnections."""
        self.stop_listening()
        self._disconnect_callbacks.clear()
        links = [link for link in self._links if link.connected]
        for link in links:
            link.close()
        if links:
            _, stuck = await asyncio.wait([link.gone for link in links], timeout=SHUTDOWN_SECONDS)
            for link in links:
                link.fail(PeerDisconnected("this node is stopping"))
            if stuck:
                await asyncio.wait(stuck, timeout=SHUTDOWN_SECONDS)

    # accepting

    def _accepting(self) -> Link:
        role = Accepting(
            self._fingerprint,
            boot=self._boot,
            begun=self._begun,
            accept=self._accept,
            done=self._proven,
            timeout=self._options.handshake,
        )
        link = Link(role, UNPROVEN)
        self._links.add(link)
        return link

    def _begun(self, role: Accepting, link: Link) -> None:
        if len(self._unproven) >= self._options.max_unproven:
            oldest = next(iter(self._unproven))
            self._unproven.pop(oldest).fail(HandshakeFailed("too many clients that prove nothing"))
        self._unproven[role] = link

    def _proven(self, role: Accepting) -> None:
        self._unproven.pop(role, None)

    def _accept(self, link: Link, peer_id: PeerId, boot: bytes, addresses: list[PeerAddress]) -> None:
        """Take the link as the connection with this peer, or raise why not."""
        self._judge(peer_id, boot)
        self._establish(link, peer_id, boot, dialled=False)
        self._on_met(peer_id, addresses)

    def _judge(self, peer_id: PeerId, boot: bytes) -> None:
        if peer_id == self._identity.peer_id:
            raise HandshakeFailed("a node does not connect to itself")
        if self._options.admit is not None and not self._options.admit(peer_id):
            raise NotAdmitted("this peer is not admitted here")
        current = self._connections.get(peer_id)
        if current is None and len(self._connections) >= self._options.max_peers:
            raise NotAdmitted("this node has all the connections it can serve")
        if self._identity.peer_id > peer_id:
            return
        if current is not None and current.dialled and current.boot == boot and not current.link.closing:
            current.link.ping()
            raise Duplicate("the connection from here is up")
        if current is None and peer_id in self._committed:
            raise Duplicate("a connection from here is under way")

    def _establish(self, link: Link, peer_id: PeerId, boot: bytes, *, dialled: bool) -> None:
        connection = Connection(
            link,
            peer_id=peer_id,
            boot=boot,
            dialled=dialled,
            handlers=self._handlers,
            spawn=self._tasks.start,
            on_closed=self._closed,
            options=self._options.connection,
        )
        old = self._connections.pop(peer_id, None)
        if old is not None:
            old.link.fail(PeerDisconnected("the peer connected anew"))
            self._tell_disconnected(peer_id)
        link.allow(self._options.connection.limits)
        link.listener = connection
        self._connections[peer_id] = connection
        self._backoff.succeeded(peer_id)
        for future in self._arrivals.pop(peer_id, ()):
            if not future.done():
                future.set_result(None)

    def _closed(self, connection: Connection, reason: PeerError) -> None:
        if self._connections.get(connection.peer_id) is connection:
            del self._connections[connection.peer_id]
            log.debug("connection with %s closed: %s", connection.peer_id, reason)
            self._tell_disconnected(connection.peer_id)

    def _tell_disconnected(self, peer_id: PeerId) -> None:
        for callback in list(self._disconnect_callbacks):
            try:
                callback(peer_id)
            except Exception:
                # one listener's fault must not keep the others from hearing
                log.exception("a disconnect callback failed")

    # dialling

    async def _dial_any(self, peer_id: PeerId, addresses: Iterable[PeerAddress]) -> Connection:
        failures: list[str] = []
        for address in addresses:
            try:
                await self._dial(address)
            except (PeerError, OSError) as failure:
                failures.append(f"{address.host}:{address.port}: {failure}")
            if found := self.connection(peer_id):
                return found
        error = PeerUnreachable(
            f"peer {peer_id} cannot be reached ({'; '.join(failures) or 'no address is known'})",
            remedy="check that it runs and that its address is right",
        )
        self._backoff.failed(peer_id, asyncio.get_running_loop().time(), error)
        raise error

    async def _dial(self, address: PeerAddress) -> None:
        """Make a connection to one address; raises HandshakeFailed or OSError. Afterwards it is registered."""
        peer_id = address.peer_id
        role = Dialling(
            self._identity,
            expected=peer_id,
            boot=self._boot,
            addresses=self.addresses,
            commit=lambda: self._commit(peer_id),
            establish=lambda link, boot: self._establish(link, peer_id, boot, dialled=True),
        )
        link = Link(role, self._options.connection.limits)
        self._links.add(link)
        try:
            async with asyncio.timeout(self._options.handshake):
                await asyncio.get_running_loop().create_connection(
                    lambda: link,
                    address.host,
                    address.port,
                    ssl=self._client_tls,
                    ssl_shutdown_timeout=SHUTDOWN_SECONDS,
                )
                await role.result
        except Duplicate:
            # the peer's own connection is on its way here
            await self.arrival(peer_id, self._options.handshake)
        except TimeoutError as error:
            raise HandshakeFailed("no answer", expected=f"within {self._options.handshake:g} s") from error
        finally:
            self._committed.discard(peer_id)
            if role.result.cancelled() or not role.result.done():
                role.result.cancel()
                link.fail(HandshakeFailed("the attempt was given up"))

    def _commit(self, peer_id: PeerId) -> None:
        """Called before the proof is sent: from here on the tie is broken by peer id."""
        if self.connection(peer_id) is not None:
            raise Duplicate("the peer's own connection came first")
        self._committed.add(peer_id)

    def _check_alive(self, link: Link, now: float) -> None:
        silent = now - link.heard
        if silent > self._options.silence:
            link.fail(PeerDisconnected(f"the peer was silent for {silent:.1f} s"))
        elif silent > self._options.keepalive:
            link.ping()
