"""What members say to each other. A message is a small msgpack body and, for some, one raw payload."""

from typing import Annotated

import msgspec

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective.errors import MalformedMessage
from hydra_node.collective.log import Entry
from hydra_node.collective.record import Binding, Ranges, Record

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Name = Annotated[str, msgspec.Meta(max_length=128)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)]


class _Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    pass


class _Fenced(_Message, frozen=True, tag=True, kw_only=True):
    """Belongs to one attempt at one height of one view, and is refused elsewhere."""

    height: Count
    view: Count
    attempt: Count


# forming and catching up


class Hello(_Message, frozen=True, tag=True, kw_only=True):
    """`incarnation` of the sender looks for the swarm."""

    incarnation: Count


class Genesis(_Message, frozen=True, tag=True, kw_only=True):
    """The first member proposes the first view."""

    record: Record


class GenesisVote(_Message, frozen=True, tag=True, kw_only=True):
    """A member of the first view agrees to it."""

    digest: bytes
    signature: bytes


class Welcome(_Message, frozen=True, tag=True, kw_only=True):
    """The swarm exists: its first entry."""

    entry: Entry


class Status(_Message, frozen=True, tag=True, kw_only=True):
    """Where the sender stands and what it lacks; also its sign of life.

    `promised` is the attempt it takes part in (-1: none). `shards` are the senders whose shards it lacks as an owner,
    `parts` the owners whose part of the result it lacks, `value` the digest of a record whose bytes it lacks.
    `ask` asks for the entries that the sender lacks, `follow` for those committed from now on; `ready` says that it has
    caught up and wants to be a member.
    """

    incarnation: Count
    genesis: bytes
    height: Count
    view: Count
    promised: int = -1
    shards: Names = ()
    parts: Names = ()
    value: bytes = b""
    voted: bool = False
    follow: bool = False
    ask: bool = False
    ready: bool = False


class Committed(_Message, frozen=True, tag=True, kw_only=True):
    """Committed entries, encoded in the payload; the sender's log reaches `height`."""

    height: Count
    payload: bytes = b""


class Behind(_Message, frozen=True, tag=True, kw_only=True):
    """What the receiver lacks is kept no longer; it should ask for the state."""

    height: Count


class StateRequest(_Message, frozen=True, tag=True, kw_only=True):
    """Asks for the training state at the newest border."""


class State(_Message, frozen=True, tag=True, kw_only=True):
    """The training state before `step`, in the payload with the proof that the log reaches it."""

    step: Count
    payload: bytes = b""


class Leave(_Message, frozen=True, tag=True, kw_only=True):
    """The sender asks the leader for a view without it."""


# one height of the log


class Plan(_Fenced, frozen=True, tag=True, kw_only=True):
    """The leader opens an attempt at a step: who works on what, who owns shards."""

    step: Count
    participants: Names
    owners: Names
    ranges: dict[Name, Ranges]


class Shard(_Fenced, frozen=True, tag=True, kw_only=True):
    """The sender's numbers that the receiver owns."""

    binding: Binding
    payload: bytes = b""


class Received(msgspec.Struct, frozen=True, array_like=True):
    """What an owner has of one sender: the sender's signed binding, its part of the squared norm, or a fault."""

    binding: Binding
    squared_norm: float
    fault: str = ""


class Report(_Fenced, frozen=True, tag=True, kw_only=True):
    """An owner tells the leader what it has; anyone tells how its own work went."""

    received: Annotated[tuple[Received, ...], msgspec.Meta(max_length=256)]
    state_digest: bytes
    telemetry: Telemetry | None = None


class Decide(_Fenced, frozen=True, tag=True, kw_only=True):
    """The proposer's value: a step still without its result, one with it (taken over from earlier votes), or a view."""

    record: Record


class Part(_Fenced, frozen=True, tag=True, kw_only=True):
    """What `owner` summed."""

    owner: Name
    payload: bytes = b""


class Vote(_Fenced, frozen=True, tag=True, kw_only=True):
    """The sender holds all of the record's result and votes for it."""

    digest: bytes
    signature: bytes


class Prepare(_Fenced, frozen=True, tag=True, kw_only=True):
    """A proposer asks for promises to refuse every earlier attempt."""


class Promise(_Fenced, frozen=True, tag=True, kw_only=True):
    """The sender refuses earlier attempts. `voted` is the newest record that it voted for at this height, if any."""

    voted_attempt: int = -1
    voted: Record | None = None
    step: int = -1
    ranges: dict[Name, Ranges] | None = None


class Value(_Fenced, frozen=True, tag=True, kw_only=True):
    """A record that somebody voted for, with the bytes of its result, for one who lacks them."""

    record: Record
    payload: bytes = b""


Message = (
    Hello
    | Genesis
    | GenesisVote
    | Welcome
    | Status
    | Committed
    | Behind
    | StateRequest
    | State
    | Leave
    | Plan
    | Shard
    | Report
    | Decide
    | Part
    | Vote
    | Prepare
    | Promise
    | Value
)
Fenced = Plan | Shard | Report | Decide | Part | Vote | Prepare | Promise | Value
Bulky = Committed | State | Shard | Part | Value

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(Message)
_entries = msgspec.msgpack.Decoder(list[Entry])
_state = msgspec.msgpack.Decoder(tuple[list[Entry], bytes])


def encode(message: Message) -> tuple[bytes, bytes]:
    """(body, payload)."""
    if isinstance(message, Bulky):
        return _encoder.encode(msgspec.structs.replace(message, payload=b"")), message.payload
    return _encoder.encode(message), b""


def decode(body: bytes, payload: bytes) -> Message:
    """Reads a message; raises MalformedMessage."""
    try:
        message: Message = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise MalformedMessage(f"a message cannot be read: {error}") from error
    if isinstance(message, Bulky):
        return msgspec.structs.replace(message, payload=payload)
    if payload:
        raise MalformedMessage(f"{type(message).__name__} carries a payload")
    return message


def pack_entries(entries: list[Entry]) -> bytes:
    """The payload of Committed."""
    return _encoder.encode(entries)


def unpack_entries(payload: bytes) -> list[Entry]:
    """Raises MalformedMessage."""
    try:
        return _entries.decode(payload)
    except msgspec.DecodeError as error:
        raise MalformedMessage(f"committed entries cannot be read: {error}") from error


def pack_state(proof: list[Entry], state: bytes) -> bytes:
    """The payload of State."""
    return _encoder.encode((proof, state))


def unpack_state(payload: bytes) -> tuple[list[Entry], bytes]:
    """Raises MalformedMessage."""
    try:
        return _state.decode(payload)
    except msgspec.DecodeError as error:
        raise MalformedMessage(f"a state cannot be read: {error}") from error
