"""The wire format: what arrives is what was sent, and no bytes whatever crash the reader or make it hoard."""

import contextlib
from collections.abc import Iterable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.p2p.errors import (
    FrameError,
    FrameOutOfPlace,
    FrameTooLarge,
    MalformedFrame,
    TooManyStreams,
    UnsupportedVersion,
)
from hydra_node.p2p.frames import (
    CHUNK,
    MAX_DATA,
    PREFIX,
    UNPROVEN,
    VERSION,
    Arrived,
    Control,
    Event,
    FrameReader,
    Head,
    Kind,
    Limits,
    MessageType,
    data_prefix,
    encode_control,
    encode_head,
)
from hydra_node.p2p.outbox import MAX_LARGE, Outbox, Outgoing

SMALL = Limits(header=1024, payload=4096, open_streams=4, open_bytes=8192)


def feed(reader: FrameReader, data: bytes, step: int = 1 << 30) -> list[Event]:
    """Give bytes to a reader as a socket would, at most `step` at once."""
    events: list[Event] = []
    view = memoryview(data)
    while view:
        room = reader.buffer()
        assert len(room), "a reader always has room"
        count = min(len(room), len(view), step)
        room[:count] = view[:count]
        events += reader.received(count)
        view = view[count:]
    return events


def head(size: int = 0, *, body: bytes = b"", protocol: str = "p/1") -> Head:
    return Head(MessageType.REQUEST, protocol, 0, body, size)


def wire(messages: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """The bytes of whole messages (stream, body, payload), as an Outbox interleaves them."""
    outbox = Outbox()
    for stream, body, payload in messages:
        outbox.add(
            Outgoing(stream, encode_head(stream, head(len(payload), body=body)), memoryview(payload), lambda: None)
        )
    out = bytearray()
    while buffers := outbox.take():
        for buffer in buffers:
            out += buffer
    return bytes(out)


@given(
    bodies=st.lists(st.tuples(st.binary(max_size=400), st.binary(max_size=4096)), max_size=6),
    step=st.integers(1, 5000),
)
def test_messages_arrive_as_sent_however_the_bytes_are_cut(bodies: list[tuple[bytes, bytes]], step: int) -> None:
    messages = [(stream, body, payload) for stream, (body, payload) in enumerate(bodies)]
    events = feed(FrameReader(SMALL), wire(messages), step)
    got = [(e.stream, e.head.body, bytes(e.payload)) for e in events if isinstance(e, Arrived)]
    assert got == messages


def test_large_payloads_take_turns_and_a_small_message_passes_them() -> None:
    large = [(stream, b"", bytes([stream]) * (5 * CHUNK + 7)) for stream in (1, 2)]
    events = feed(FrameReader(Limits()), wire([*large, (3, b"small", b"")]), 70_000)
    assert [e.stream for e in events if isinstance(e, Arrived)] == [3, 1, 2]
    assert all(bytes(e.payload) == p for e in events if isinstance(e, Arrived) for s, _, p in large if s == e.stream)


def test_no_more_large_payloads_are_begun_at_once_than_a_receiver_allows() -> None:
    payload = bytes(2 * CHUNK)
    limits = Limits(payload=2 * CHUNK, open_streams=MAX_LARGE, open_bytes=MAX_LARGE * 2 * CHUNK)
    events = feed(FrameReader(limits), wire([(stream, b"", payload) for stream in range(8)]))
    assert sorted(e.stream for e in events if isinstance(e, Arrived)) == list(range(8))


def test_an_abandoned_message_leaves_its_turn_to_the_next() -> None:
    outbox = Outbox()
    sent: list[int] = []
    items = [
        Outgoing(s, encode_head(s, head(3 * CHUNK)), memoryview(bytes(3 * CHUNK)), partial(sent.append, s))
        for s in range(MAX_LARGE + 1)
    ]
    for item in items:
        outbox.add(item)
    outbox.take()
    outbox.remove(items[0])
    outbox.remove(items[0])
    while outbox.take():
        pass
    assert sent == [1, 2, 3]


@given(st.binary(max_size=3000), st.integers(1, 3000))
@settings(max_examples=300)
def test_random_bytes_are_a_named_error_or_harmless(data: bytes, step: int) -> None:
    reader = FrameReader(SMALL)
    try:
        feed(reader, data, step)
    except FrameError:
        return
    assert len(reader.buffer()) <= PREFIX.size + SMALL.header + 4096


@given(
    kind=st.sampled_from([*Kind, 0, 6, 255]),
    version=st.sampled_from([VERSION, VERSION, VERSION, 0, 2]),
    zero=st.sampled_from([0, 0, 0, 1]),
    length=st.integers(0, 2**32 - 1),
    stream=st.integers(0, 2**64 - 1),
    rest=st.binary(max_size=200),
)
@settings(max_examples=300)
def test_any_prefix_is_bounded_before_memory_is_given(
    kind: int, version: int, zero: int, length: int, stream: int, rest: bytes
) -> None:
    reader = FrameReader(SMALL)
    try:
        feed(reader, PREFIX.pack(version, kind, zero, length, stream) + rest)
    except FrameError:
        return
    assert version == VERSION
    assert length <= SMALL.header


@given(st.data())
def test_a_truncated_conversation_yields_a_prefix_of_its_messages(data: st.DataObject) -> None:
    whole = wire([(1, b"a", bytes(1000)), (2, b"b", b""), (3, b"c", bytes(4000))])
    cut = data.draw(st.integers(0, len(whole)))
    streams = [e.stream for e in feed(FrameReader(SMALL), whole[:cut]) if isinstance(e, Arrived)]
    assert streams == [1, 2, 3][: len(streams)]


@given(st.data())
@settings(max_examples=300)
def test_a_flipped_byte_never_crashes(data: st.DataObject) -> None:
    whole = bytearray(wire([(1, b"a" * 50, bytes(1000)), (2, b"b", b"")]))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(FrameError):
        feed(FrameReader(SMALL), bytes(whole))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (PREFIX.pack(2, Kind.PING, 0, 0, 0), UnsupportedVersion),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", UnsupportedVersion),
        (PREFIX.pack(VERSION, 9, 0, 0, 0), MalformedFrame),
        (PREFIX.pack(VERSION, Kind.PING, 0, 1, 0), FrameTooLarge),
        (PREFIX.pack(VERSION, Kind.HEAD, 0, SMALL.header + 1, 0), FrameTooLarge),
        (PREFIX.pack(VERSION, Kind.HEAD, 0, 3, 0) + b"\xc1\xc1\xc1", MalformedFrame),
        (PREFIX.pack(VERSION, Kind.HEAD, 0, 1000, 0) + b"\x91" * 1000, MalformedFrame),
        (encode_head(1, head(SMALL.payload + 1)), FrameTooLarge),
        (encode_head(1, head(5)) + encode_head(1, head(5)), FrameOutOfPlace),
        (encode_head(1, head(5)) + data_prefix(1, 6) + b"123456", FrameOutOfPlace),
        (encode_head(1, head(5)) + data_prefix(1, 0), FrameOutOfPlace),
        (data_prefix(1, 5), FrameOutOfPlace),
        (encode_head(1, head(5)) + data_prefix(1, MAX_DATA + 1), FrameTooLarge),
        (b"".join(encode_head(s, head(4096)) for s in range(3)), TooManyStreams),
        (b"".join(encode_head(s, head(1)) for s in range(5)), TooManyStreams),
    ],
)
def test_each_broken_rule_has_its_name(data: bytes, error: type[FrameError]) -> None:
    with pytest.raises(error):
        feed(FrameReader(SMALL), data)


def test_a_client_that_proved_nothing_may_send_no_payload() -> None:
    with pytest.raises(FrameTooLarge):
        feed(FrameReader(UNPROVEN), encode_head(0, head(1)))


def test_reset_frees_what_was_begun() -> None:
    reader = FrameReader(SMALL)
    for _ in range(20):
        events = feed(
            reader, encode_head(1, head(4096)) + data_prefix(1, 10) + bytes(10) + encode_control(Kind.RESET, 1)
        )
        assert events == [Control(Kind.RESET, 1)]


def test_a_body_beyond_the_header_bound_is_refused_before_sending() -> None:
    with pytest.raises(FrameTooLarge, match="payload"):
        encode_head(1, head(body=bytes(64 * 1024)))
