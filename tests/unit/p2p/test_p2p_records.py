"""Records of the DHT: nothing invalid, expired or older ever displaces a good one, and nobody can fill the place."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.p2p.errors import BadRecord
from hydra_node.p2p.identity import Identity
from hydra_node.p2p.records import MAX_TTL, MAX_VALUE, Record, check, decode, encode, location_of, make_record
from hydra_node.p2p.storage import MAX_PUBLISHERS, RecordStorage, newest

NOW = 1_700_000_000
ALICE = Identity.from_seed(b"a" * 32)
BOB = Identity.from_seed(b"b" * 32)
KEY = "provider/x"
PLACE = location_of(KEY)


def record(
    value: bytes = b"v", *, by: Identity = ALICE, sequence: int = 1, expires: int = NOW + 100, key: str = KEY
) -> Record:
    return make_record(by, key, value, sequence=sequence, expires=expires)


def held_after(*records: Record, now: float = NOW) -> list[bytes]:
    """The values a storage holds after it was offered the records in turn."""
    storage = RecordStorage()
    for item in records:
        try:
            storage.put(PLACE, item, now)
        except BadRecord:
            continue
    return [item.value for item in storage.get(PLACE, now)]


def test_several_publishers_keep_a_value_each() -> None:
    assert sorted(held_after(record(b"1"), record(b"2", by=BOB))) == [b"1", b"2"]


def test_a_newer_record_takes_the_place_of_its_publishers_older_one() -> None:
    assert held_after(record(b"old", sequence=1), record(b"new", sequence=2)) == [b"new"]


def test_an_older_or_equal_record_does_not() -> None:
    assert held_after(record(b"new", sequence=2), record(b"old", sequence=1)) == [b"new"]
    assert held_after(record(b"first", sequence=2), record(b"other", sequence=2)) == [b"first"]


def test_an_expired_record_is_refused_and_a_held_one_fades() -> None:
    assert held_after(record(b"good"), record(b"late", sequence=9, expires=NOW)) == [b"good"]
    storage = RecordStorage()
    storage.put(PLACE, record(expires=NOW + 5), NOW)
    assert storage.get(PLACE, NOW + 5) == []
    storage.expire(NOW + 5)
    assert len(storage) == 0


def test_a_record_may_not_claim_to_live_for_ever() -> None:
    assert held_after(record(expires=NOW + 2 * MAX_TTL)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"forged"},
        {"sequence": 9},
        {"expires": NOW + 99},
        {"publisher": BOB.peer_id},
        {"signature": bytes(64)},
        {"publisher": "nobody"},
    ],
)
def test_a_forged_record_is_refused(change: dict[str, object]) -> None:
    good = record(b"good", sequence=5)
    forged = msgspec.structs.replace(good, **{"sequence": 6, **change})
    with pytest.raises(BadRecord):
        check(forged, PLACE, NOW)
    assert held_after(good, forged) == [b"good"]


def test_a_record_of_another_key_is_refused() -> None:
    with pytest.raises(BadRecord, match="another key"):
        RecordStorage().put(PLACE, record(key="provider/y"), NOW)


def test_only_a_peer_itself_writes_its_peer_record() -> None:
    key = f"peer/{ALICE.peer_id}"
    check(record(key=key), location_of(key), NOW)
    with pytest.raises(BadRecord, match="by another peer"):
        record(key=key, by=BOB)
    other = record(key="peer-/x", by=BOB)
    with pytest.raises(BadRecord):
        check(msgspec.structs.replace(other, key=key), location_of(key), NOW)


def test_a_flood_of_publishers_pushes_out_nobody() -> None:
    storage = RecordStorage()
    first = record(b"first")
    assert storage.put(PLACE, first, NOW)
    crowd = [Identity.generate() for _ in range(MAX_PUBLISHERS)]
    taken = [storage.put(PLACE, record(by=one, expires=NOW + 1000), NOW) for one in crowd]
    assert taken.count(True) == MAX_PUBLISHERS - 1
    assert first in storage.get(PLACE, NOW)
    assert storage.put(PLACE, record(b"again", sequence=2), NOW), "a publisher that is held may always renew"
    assert storage.put(PLACE, record(by=crowd[-1], expires=NOW + 900), NOW + 500), "an expired one makes room"


def test_too_large_a_value_is_refused() -> None:
    record(bytes(MAX_VALUE))
    with pytest.raises(BadRecord):
        record(bytes(MAX_VALUE + 1))
    with pytest.raises(BadRecord):
        decode(msgspec.msgpack.encode((KEY, bytes(MAX_VALUE + 1), ALICE.peer_id, 1, NOW, bytes(64))))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_record_or_a_named_error(data: bytes) -> None:
    try:
        decode(data)
    except BadRecord:
        return


@given(st.permutations(range(5)))
def test_the_newest_wins_in_whatever_order_records_come(order: list[int]) -> None:
    records = [record(bytes([n]), sequence=n, expires=NOW + 10 + n) for n in range(5)]
    assert held_after(*(records[n] for n in order)) == [b"\x04"]
    assert [r.value for r in newest([records[n] for n in order])] == [b"\x04"]


def test_wire_round_trip() -> None:
    item = record()
    assert decode(encode(item)) == item
