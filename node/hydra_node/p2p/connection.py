"""Requests, answers and one-way messages, many at a time, over one link to a peer that is known."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hydra_node.errors import HydraError
from hydra_node.p2p.errors import (
    FrameOutOfPlace,
    FrameTooLarge,
    MalformedFrame,
    PeerBusy,
    PeerDisconnected,
    PeerError,
    RemoteError,
    RequestTimeout,
    TooManyStreams,
    UnknownProtocol,
)
from hydra_node.p2p.frames import Arrived, Head, Limits, Message, MessageType, encode_head
from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.link import Link
from hydra_node.p2p.outbox import Outgoing

log = logging.getLogger(__name__)

Handler = Callable[[PeerId, Message], Awaitable[Message | None]]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

MAX_ERROR_TEXT = 1024


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What one peer may ask of us at once."""

    limits: Limits = field(default_factory=Limits)
    max_handlers: int = 256


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a request was not answered: the error's name and text."""

    name: str
    text: str


_failure_decoder = msgspec.msgpack.Decoder(Failure)


class Connection:
    """The one connection with a peer, whoever dialled it. `boot` tells the peer's runs apart."""

    def __init__(
        self,
        link: Link,
        *,
        peer_id: PeerId,
        boot: bytes,
        dialled: bool,
        handlers: Mapping[str, Handler],
        spawn: Spawn,
        on_closed: Callable[["Connection", PeerError], None],
        options: ConnectionOptions,
    ) -> None:
        self.link = link
        self.peer_id = peer_id
        self.boot = boot
        self.dialled = dialled
        self._handlers = handlers
        self._spawn = spawn
        self._on_closed = on_closed
        self._options = options
        self._streams = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._sending: set[asyncio.Future[None]] = set()
        self._handling: dict[int, asyncio.Task[None]] = {}

    async def request(self, protocol: str, message: Message, timeout: float) -> Message:
        """Send a request and wait for its answer, at most `timeout` seconds.

        Raises RequestTimeout, PeerDisconnected, RemoteError, FrameTooLarge. The payload must not change meanwhile.
        """
        stream = next(self._streams)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        outgoing = self._outgoing(stream, MessageType.REQUEST, protocol, message)
        self._waiting[stream] = answer
        try:
            self.link.send(outgoing)
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError as error:
            raise RequestTimeout(
                f"peer {self.peer_id} did not answer a {protocol} request", expected=f"within {timeout:.2g} s"
            ) from error
        finally:
            del self._waiting[stream]
            if not answer.done() or answer.cancelled():
                self.link.abandon(outgoing)

    async def send(self, protocol: str, message: Message, timeout: float) -> None:
        """Send a one-way message; returns when all of it was handed to the operating system's side of TLS.

        Raises RequestTimeout, PeerDisconnected, FrameTooLarge. The payload must not change meanwhile.
        """
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def mark_sent() -> None:
            if not sent.done():
                sent.set_result(None)

        outgoing = self._outgoing(next(self._streams), MessageType.ONE_WAY, protocol, message, sent=mark_sent)
        self._sending.add(sent)
        try:
            self.link.send(outgoing)
            if sent.done():
                return sent.result()
            async with asyncio.timeout(timeout):
                await sent
        except TimeoutError as error:
            raise RequestTimeout(
                f"peer {self.peer_id} did not take a {protocol} message", expected=f"within {timeout:.2g} s"
            ) from error
        finally:
            self._sending.discard(sent)
            if not sent.done() or sent.cancelled():
                self.link.abandon(outgoing)

    # Listener

    def ready(self, link: Link) -> None:
        """A connection is made from a link that is ready already."""

    def arrived(self, link: Link, event: Arrived) -> None:
        """Hand an answer to who waits for it, a request to its handler."""
        match event.head.type:
            case MessageType.RESPONSE:
                self._answer(event, Message(event.head.body, event.payload))
            case MessageType.FAILURE:
                self._answer(event, self._remote_error(event.head))
            case MessageType.REQUEST | MessageType.ONE_WAY:
                self._serve(event)

    def reset(self, stream: int) -> None:
        """The peer no longer wants the answer to its request `stream`."""
        task = self._handling.get(stream)
        if task is not None:
            task.cancel()

    def closed(self, reason: PeerError) -> None:
        """Fail whoever waits, stop whoever works for the peer, tell the owner."""
        lost = PeerDisconnected(f"the connection with peer {self.peer_id} was lost: {reason.what}")
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(lost)
        for sent in self._sending:
            if not sent.done():
                sent.set_exception(lost)
        for task in self._handling.values():
            task.cancel()
        self._on_closed(self, reason)

    # inside

    def _outgoing(
        self,
        stream: int,
        kind: MessageType,
        protocol: str,
        message: Message,
        *,
        reply_to: int = 0,
        sent: Callable[[], None] = lambda: None,
    ) -> Outgoing:
        if self.link.closing:
            raise PeerDisconnected(f"the connection with peer {self.peer_id} is closed")
        payload = memoryview(message.payload).cast("B")
        bound = self._options.limits.payload
        if len(payload) > bound:
            raise FrameTooLarge(f"a payload of {len(payload)} bytes", expected=f"at most {bound}")
        head = Head(kind, protocol, reply_to, message.body, len(payload))
        return Outgoing(stream, encode_head(stream, head), payload, sent)

    def _answer(self, event: Arrived, result: Message | RemoteError) -> None:
        future = self._waiting.get(event.head.reply_to)
        if future is None or future.done():
            return
        if isinstance(result, Message):
            future.set_result(result)
        else:
            future.set_exception(result)

    def _remote_error(self, head: Head) -> RemoteError:
        try:
            failure = _failure_decoder.decode(head.body)
        except msgspec.DecodeError as error:
            raise MalformedFrame("an error answer that cannot be read") from error
        return RemoteError(self.peer_id, head.protocol, failure.name[:64], failure.text[:MAX_ERROR_TEXT])

    def _serve(self, event: Arrived) -> None:
        if event.stream in self._handling:
            raise FrameOutOfPlace(f"request {event.stream} is made twice")
        if len(self._handling) >= self._options.max_handlers:
            if event.head.type == MessageType.ONE_WAY:
                raise TooManyStreams("more one-way messages at once than can be handled")
            self._refuse(event, PeerBusy("too many requests at once", expected="fewer, or later"))
            return
        task = self._spawn(self._handle(event))
        self._handling[event.stream] = task
        task.add_done_callback(lambda _: self._handling.pop(event.stream, None))

    async def _handle(self, event: Arrived) -> None:
        protocol = event.head.protocol
        try:
            handler = self._handlers.get(protocol)
            if handler is None:
                raise UnknownProtocol(f"no handler for {protocol!r}")
            answer = await handler(self.peer_id, Message(event.head.body, event.payload))
            if event.head.type == MessageType.REQUEST:
                self._respond(event, MessageType.RESPONSE, answer or Message())
        except PeerDisconnected:
            log.debug("peer %s left before its %s request was answered", self.peer_id, protocol)
        except HydraError as error:
            self._refuse(event, error)
        except Exception as error:
            # a handler's fault is told to the peer and logged; the node lives on
            log.exception("the handler of %s failed", protocol)
            self._refuse(event, error)

    def _respond(self, event: Arrived, kind: MessageType, message: Message) -> None:
        self.link.send(self._outgoing(next(self._streams), kind, event.head.protocol, message, reply_to=event.stream))

    def _refuse(self, event: Arrived, error: Exception) -> None:
        if event.head.type != MessageType.REQUEST or self.link.closing:
            return
        failure = Failure(type(error).__name__, str(error)[:MAX_ERROR_TEXT])
        self._respond(event, MessageType.FAILURE, Message(msgspec.msgpack.encode(failure)))
