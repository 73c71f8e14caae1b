import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.storage import dag
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import InvalidCid, MalformedNode

LEAF = Cid.of(Codec.RAW, b"leaf")

nodes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.binary(max_size=8).map(lambda data: Cid.of(Codec.RAW, data)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(nodes)
def test_what_is_encoded_is_decoded(node):
    assert dag.decode(dag.encode(node)) == node


def test_equal_maps_have_equal_bytes_whatever_their_order():
    assert dag.encode({"b": 1, "a": 2}) == dag.encode({"a": 2, "b": 1})


def test_links_are_found_in_order():
    other = Cid.of(Codec.DAG_CBOR, b"\x00")
    assert dag.links({"a": [LEAF, {"x": other}], "b": LEAF}) == [LEAF, other, LEAF]


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused_by_name(data):
    try:
        node = dag.decode(data)
    except MalformedNode:
        return
    assert dag.encode(node) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81" * 100_000,  # nested without end
        b"\x9b" + b"\xff" * 8,  # a list of 2^64 - 1 items
        b"\x5b" + b"\xff" * 8,  # a byte string as long
        b"\xd8\x2a\x40",  # a CID of no bytes
        b"\xd8\x2a\x41\x00",
        b"\xd8\x2a\x43\x00\x01\x55",
        b"\xfb\x7f\xf8" + b"\x00" * 6,  # NaN
        b"\xa2\x61b\x01\x61a\x02",  # keys out of order
        b"\xa2\x61a\x01\x61a\x02",  # the same key twice
        b"\x18\x01",  # a number longer than it need be
        b"\x00\x00",  # two values
    ],
)
def test_hostile_bytes_are_refused_by_name(data):
    with pytest.raises(MalformedNode):
        dag.decode(data)


def test_a_value_bomb_is_stopped():
    bomb = b"\x9a" + (1_000_000).to_bytes(4, "big") + b"\x80" * 1_000_000
    with pytest.raises(MalformedNode, match="too many"):
        dag.decode(bomb, max_values=1000)


def test_what_dag_cbor_cannot_hold_is_refused():
    for node in (float("nan"), {1: 2}, object(), 2**65):
        with pytest.raises(MalformedNode):
            dag.encode(node)


def test_dag_json_keeps_bytes_and_links():
    node = {"data": b"\x00\xff", "link": LEAF, "list": [1, None, "x"]}
    assert dag.to_json(node)["link"] == {"/": str(LEAF)}
    assert dag.from_json(dag.to_json(node)) == node


@pytest.mark.parametrize("value", [{"/": 3}, {"/": {"bytes": "!"}}, {"/": "nonsense"}, {"/": {"bytes": 1}}])
def test_malformed_dag_json_is_refused(value):
    with pytest.raises((MalformedNode, InvalidCid)):
        dag.from_json(value)
