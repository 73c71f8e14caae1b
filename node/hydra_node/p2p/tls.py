"""TLS 1.3 with the peer's own key as the certificate's key.

No authority is asked: whom a certificate belongs to is read from its public key, and TLS itself proves that the
other side holds the private half.
"""

import hashlib
import secrets
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from hydra_node.p2p.errors import WrongPeer
from hydra_node.p2p.identity import Identity, PeerId, peer_id_of

# Certificates are compared by key, never by date; a clock that is wrong must not split the network.
_NOT_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)
_LIFETIME = timedelta(days=365 * 1000)


def make_certificate(identity: Identity) -> bytes:
    """A self-signed certificate (DER) whose key is the identity's."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.peer_id)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(identity.private_key().public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_BEFORE + _LIFETIME)
    )
    return builder.sign(identity.private_key(), algorithm=None).public_bytes(Encoding.DER)


def fingerprint(certificate: bytes) -> bytes:
    """SHA-256 of a certificate (DER): what a client signs to say which server it means."""
    return hashlib.sha256(certificate).digest()


def peer_of_certificate(certificate: bytes | None) -> PeerId:
    """The peer whose key a certificate (DER) holds; raises WrongPeer if it holds no Ed25519 key."""
    if certificate is None:
        raise WrongPeer("the server showed no certificate")
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError as error:
        raise WrongPeer("the server's certificate is unreadable") from error
    if not isinstance(key, Ed25519PublicKey):
        raise WrongPeer("the server's certificate has another kind of key", expected="an Ed25519 key")
    return peer_id_of(key.public_bytes_raw())


def server_context(identity: Identity, certificate: bytes) -> ssl.SSLContext:
    """A TLS 1.3 server that shows `certificate`. Clients prove themselves in the handshake above TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # no tickets: each connection proves the key afresh
    context.num_tickets = 0
    password = secrets.token_bytes(32).hex().encode()
    key = identity.private_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    # ssl reads keys from files only: the file holds the key under a password that never leaves this function
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.pem"
        path.touch(mode=0o600)
        path.write_bytes(key + ssl.DER_cert_to_PEM_cert(certificate).encode())
        context.load_cert_chain(path, password=password)
    return context


def client_context() -> ssl.SSLContext:
    """A TLS 1.3 client that leaves the judgement of the server's key to `peer_of_certificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # there is no authority to ask: the dialler compares the key with the peer id it wants (transport.py)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
