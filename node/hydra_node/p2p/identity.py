"""Who a peer is: an Ed25519 key, and the peer id that carries the public half.

The text of a peer id is libp2p's: base58btc of the identity multihash of the protobuf-encoded public key, which
for Ed25519 always begins with `12D3KooW`. A peer id is therefore enough to verify what its owner signed.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import NewType, Self
from uuid import uuid4

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from multiformats import multibase

from hydra_node.p2p.errors import BadPeerId, IdentityFileUnusable

PeerId = NewType("PeerId", str)

PUBLIC_KEY_SIZE = 32
SIGNATURE_SIZE = 64

# identity multihash (code 0, 36 bytes) of the protobuf {type: Ed25519 (1), data: 32 bytes}
_PEER_ID_PREFIX = bytes.fromhex("0024" + "0801" + "1220")
_MAX_PEER_ID_TEXT = 64


def peer_id_of(public_key: bytes) -> PeerId:
    """The peer id of a raw 32-byte Ed25519 public key; raises BadPeerId on another length."""
    if len(public_key) != PUBLIC_KEY_SIZE:
        raise BadPeerId(f"a public key of {len(public_key)} bytes", expected=f"{PUBLIC_KEY_SIZE} bytes")
    return PeerId(multibase.encode(_PEER_ID_PREFIX + public_key, "base58btc")[1:])


@lru_cache(maxsize=4096)
def public_key_of(peer_id: str) -> bytes:
    """The raw 32-byte public key that a peer id carries; raises BadPeerId if the text is no peer id."""
    expected = "the form 12D3KooW..., the peer id of an Ed25519 key"
    if not isinstance(peer_id, str) or not 0 < len(peer_id) <= _MAX_PEER_ID_TEXT:
        raise BadPeerId("a peer id of impossible length", expected=expected)
    try:
        raw = multibase.decode("z" + peer_id)
    except (ValueError, KeyError) as error:
        raise BadPeerId(f"{peer_id!r} is not base58", expected=expected) from error
    key = raw[len(_PEER_ID_PREFIX) :]
    if not raw.startswith(_PEER_ID_PREFIX) or len(key) != PUBLIC_KEY_SIZE or peer_id_of(key) != peer_id:
        raise BadPeerId(f"{peer_id!r} is not a peer id", expected=expected)
    return key


def parse_peer_id(text: str) -> PeerId:
    """The text as a PeerId; raises BadPeerId."""
    public_key_of(text)
    return PeerId(text)


def _bound(domain: str, message: bytes) -> bytes:
    """What is really signed: a signature given for one purpose never serves another."""
    name = domain.encode()
    return b"hydra-signature/1:" + len(name).to_bytes(2, "big") + name + message


def verify(peer_id: str, message: bytes, signature: bytes, *, domain: str = "message") -> bool:
    """Whether `signature` is the one that `peer_id` makes of `message` in `domain`; False for any malformed input."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key_of(peer_id))
        key.verify(signature, _bound(domain, message))
    except (BadPeerId, InvalidSignature, ValueError):
        return False
    return True


class Identity:
    """A peer's own key. It signs; it shows its private half to nobody but the TLS layer and its file."""

    __slots__ = ("_key", "peer_id", "public_key")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key: bytes = key.public_key().public_bytes_raw()
        self.peer_id: PeerId = peer_id_of(self.public_key)

    def __repr__(self) -> str:
        return f"Identity({self.peer_id})"

    @classmethod
    def generate(cls) -> Self:
        """A fresh identity, in memory only."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """The identity of a 32-byte secret seed."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """The identity kept in `path`; made there, readable by the owner alone, if there is none.

        Two processes that create at once end with the same key. Raises IdentityFileUnusable.
        """
        if not path.exists():
            _create_exclusively(path, cls.generate()._pem())
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """The identity kept in `path`; raises IdentityFileUnusable."""
        try:
            mode = path.stat().st_mode
            pem = path.read_bytes()
        except OSError as error:
            raise IdentityFileUnusable(f"cannot read the peer key {path}: {error.strerror}") from error
        if os.name == "posix" and mode & 0o077:
            raise IdentityFileUnusable(
                f"the peer key {path} is readable by others",
                expected="mode 600",
                remedy=f"run: chmod 600 {path}",
            )
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise IdentityFileUnusable(
                f"the peer key {path} is damaged", remedy="restore it, or move it away to get a new identity"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise IdentityFileUnusable(f"the peer key {path} is of another kind", expected="an Ed25519 key")
        return cls(key)

    def sign(self, message: bytes, *, domain: str = "message") -> bytes:
        """A 64-byte signature of `message`, valid in `domain` only."""
        return self._key.sign(_bound(domain, message))

    verify = staticmethod(verify)

    def private_key(self) -> Ed25519PrivateKey:
        """The key itself, for the TLS certificate."""
        return self._key

    def _pem(self) -> bytes:
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _create_exclusively(path: Path, content: bytes) -> None:
    """Write `path` whole or not at all; keep what another process wrote first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IdentityFileUnusable(
            f"the folder {path.parent} cannot be made ({error.strerror})", remedy="choose one that you may write to"
        ) from error
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # a link, unlike a rename, fails if the name is taken
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
