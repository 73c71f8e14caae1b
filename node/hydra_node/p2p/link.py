"""One TLS connection as a stream of whole messages: reading frames, taking turns in writing them, staying alive."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from hydra_node.p2p.errors import FrameError, PeerDisconnected, PeerError
from hydra_node.p2p.frames import (
    Arrived,
    Event,
    FrameReader,
    Head,
    Kind,
    Limits,
    MessageType,
    encode_control,
    encode_head,
)
from hydra_node.p2p.outbox import Outbox, Outgoing

log = logging.getLogger(__name__)

WRITE_BUFFER = 1024 * 1024
WRITE = 256 * 1024
"""Bytes written at a time."""
TURN = 2 * 1024 * 1024
"""Bytes written before the event loop gets to do something else."""


class Listener(Protocol):
    """What sits on a link: first a side of the handshake, then a Connection. Raising a PeerError closes the link."""

    def ready(self, link: "Link") -> None:
        """TLS is up."""

    def arrived(self, link: "Link", event: Arrived) -> None:
        """A whole message came in."""

    def reset(self, stream: int) -> None:
        """The other side abandons what it began on `stream`."""

    def closed(self, reason: PeerError) -> None:
        """The link is gone. Called once."""


class Link(asyncio.BufferedProtocol):
    """An asyncio protocol; `listener` may be replaced at any time by the next stage."""

    def __init__(self, listener: Listener, limits: Limits) -> None:
        self.listener = listener
        self._reader = FrameReader(limits)
        self._outbox = Outbox()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._pump_due = False
        self._reason: PeerError | None = None
        self.heard = self._loop.time()
        self.gone: asyncio.Future[None] = self._loop.create_future()

    # what the owner asks for

    @property
    def closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._transport is None or self._transport.is_closing()

    @property
    def connected(self) -> bool:
        """Whether the connection was made and is not yet gone."""
        return self._transport is not None and not self.gone.done()

    def allow(self, limits: Limits) -> None:
        """Change what the other side may send."""
        self._reader.limits = limits

    def certificate(self) -> bytes | None:
        """The other side's certificate (DER), if it showed one."""
        assert self._transport is not None
        tls = cast(ssl.SSLObject, self._transport.get_extra_info("ssl_object"))
        return tls.getpeercert(binary_form=True)

    def send(self, message: Outgoing) -> None:
        """Queue a message; it takes turns with the others."""
        self._outbox.add(message)
        self._pump()

    def send_body(self, protocol: str, body: bytes) -> None:
        """Queue a small one-way message."""
        head = Head(MessageType.ONE_WAY, protocol, 0, body, 0)
        self.send(Outgoing(0, encode_head(0, head), memoryview(b""), lambda: None))

    def abandon(self, message: Outgoing) -> None:
        """Stop sending a message and tell the other side to forget it."""
        self._outbox.remove(message)
        if message.begun:
            self._write_control(Kind.RESET, message.stream)

    def ping(self) -> None:
        """Ask for a sign of life; `heard` tells when one came."""
        self._write_control(Kind.PING)

    def close(self) -> None:
        """Close after what is already buffered has left."""
        if self._transport is not None:
            self._transport.close()

    def fail(self, reason: PeerError) -> None:
        """Close at once and say why."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # an SSL transport is no subclass of asyncio.Transport in every Python, but has its methods
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._guarded(lambda: self.listener.ready(self))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = self._loop.time()
        self._guarded(lambda: self._received(nbytes))

    def eof_received(self) -> None:
        return None

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._reason or PeerDisconnected(f"the connection closed{f': {exc}' if exc else ''}")
        self._writable = False
        if not self.gone.done():
            self.gone.set_result(None)
        self.listener.closed(reason)

    # inside

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except PeerError as error:
            if isinstance(error, FrameError):
                log.warning("a connection is closed because the other side broke a rule: %s", error)
            self.fail(error)

    def _received(self, count: int) -> None:
        for event in self._reader.received(count):
            if self.closing:
                return
            self._dispatch(event)

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Arrived):
            self.listener.arrived(self, event)
        elif event.kind == Kind.PING:
            self._write_control(Kind.PONG)
        elif event.kind == Kind.RESET:
            self.listener.reset(event.stream)

    def _write_control(self, kind: Kind, stream: int = 0) -> None:
        if not self.closing:
            assert self._transport is not None
            self._transport.write(encode_control(kind, stream))

    def _pump(self) -> None:
        """Write until the transport has enough or the turn is over; go on in the loop's next round."""
        written = 0
        while self._writable and self._outbox and not self.closing and written < TURN:
            assert self._transport is not None
            batch: list[bytes | memoryview] = []
            size = 0
            while self._outbox and size < WRITE:
                buffers = self._outbox.take()
                batch += buffers
                size += sum(map(len, buffers))
            # together they are one call of the system, where one each would be many
            self._transport.writelines(batch)
            written += size
        if written >= TURN and not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump_again)

    def _pump_again(self) -> None:
        self._pump_due = False
        self._pump()
