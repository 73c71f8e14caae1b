"""Votes, and the proof that a majority gave them."""

import msgspec

from hydra_node.collective.errors import BadCertificate
from hydra_node.collective.keys import Keys
from hydra_node.collective.record import GENESIS_VIEW, Record, View, ViewRecord
from hydra_node.collective.record import digest as record_digest

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Certificate(msgspec.Struct, frozen=True):
    """Signatures of a majority of a view over one record in one attempt.

    `attempt` is the one in which they voted; a value that a new proposer took over keeps the attempt in which it
    was decided in its record.
    """

    digest: bytes
    height: int
    view: int
    attempt: int
    votes: dict[str, bytes]


_decoder = msgspec.msgpack.Decoder(Certificate)


def ballot(swarm: bytes, view: int, height: int, attempt: int, digest: bytes) -> bytes:
    """What a voter signs; two with the same first four fields and other digests prove a double vote."""
    return _encoder.encode(("hydra-vote/1", swarm, view, height, attempt, digest))


def encode(certificate: Certificate) -> bytes:
    """The certificate as msgpack with sorted keys."""
    return _encoder.encode(certificate)


def decode(raw: bytes) -> Certificate:
    """Reads a certificate; raises BadCertificate."""
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise BadCertificate(f"a certificate cannot be read: {error}") from error


def check(certificate: Certificate, record: Record, view: View, keys: Keys) -> None:
    """Raises BadCertificate unless a majority of `view` signed `record` (all of them, for the first entry of a log)."""
    wanted = record_digest(record)
    if (certificate.digest, certificate.height, certificate.view) != (wanted, record.height, record.view):
        raise BadCertificate(f"a certificate of another record than that of height {record.height}")
    needed = view.majority
    if isinstance(record, ViewRecord) and record.view == GENESIS_VIEW:
        needed = len(view.members)
    if record.view not in {GENESIS_VIEW, view.number}:
        raise BadCertificate(f"a certificate of view {record.view}", expected=f"view {view.number}")
    message = ballot(record.swarm, record.view, record.height, certificate.attempt, wanted)
    valid = sum(
        peer in view.members and keys.verify(peer, message, signature)
        for peer, signature in list(certificate.votes.items())[: len(view.members)]
    )
    if valid < needed:
        raise BadCertificate(
            f"only {valid} valid votes for height {record.height}", expected=f"{needed} of view {view.number}"
        )
