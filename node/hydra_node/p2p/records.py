"""What the DHT holds: small values signed by whoever publishes them.

A record is good if its publisher signed exactly these fields, it has not expired, and it does not claim a longer life
than allowed. Of one publisher's records under one key the one with the highest sequence counts. Keys that begin with
`peer/` belong to the peer they name.
"""

import hashlib
from typing import Annotated

import msgspec

from hydra_node.p2p.errors import BadRecord
from hydra_node.p2p.identity import SIGNATURE_SIZE, Identity, PeerId, verify

MAX_VALUE = 4095
MAX_KEY = 256
MAX_TTL = 24 * 3600
CLOCK_SKEW = 300
DOMAIN = "dht-record/1"
PEER_PREFIX = "peer/"
KEY_SIZE = 20


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A signed value. `expires` is Unix time in seconds; `publisher` is a peer id."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)]
    value: Annotated[bytes, msgspec.Meta(max_length=MAX_VALUE)]
    publisher: Annotated[str, msgspec.Meta(max_length=64)]
    sequence: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    expires: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_SIZE, max_length=SIGNATURE_SIZE)]

    @property
    def peer_id(self) -> PeerId:
        """The publisher; its form is checked by `check`, with the signature."""
        return PeerId(self.publisher)

    @property
    def location(self) -> bytes:
        """Where in the DHT's key space it lives."""
        return location_of(self.key)


_decoder = msgspec.msgpack.Decoder(Record)


def location_of(key: str) -> bytes:
    """The 20-byte place of a key in the space of node ids."""
    return hashlib.sha256(b"hydra-dht-key:" + key.encode()).digest()[:KEY_SIZE]


def _statement(key: str, value: bytes, publisher: str, sequence: int, expires: int) -> bytes:
    return msgspec.msgpack.encode((key, value, publisher, sequence, expires))


def make_record(identity: Identity, key: str, value: bytes, *, sequence: int, expires: int) -> Record:
    """Sign a value; raises BadRecord if it is too large or the key is not this peer's to write."""
    if len(value) > MAX_VALUE:
        raise BadRecord(f"a DHT value of {len(value)} bytes", expected=f"at most {MAX_VALUE}")
    if not 0 < len(key) <= MAX_KEY:
        raise BadRecord(f"a DHT key of {len(key)} characters", expected=f"1 to {MAX_KEY}")
    _check_owner(key, identity.peer_id)
    signature = identity.sign(_statement(key, value, identity.peer_id, sequence, expires), domain=DOMAIN)
    return Record(key, value, identity.peer_id, sequence, expires, signature)


def encode(record: Record) -> bytes:
    """A record as it travels and is stored."""
    return msgspec.msgpack.encode(record)


def decode(data: bytes) -> Record:
    """A record from the wire, not yet checked; raises BadRecord."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise BadRecord(f"a DHT record that cannot be read: {error}") from error


def check(record: Record, location: bytes, now: float) -> None:
    """Raise BadRecord unless the record is good at Unix time `now` and belongs at `location`."""
    if record.location != location:
        raise BadRecord("a DHT record under another key than its own")
    if record.expires <= now:
        raise BadRecord("a DHT record that has expired")
    if record.expires > now + MAX_TTL + CLOCK_SKEW:
        raise BadRecord("a DHT record that would live too long", expected=f"at most {MAX_TTL} s")
    _check_owner(record.key, record.publisher)
    statement = _statement(record.key, record.value, record.publisher, record.sequence, record.expires)
    if not verify(record.publisher, statement, record.signature, domain=DOMAIN):
        raise BadRecord("a DHT record that its publisher did not sign")


def _check_owner(key: str, publisher: str) -> None:
    if key.startswith(PEER_PREFIX) and key != PEER_PREFIX + publisher:
        raise BadRecord("a peer record by another peer", expected=f"the publisher {key.removeprefix(PEER_PREFIX)}")
