import hashlib

import pytest

from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import CorruptBlock, InvalidCid

HELLO_V1 = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"  # "hello world", one raw leaf
HELLO_V0 = "Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD"  # the same, as `ipfs add` without options


def test_raw_block_has_the_name_that_ipfs_gives_it():
    cid = Cid.of(Codec.RAW, b"hello world")
    assert str(cid) == HELLO_V1
    assert Cid.parse(HELLO_V1) == cid


@pytest.mark.parametrize("text", [HELLO_V1, HELLO_V0])
def test_text_and_bytes_round_trip(text):
    cid = Cid.parse(text)
    assert str(cid) == text
    assert Cid.from_bytes(bytes(cid)) == cid


def test_other_multibases_name_the_same_block():
    base58 = "zb2rhj7crUKTQYRGCRATFaQ6YFLTde2YzdqbbhAASkL9uRDXn"
    assert str(Cid.parse(base58)) == HELLO_V1


def test_verify_tells_right_from_wrong_bytes():
    cid = Cid.of(Codec.RAW, b"right")
    cid.verify(b"right")
    with pytest.raises(CorruptBlock):
        cid.verify(b"wrong")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        "Qm",
        "zzzz",
        "hello",
        "\x00",
        "é" * 50,
        HELLO_V1[:-1],
        HELLO_V1 + "a",
        "x" * 10_000,
        HELLO_V0[:-2],
    ],
)
def test_nonsense_is_refused_by_name(text):
    with pytest.raises(InvalidCid):
        Cid.parse(text)


def test_other_hash_functions_and_codecs_are_refused():
    sha512 = bytes((1, 0x55, 0x13, 64)) + hashlib.sha512(b"x").digest()
    git = bytes((1, 0x78, 0x12, 32)) + hashlib.sha256(b"x").digest()
    identity = bytes((1, 0x55, 0x00, 1)) + b"x"
    for data in (sha512, git, identity, b"\x01\x55\x12\x20short"):
        with pytest.raises(InvalidCid):
            Cid.from_bytes(data)
