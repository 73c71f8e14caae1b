"""The wire format above TLS, without sockets.

A frame is a 16-byte prefix (version, kind, zero, length, stream; big-endian) and `length` bytes. A message is a HEAD
frame (msgpack) and, if it has a payload, DATA frames on the same stream, so that large payloads of several
messages interleave. RESET abandons a message. Every length is checked against its bound before memory is given.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

import msgspec

from hydra_node.p2p.errors import (
    FrameOutOfPlace,
    FrameTooLarge,
    MalformedFrame,
    TooManyStreams,
    UnsupportedVersion,
)

VERSION = 1
PREFIX = struct.Struct(">BBHIQ")
MAX_HEADER = 64 * 1024
CHUNK = 256 * 1024
MAX_DATA = 1024 * 1024
MiB = 1024 * 1024

Buffer = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What a frame holds."""

    HEAD = 1
    DATA = 2
    RESET = 3
    PING = 4
    PONG = 5


class MessageType(IntEnum):
    """What a message is for."""

    REQUEST = 0
    RESPONSE = 1
    FAILURE = 2
    ONE_WAY = 3


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The header of a message. `reply_to` is the stream of the request it answers, or 0."""

    type: MessageType
    protocol: Annotated[str, msgspec.Meta(max_length=128)]
    reply_to: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    body: bytes
    payload_size: Annotated[int, msgspec.Meta(ge=0, le=2**40)]


@dataclass(frozen=True, slots=True)
class Message:
    """What peers exchange: a small encoded `body` (below 63 KiB) and raw `payload` bytes.

    A received payload is a bytearray of its own: the receiver may keep and change it.
    """

    body: bytes = b""
    payload: Buffer = b""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one connection may send us at once. Sizes in bytes."""

    header: int = MAX_HEADER
    payload: int = 64 * MiB
    open_streams: int = 64
    open_bytes: int = 256 * MiB


UNPROVEN = Limits(header=4096, payload=0, open_streams=0, open_bytes=0)
"""What a client may send before it has proved who it is."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A whole message came in."""

    stream: int
    head: Head
    payload: bytearray


@dataclass(frozen=True, slots=True)
class Control:
    """A frame without a message: RESET, PING or PONG."""

    kind: Kind
    stream: int


Event = Arrived | Control

_head_decoder = msgspec.msgpack.Decoder(Head)
_encode = msgspec.msgpack.Encoder().encode


def encode_head(stream: int, head: Head) -> bytes:
    """A HEAD frame; raises FrameTooLarge if the body does not fit."""
    content = _encode(head)
    if len(content) > MAX_HEADER:
        raise FrameTooLarge(
            f"a message header of {len(content)} bytes",
            expected=f"at most {MAX_HEADER}",
            remedy="put the bulk into the payload",
        )
    return PREFIX.pack(VERSION, Kind.HEAD, 0, len(content), stream) + content


def data_prefix(stream: int, length: int) -> bytes:
    """The prefix of a DATA frame of `length` bytes."""
    return PREFIX.pack(VERSION, Kind.DATA, 0, length, stream)


def encode_control(kind: Kind, stream: int = 0) -> bytes:
    """A frame without content."""
    return PREFIX.pack(VERSION, kind, 0, 0, stream)


@dataclass(slots=True)
class _Assembly:
    head: Head
    payload: bytearray
    filled: int = 0


class FrameReader:
    """Turns received bytes into messages.

    Ask `buffer()` where the next bytes belong, write them there, and call `received(count)`. A payload's bytes are
    written straight into the message's own buffer. After an error the reader must not be used again.
    """

    _SMALL_READ = 4096

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._scratch = bytearray(PREFIX.size + MAX_HEADER)
        self._start = 0
        self._end = 0
        self._direct: memoryview | None = None
        self._direct_stream = 0
        self._open: dict[int, _Assembly] = {}
        self._open_bytes = 0

    def buffer(self) -> memoryview:
        """Where the next received bytes go; never empty."""
        if self._direct is not None:
            return self._direct
        if self._start:
            kept = self._end - self._start
            self._scratch[:kept] = self._scratch[self._start : self._end]
            self._start, self._end = 0, kept
        # small reads while idle, so that of a large payload only the first bytes are copied twice
        until = max(self._SMALL_READ, self._end + self._wanted())
        return memoryview(self._scratch)[self._end : min(until, len(self._scratch))]

    def received(self, count: int) -> list[Event]:
        """Account for `count` bytes written at the start of `buffer()`; raises a FrameError."""
        if self._direct is None:
            self._end += count
            return list(self._parse())
        rest = self._direct[count:]
        assembly = self._open[self._direct_stream]
        assembly.filled += count
        if len(rest):
            self._direct = rest
            return []
        self._direct = None
        return list(self._complete(self._direct_stream, assembly))

    def _wanted(self) -> int:
        """How many more bytes the frame begun in the scratch needs before it can be parsed."""
        have = self._end - self._start
        if have < PREFIX.size:
            return PREFIX.size - have
        _, kind, _, length, _ = PREFIX.unpack_from(self._scratch, self._start)
        return int(PREFIX.size + length - have) if kind == Kind.HEAD else 0

    def _parse(self) -> Iterator[Event]:
        while self._direct is None and self._end - self._start >= PREFIX.size:
            version, kind, zero, length, stream = PREFIX.unpack_from(self._scratch, self._start)
            self._check_prefix(version, kind, zero, length)
            if kind == Kind.HEAD:
                if self._end - self._start < PREFIX.size + length:
                    return
                yield from self._begin(stream, length)
            elif kind == Kind.DATA:
                yield from self._data(stream, length)
            else:
                self._start += PREFIX.size
                yield self._control(Kind(kind), stream)

    def _check_prefix(self, version: int, kind: int, zero: int, length: int) -> None:
        if version != VERSION:
            raise UnsupportedVersion(f"a frame of version {version}", expected=f"version {VERSION}")
        if zero or kind not in Kind.__members__.values():
            raise MalformedFrame(f"a frame of unknown kind {kind}")
        bound = {Kind.HEAD: self.limits.header, Kind.DATA: MAX_DATA}.get(Kind(kind), 0)
        if length > bound:
            raise FrameTooLarge(f"a {Kind(kind).name} frame of {length} bytes", expected=f"at most {bound}")

    def _begin(self, stream: int, length: int) -> Iterator[Event]:
        start = self._start + PREFIX.size
        try:
            head = _head_decoder.decode(memoryview(self._scratch)[start : start + length])
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedFrame(f"a message header that cannot be read: {error}") from error
        self._start = start + length
        size = head.payload_size
        if size > self.limits.payload:
            raise FrameTooLarge(f"a payload of {size} bytes", expected=f"at most {self.limits.payload}")
        if stream in self._open:
            raise FrameOutOfPlace(f"stream {stream} is begun twice")
        if not size:
            yield Arrived(stream, head, bytearray())
            return
        if len(self._open) >= self.limits.open_streams or self._open_bytes + size > self.limits.open_bytes:
            raise TooManyStreams("more unfinished messages at once than allowed")
        self._open[stream] = _Assembly(head, bytearray(size))
        self._open_bytes += size

    def _data(self, stream: int, length: int) -> Iterator[Event]:
        assembly = self._open.get(stream)
        if assembly is None:
            raise FrameOutOfPlace(f"data for stream {stream}, which is not open")
        if not 0 < length <= len(assembly.payload) - assembly.filled:
            raise FrameOutOfPlace(f"{length} bytes of data where the payload has no room for them")
        self._start += PREFIX.size
        here = min(length, self._end - self._start)
        assembly.payload[assembly.filled : assembly.filled + here] = memoryview(self._scratch)[
            self._start : self._start + here
        ]
        self._start += here
        assembly.filled += here
        if here < length:
            end = assembly.filled + length - here
            self._direct = memoryview(assembly.payload)[assembly.filled : end]
            self._direct_stream = stream
            return
        yield from self._complete(stream, assembly)

    def _complete(self, stream: int, assembly: _Assembly) -> Iterator[Event]:
        if assembly.filled == len(assembly.payload):
            self._close(stream)
            yield Arrived(stream, assembly.head, assembly.payload)

    def _control(self, kind: Kind, stream: int) -> Control:
        if kind == Kind.RESET:
            self._close(stream)
        return Control(kind, stream)

    def _close(self, stream: int) -> None:
        assembly = self._open.pop(stream, None)
        if assembly is not None:
            self._open_bytes -= len(assembly.payload)
