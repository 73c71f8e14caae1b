"""The entries of a swarm's log: each names the one before, so the newest digest stands for all of them.

An entry is a committed step or a change of view. Its canonical form is msgpack with sorted keys; its digest the SHA-256
of that.
"""

import hashlib

import msgspec

from hydra_node.collective.errors import BadRecord
from hydra_node.collective.vectors import combine

Range = tuple[int, int]
Ranges = tuple[Range, ...]

GENESIS_VIEW = 0
NO_DIGEST = b""


class View(msgspec.Struct, frozen=True, array_like=True):
    """Who decides: `members` in order, the first one leads.

    `incarnations` tells a member from an earlier run of the same peer, which has forgotten what it voted.
    """

    number: int
    members: tuple[str, ...]
    incarnations: tuple[int, ...]

    @property
    def majority(self) -> int:
        """How many votes decide."""
        return len(self.members) // 2 + 1

    def proposer(self, attempt: int) -> str:
        """The only member that may propose in `attempt`."""
        return self.members[attempt % len(self.members)]

    def incarnation(self, peer: str) -> int | None:
        """The run of `peer` that is a member; None if it is not."""
        return self.incarnations[self.members.index(peer)] if peer in self.members else None


class StepRecord(msgspec.Struct, frozen=True, tag="step", kw_only=True):
    """One committed step: the only source for ledger, audit and pay.

    `contributors` are in summation order, and `samples`, `clip_factors`, `contribution_digests` and
    `contribution_signatures` (see `contribution.Binding`) are in the same order. `ranges` also names members whose
    work is missing; `rejected` says why work that came was refused. `state_digest` is the training state before the
    step, empty if the leader did not know it.
    """

    swarm: bytes
    height: int
    view: int
    attempt: int
    step: int
    members: tuple[str, ...]
    incarnations: tuple[int, ...]
    ranges: dict[str, Ranges]
    size: int
    contributors: tuple[str, ...]
    samples: tuple[int, ...]
    clip_factors: tuple[float, ...]
    contribution_digests: tuple[bytes, ...]
    contribution_signatures: tuple[bytes, ...]
    rejected: dict[str, str]
    owners: tuple[str, ...]
    state_digest: bytes
    previous_digest: bytes
    result_digest: bytes = NO_DIGEST


class ViewRecord(msgspec.Struct, frozen=True, tag="view", kw_only=True):
    """A change of membership, voted by the view before; `removed` says why members are gone. `step` comes next."""

    swarm: bytes
    height: int
    view: int
    attempt: int
    step: int
    next: View
    removed: dict[str, str]
    previous_digest: bytes


Record = StepRecord | ViewRecord

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(StepRecord | ViewRecord)


def encode(record: Record) -> bytes:
    """The canonical bytes."""
    return _encoder.encode(record)


def decode(raw: bytes) -> Record:
    """Reads canonical bytes; raises BadRecord for anything else."""
    try:
        record: Record = _decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise BadRecord(f"a record cannot be read: {error}") from error
    if encode(record) != raw:
        raise BadRecord("a record is not in its canonical form")
    check_whole(record)
    return record


def digest(record: Record) -> bytes:
    """SHA-256 of the canonical bytes."""
    return hashlib.sha256(encode(record)).digest()


def check_whole(record: Record) -> None:
    """Raises BadRecord unless the record makes sense by itself, whatever came before it."""
    if isinstance(record, StepRecord):
        _check_step(record)
    else:
        _check_view(record.next)


def genesis(swarm: bytes, members: tuple[str, ...], incarnations: tuple[int, ...], attempt: int) -> ViewRecord:
    """The first entry of a log: view 1, to be signed by all its members."""
    return ViewRecord(
        swarm=swarm,
        height=0,
        view=GENESIS_VIEW,
        attempt=attempt,
        step=0,
        next=View(1, members, incarnations),
        removed={},
        previous_digest=NO_DIGEST,
    )


def _check_view(view: View) -> None:
    if not view.members or len(set(view.members)) != len(view.members) or len(view.incarnations) != len(view.members):
        raise BadRecord("a view must name each of its members once, with its incarnation")


def _check_step(record: StepRecord) -> None:
    count = len(record.contributors)
    columns = (
        record.samples,
        record.clip_factors,
        record.contribution_digests,
        record.contribution_signatures,
    )
    if any(len(column) != count for column in columns) or not set(record.contributors) <= set(record.members):
        raise BadRecord("a step record must describe each contributor once", expected=f"{count} of each column")
    if any(samples < 0 for samples in record.samples) or any(not 0 <= clip <= 1 for clip in record.clip_factors):
        raise BadRecord("a step record holds an impossible weight")


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """What a member signs before any of its work leaves: two different ones for one step prove that it equivocated.

    `chunks` are the digests of the vector's chunks; `digest` stands for the whole.
    """

    swarm: bytes
    step: int
    peer: str
    incarnation: int
    ranges: Ranges
    samples: int
    size: int
    chunks: tuple[bytes, ...]
    signature: bytes = b""

    @property
    def digest(self) -> bytes:
        """The digest of the whole vector."""
        return combine(self.size, self.chunks)

    def message(self) -> bytes:
        """What is signed; a record holds all that it is made of."""
        return binding_message(
            self.swarm, self.step, self.peer, self.incarnation, self.ranges, self.samples, self.digest
        )


def binding_message(  # noqa: PLR0917 - the order is the one in which the fields are signed
    swarm: bytes, step: int, peer: str, incarnation: int, ranges: Ranges, samples: int, digest: bytes
) -> bytes:
    """The bytes by which `peer` vouches for a contribution."""
    fields = ("hydra-contribution/1", swarm, step, peer, incarnation, ranges, samples, digest)
    return _encoder.encode(fields)


def signed_by_contributors(record: StepRecord) -> list[tuple[str, bytes, bytes]]:
    """(peer, message, signature) of every contribution in the record: what an auditor checks before it blames."""
    return [
        (
            peer,
            binding_message(
                record.swarm,
                record.step,
                peer,
                record.incarnations[record.members.index(peer)],
                record.ranges.get(peer, ()),
                samples,
                contribution,
            ),
            signature,
        )
        for peer, samples, contribution, signature in zip(
            record.contributors,
            record.samples,
            record.contribution_digests,
            record.contribution_signatures,
            strict=True,
        )
    ]
