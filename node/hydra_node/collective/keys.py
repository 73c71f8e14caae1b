"""Signing, as the core sees it."""

from typing import Protocol

from hydra_node.p2p.identity import Identity, verify

DOMAIN = "hydra-collective/1"


class Keys(Protocol):
    """Signs for this peer and checks what others signed."""

    def sign(self, message: bytes) -> bytes:
        """This peer's signature of `message`."""

    def verify(self, peer: str, message: bytes, signature: bytes) -> bool:
        """Whether `peer` signed `message`; False for anything malformed."""


class IdentityKeys:
    """The Ed25519 keys of real peers."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def sign(self, message: bytes) -> bytes:
        return self._identity.sign(message, domain=DOMAIN)

    def verify(self, peer: str, message: bytes, signature: bytes) -> bool:
        return verify(peer, message, signature, domain=DOMAIN)
