import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.campaigns.policy import ItemSchema
from hydra_node.storage import dag, items, merkle
from hydra_node.storage.errors import MalformedSubmission
from hydra_node.storage.items import Item, Schema

DIGITS = Schema("u1", (2, 2), 16, 10)
FLOATS = Schema("f4", (3,), 1.5, 2)


def _payload(schema=None, entries=None, **extra):
    node = {
        "schema": schema if schema is not None else DIGITS.to_node(),
        "items": entries if entries is not None else [[b"abcd", 1]],
    }
    return dag.encode(node | extra)


@given(st.lists(st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 9)), min_size=1, max_size=20))
def test_what_is_packed_is_unpacked(pairs):
    packed = tuple(Item(features, label) for features, label in pairs)
    assert items.unpack(items.pack(DIGITS, packed)) == (DIGITS, packed)


def test_a_campaigns_own_schema_will_do():
    policy = ItemSchema(dtype="u1", shape=(2, 2), scale=16, classes=10)
    data = items.pack(policy, [Item(b"abcd", 1)])
    assert data == items.pack(DIGITS, [Item(b"abcd", 1)])
    assert items.unpack(data, schema=policy).schema == DIGITS
    with pytest.raises(MalformedSubmission, match="campaign"):
        items.unpack(data, schema=FLOATS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "dag-cbor"),
        (_payload()[:-1], "dag-cbor"),
        (_payload() + b"\x00", "dag-cbor"),
        (b"\xa1\x65items\x9b" + b"\xff" * 8, "dag-cbor"),
        (dag.encode([1, 2]), "wrong fields"),
        (_payload(more=1), "wrong fields"),
        (_payload(schema={"dtype": "u1"}), "wrong fields"),
        (_payload(schema=DIGITS.to_node() | {"dtype": "f8"}), "dtype"),
        (_payload(schema=DIGITS.to_node() | {"dtype": ["u1"]}), "dtype"),
        (_payload(schema=DIGITS.to_node() | {"shape": []}), "shape"),
        (_payload(schema=DIGITS.to_node() | {"shape": [2, -2]}), "shape"),
        (_payload(schema=DIGITS.to_node() | {"shape": [2**40, 2**40]}), "shape"),
        (_payload(schema=DIGITS.to_node() | {"shape": [True]}), "shape"),
        (_payload(schema=DIGITS.to_node() | {"shape": "ab"}), "shape"),
        (_payload(schema=DIGITS.to_node() | {"scale": 0}), "scale"),
        (_payload(schema=DIGITS.to_node() | {"scale": "1"}), "scale"),
        (_payload(schema=DIGITS.to_node() | {"classes": 0}), "classes"),
        (_payload(entries=[]), "0 items"),
        (_payload(entries={"a": 1}), "items"),
        (_payload(entries=[[b"abcd", 1]] * 11), "11 items"),
        (_payload(entries=[[b"x" * 2000, 1]]), "bytes"),
    ],
)
def test_malformed_payloads_are_refused_with_the_reason(data, reason):
    with pytest.raises(MalformedSubmission, match=reason):
        items.unpack(data, max_items=10, max_bytes=1000)


@pytest.mark.parametrize(
    ("entries", "bad"),
    [
        ([[b"abcd", 1], [b"abc", 1], [b"abcde", 1]], (1, 2)),
        ([[b"abcd", 10], [b"abcd", 0], [b"abcd", -1]], (0, 2)),
        ([[b"abcd", 1], [b"abcd"]], (1,)),
        ([[b"abcd", 1], ["abcd", 1]], (1,)),
        ([[b"abcd", True]], (0,)),
        ([[b"abcd", 1], 5], (1,)),
    ],
)
def test_items_at_fault_are_named(entries, bad):
    with pytest.raises(MalformedSubmission) as caught:
        items.unpack(_payload(entries=entries))
    assert caught.value.items == bad


def test_features_that_are_no_numbers_are_named():
    rows = np.zeros((4, 3), dtype="<f4")
    rows[1, 2] = np.nan
    rows[3, 0] = np.inf
    entries = [[row.tobytes(), 0] for row in rows]
    with pytest.raises(MalformedSubmission, match="finite") as caught:
        items.unpack(_payload(FLOATS.to_node(), entries))
    assert caught.value.items == (1, 3)
    assert len(items.unpack(_payload(FLOATS.to_node(), entries), check_items=False).items) == 4


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_by_name(data):
    with pytest.raises(MalformedSubmission):
        items.unpack(data)


def test_a_small_payload_cannot_become_a_huge_object():
    count = 200_000
    bomb = b"\xa2\x65items\x9a" + count.to_bytes(4, "big") + b"\x80" * count
    with pytest.raises(MalformedSubmission, match="too many"):
        items.unpack(bomb, max_items=1000)


def test_item_hash_tells_features_and_labels_apart():
    hashes = {
        items.item_hash(Item(features, label))
        for features in (b"", b"a", b"\x00a")
        for label in (0, 1, -1, 2**63, 2**200)
    }
    assert len(hashes) == 15
    assert items.root([items.item_hash(Item(b"a", 0))]) == merkle.root([items.item_hash(Item(b"a", 0))])


def test_arrays_to_items_and_back():
    features = np.arange(8, dtype=np.float64).reshape(2, 2, 2)
    labels = np.array([3, 4])
    made = items.from_arrays(DIGITS, features, labels)
    again, same = items.to_arrays(DIGITS, made)
    assert again.dtype == np.float32
    assert same.dtype == np.int64
    np.testing.assert_array_equal(again, (features / 16).astype(np.float32))
    np.testing.assert_array_equal(same, labels)


@pytest.mark.parametrize(
    ("features", "labels", "bad"),
    [
        (np.array([[0, 1, 2, 3], [0, 0, 0, 256]]), [0, 1], (1,)),
        (np.array([[0, 1, 2, 0.5]]), [0], (0,)),
        (np.array([[0, 1, 2, np.nan]]), [0], (0,)),
        (np.array([[0, 1, 2, 3]]), [10], (0,)),
        (np.array([[0, 1, 2]]), [1], ()),
        (np.array([[0, 1, 2, 3]]), [1, 2], ()),
    ],
)
def test_arrays_that_do_not_fit_are_refused(features, labels, bad):
    with pytest.raises(MalformedSubmission) as caught:
        items.from_arrays(DIGITS, features, np.array(labels))
    assert caught.value.items == bad
