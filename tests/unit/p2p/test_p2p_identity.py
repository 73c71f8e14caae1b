"""A peer id is the key: who may sign, what is refused, and how the key file is kept."""

import stat
from pathlib import Path

import pytest

from hydra_node.p2p.errors import BadPeerId, IdentityFileUnusable
from hydra_node.p2p.identity import Identity, parse_peer_id, peer_id_of, public_key_of, verify

# The key pair of RFC 8032, 7.1 TEST 1.
RFC8032_SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RFC8032_PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


def base58(data: bytes) -> str:
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, 58)
        text = alphabet[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def test_peer_id_is_the_libp2p_form_of_the_public_key() -> None:
    identity = Identity.from_seed(RFC8032_SEED)
    assert identity.public_key == RFC8032_PUBLIC
    assert identity.peer_id == base58(bytes.fromhex("002408011220") + RFC8032_PUBLIC)
    assert identity.peer_id.startswith("12D3KooW")
    assert public_key_of(identity.peer_id) == RFC8032_PUBLIC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12D3KooW",
        "x" * 10_000,
        "0OIl",
        "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
        "1" + peer_id_of(RFC8032_PUBLIC),
        peer_id_of(RFC8032_PUBLIC) + "1",
        peer_id_of(RFC8032_PUBLIC)[:-1],
        " " + peer_id_of(RFC8032_PUBLIC),
    ],
)
def test_what_is_no_peer_id_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadPeerId):
        parse_peer_id(text)
    assert not verify(text, b"message", bytes(64))


def test_a_signature_holds_for_one_key_one_message_one_domain() -> None:
    mine, other = Identity.generate(), Identity.generate()
    signature = mine.sign(b"message", domain="vote")
    assert verify(mine.peer_id, b"message", signature, domain="vote")
    assert not verify(other.peer_id, b"message", signature, domain="vote")
    assert not verify(mine.peer_id, b"massage", signature, domain="vote")
    assert not verify(mine.peer_id, b"message", signature, domain="handshake")
    assert not verify(mine.peer_id, b"message", signature)
    assert not verify(mine.peer_id, b"message", signature[:-1], domain="vote")


def test_domain_and_message_cannot_be_shifted_into_each_other() -> None:
    identity = Identity.generate()
    assert not verify(identity.peer_id, b"c", identity.sign(b"bc", domain="a"), domain="ab")


def test_the_key_survives_a_restart_and_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "peer.key"
    first = Identity.load_or_create(path)
    assert Identity.load_or_create(path).peer_id == first.peer_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["peer.key"]


def test_a_damaged_or_exposed_key_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "peer.key"
    Identity.load_or_create(path)
    path.chmod(0o644)
    with pytest.raises(IdentityFileUnusable, match="chmod 600"):
        Identity.load_or_create(path)
    path.chmod(0o600)
    path.write_bytes(b"")
    with pytest.raises(IdentityFileUnusable, match="damaged"):
        Identity.load_or_create(path)
    assert path.read_bytes() == b""


def test_the_private_key_is_not_shown() -> None:
    identity = Identity.from_seed(RFC8032_SEED)
    assert repr(identity) == f"Identity({identity.peer_id})"
