import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.storage import merkle

leaf_lists = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40)


def _by_definition(leaves):
    """RFC 6962's recursive definition, word for word."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + _by_definition(leaves[:k]) + _by_definition(leaves[k:])).digest()


def test_roots_of_rfc_6962():
    # The test vectors of the certificate-transparency reference implementation.
    leaves = [
        b"",
        b"\x00",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        bytes(range(0x50, 0x58)),
        bytes(range(0x60, 0x70)),
    ]
    assert merkle.root(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle.root(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


@given(leaf_lists)
def test_root_is_the_definitions(leaves):
    assert merkle.root(leaves) == _by_definition(leaves)


@given(leaf_lists, st.data())
def test_proof_holds_for_its_leaf_and_place_only(leaves, data):
    index = data.draw(st.integers(0, len(leaves) - 1))
    root, path = merkle.root(leaves), merkle.proof(leaves, index)
    assert merkle.verify(leaves[index], index, len(leaves), path, root)
    assert not merkle.verify(b"other", index, len(leaves), path, root)
    assert not merkle.verify(leaves[index], index, len(leaves), [*path, b"\x00" * 32], root)
    assert not merkle.verify(leaves[index], len(leaves), len(leaves), path, root)
    elsewhere = data.draw(st.integers(0, len(leaves) - 1))
    if leaves[elsewhere] != leaves[index]:
        assert not merkle.verify(leaves[index], elsewhere, len(leaves), path, root)


def test_an_inner_node_is_no_leaf():
    leaves = [b"a" * 32, b"b" * 32]
    inner = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves)
    assert merkle.root([inner]) != merkle.root(leaves)


def test_no_proof_outside_the_leaves():
    with pytest.raises(IndexError):
        merkle.proof([b"x"], 1)
