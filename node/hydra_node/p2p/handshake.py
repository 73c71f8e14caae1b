"""How two peers come to know each other on a fresh TLS link.

    server -> client   Challenge(nonce, boot)
    client -> server   Proof(peer id, boot, addresses, signature)
    server -> client   Verdict

TLS proves the server's key, and the client compares it with the peer id that it wants. The client then signs the
fingerprint of the server's certificate together with the server's fresh nonce: so a proof serves one connection to
one server, and neither a replay nor a server in the middle can use it. `boot` is drawn once a run; it tells a peer
that restarted from one that dialled at the same moment.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec

from hydra_node.p2p.address import MAX_ADDRESS_TEXT, PeerAddress
from hydra_node.p2p.errors import (
    BadAddress,
    HandshakeFailed,
    NotAdmitted,
    PeerError,
    UnsupportedVersion,
    WrongPeer,
)
from hydra_node.p2p.frames import Arrived
from hydra_node.p2p.identity import SIGNATURE_SIZE, Identity, PeerId, verify
from hydra_node.p2p.link import Link
from hydra_node.p2p.tls import fingerprint, peer_of_certificate

PROTOCOL = "hydra/handshake/1"
DOMAIN = "handshake/1"
NONCE_SIZE = 32
BOOT_SIZE = 16
MAX_ADDRESSES = 8

Boot = Annotated[bytes, msgspec.Meta(min_length=BOOT_SIZE, max_length=BOOT_SIZE)]
AddressText = Annotated[str, msgspec.Meta(max_length=MAX_ADDRESS_TEXT)]


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """The server's part: what the client has to sign."""

    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE_SIZE, max_length=NONCE_SIZE)]
    boot: Boot


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """The client's part: who it is, where it listens, and the signature that shows it."""

    peer_id: Annotated[str, msgspec.Meta(max_length=64)]
    boot: Boot
    addresses: Annotated[list[AddressText], msgspec.Meta(max_length=MAX_ADDRESSES)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_SIZE, max_length=SIGNATURE_SIZE)]


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """The server's answer: empty when the client is accepted, otherwise the name of the refusal and its text."""

    refusal: str = ""
    text: str = ""


class Duplicate(HandshakeFailed):
    """The two peers dialled each other at once, and the other connection is the one that stays."""


_challenge = msgspec.msgpack.Decoder(Challenge)
_proof = msgspec.msgpack.Decoder(Proof)
_verdict = msgspec.msgpack.Decoder(Verdict)
_encode = msgspec.msgpack.encode
Part = TypeVar("Part", Challenge, Proof, Verdict)


def statement(server: bytes, nonce: bytes, boot: bytes) -> bytes:
    """What a client signs; `server` is the fingerprint of the server's certificate. All parts have fixed sizes."""
    return server + nonce + boot


def prove(identity: Identity, server: bytes, nonce: bytes, boot: bytes, addresses: Sequence[PeerAddress]) -> Proof:
    """The client's proof for one server and one nonce."""
    signature = identity.sign(statement(server, nonce, boot), domain=DOMAIN)
    return Proof(identity.peer_id, boot, [str(a) for a in addresses[:MAX_ADDRESSES]], signature)


def check(proof: Proof, server: bytes, nonce: bytes) -> tuple[PeerId, list[PeerAddress]]:
    """Who the client is and where it says it listens; raises HandshakeFailed on a proof that proves nothing."""
    if not verify(proof.peer_id, statement(server, nonce, proof.boot), proof.signature, domain=DOMAIN):
        raise HandshakeFailed("the client's signature is not its key's signature of this connection")
    peer_id = PeerId(proof.peer_id)
    try:
        addresses = [PeerAddress.parse(text) for text in proof.addresses]
    except BadAddress as error:
        raise HandshakeFailed(f"the client names an address that is none: {error.what}") from error
    if any(address.peer_id != peer_id for address in addresses):
        raise HandshakeFailed("the client names an address of another peer")
    return peer_id, addresses


def refusal_of(error: PeerError) -> Verdict:
    """A refusal as it travels."""
    return Verdict(type(error).__name__, error.what)


def refusal_error(verdict: Verdict, peer_id: PeerId) -> HandshakeFailed:
    """A refusal as the dialler's own error."""
    kinds = {"Duplicate": Duplicate, "NotAdmitted": NotAdmitted}
    kind = kinds.get(verdict.refusal, HandshakeFailed)
    return kind(f"peer {peer_id} refused the connection: {verdict.text[:256]}")


class Accepting:
    """The server's side. `accept` judges and takes over the link, or raises the refusal."""

    def __init__(
        self,
        server: bytes,
        *,
        boot: bytes,
        begun: Callable[["Accepting", Link], None],
        accept: Callable[[Link, PeerId, bytes, list[PeerAddress]], None],
        done: Callable[["Accepting"], None],
        timeout: float,
    ) -> None:
        self._server = server
        self._boot = boot
        self._begun = begun
        self._accept = accept
        self._done = done
        self._timeout = timeout
        self._nonce = secrets.token_bytes(NONCE_SIZE)
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, link: Link) -> None:
        """Challenge the client and give it a deadline."""
        late = HandshakeFailed("the client did not prove itself in time", expected=f"within {self._timeout:g} s")
        self._timer = asyncio.get_running_loop().call_later(self._timeout, link.fail, late)
        self._begun(self, link)
        link.send_body(PROTOCOL, _encode(Challenge(self._nonce, self._boot)))

    def arrived(self, link: Link, event: Arrived) -> None:
        """Check the proof; on success the link has a new listener when this returns."""
        proof = _read(_proof, event)
        try:
            peer_id, addresses = check(proof, self._server, self._nonce)
            self._accept(link, peer_id, proof.boot, addresses)
        except PeerError as error:
            link.send_body(PROTOCOL, _encode(refusal_of(error)))
            # the client closes when it has read the verdict; the timer sees to one that does not
            link.close()
            return
        link.send_body(PROTOCOL, _encode(Verdict()))
        self._finish()

    def reset(self, stream: int) -> None:
        """Nothing was begun yet."""

    def closed(self, reason: PeerError) -> None:
        """The client left or was dropped."""
        self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._done(self)


class Dialling:
    """The client's side; `result` ends with the listener that `establish` put on the link, or with the error."""

    def __init__(
        self,
        identity: Identity,
        *,
        expected: PeerId,
        boot: bytes,
        addresses: Sequence[PeerAddress],
        commit: Callable[[], None],
        establish: Callable[[Link, bytes], None],
    ) -> None:
        self._identity = identity
        self._expected = expected
        self._boot = boot
        self._addresses = addresses
        self._commit = commit
        self._establish = establish
        self._server = b""
        self._server_boot: bytes | None = None
        self.result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ready(self, link: Link) -> None:
        """Compare the server's key with the peer id that was wanted."""
        certificate = link.certificate()
        found = peer_of_certificate(certificate)
        if found != self._expected:
            raise WrongPeer(f"another peer answered: {found}", expected=self._expected)
        assert certificate is not None
        self._server = fingerprint(certificate)

    def arrived(self, link: Link, event: Arrived) -> None:
        """First the challenge, then the verdict."""
        if self._server_boot is None:
            challenge = _read(_challenge, event)
            self._server_boot = challenge.boot
            self._commit()
            proof = prove(self._identity, self._server, challenge.nonce, self._boot, self._addresses)
            link.send_body(PROTOCOL, _encode(proof))
            return
        verdict = _read(_verdict, event)
        if verdict.refusal:
            raise refusal_error(verdict, self._expected)
        self._establish(link, self._server_boot)
        if not self.result.done():
            self.result.set_result(None)

    def reset(self, stream: int) -> None:
        """Nothing was begun yet."""

    def closed(self, reason: PeerError) -> None:
        """The server left, or something was wrong with it."""
        if not self.result.done():
            failure = reason if isinstance(reason, HandshakeFailed) else HandshakeFailed(reason.what)
            self.result.set_exception(failure)


def _read(decoder: msgspec.msgpack.Decoder[Part], event: Arrived) -> Part:
    """A handshake message of the expected kind; raises HandshakeFailed."""
    if event.head.protocol != PROTOCOL:
        raise UnsupportedVersion(f"the other side speaks {event.head.protocol!r}", expected=PROTOCOL)
    try:
        return decoder.decode(event.head.body)
    except msgspec.DecodeError as error:
        raise HandshakeFailed(f"a handshake message that cannot be read: {error}") from error
