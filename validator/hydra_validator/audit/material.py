"""What trainers posted, put together: the log of committed steps as its certificates prove it, and the contributions.

Everything here comes from strangers. A record counts when the one before it is in the log, its certificate holds and
only trainers of the job are its members; a result when it hashes to the record's digest; a contribution when its
sender signed for its digest and posted its bytes. Nobody's segment speaks for another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from hydra_node.collective import certificate, record, vectors
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.errors import BadRecord, CollectiveError
from hydra_node.collective.keys import DOMAIN
from hydra_node.collective.log import Entry, Log
from hydra_node.collective.record import GENESIS_VIEW, NO_DIGEST, Record, StepRecord, View, ViewRecord
from hydra_node.p2p.identity import verify
from hydra_node.training.journal import JournalEntry, SegmentDocument
from hydra_validator.audit.replay import Shown, Step


@dataclass(slots=True)
class _Candidate:
    """A record that was shown, with the certificates and the result that were shown for it."""

    record: Record
    digest: bytes
    certificates: dict[bytes, Certificate] = field(default_factory=dict)
    result: bytes = b""


@dataclass(slots=True)
class Material:
    """The segments of one job so far; `trainers` are the peers who joined it, `swarm` the job's swarm.

    Every auditor ends with the same, in whatever order segments arrive.
    """

    swarm: bytes
    trainers: Collection[str]
    steps: int
    _after: dict[bytes, dict[bytes, _Candidate]] = field(default_factory=dict)  # by digest of the record before
    _shown: dict[tuple[int, str], list[tuple[int, Shown]]] = field(default_factory=dict)

    def add(self, segment: SegmentDocument, seed: bytes, place: int) -> list[str]:
        """Take in a segment whose hash and author have been checked; what was wrong with single entries.

        `place` is the number of its post in the order of the chain, `seed` that of its round.
        """
        faults = []
        for view in segment.views:
            try:
                self._take(view.record, view.certificate)
            except CollectiveError as error:
                faults.append(f"view at height {view.height} of {segment.peer}: {error.what}")
        for entry in segment.entries:
            if not 0 <= entry.step < self.steps:
                continue
            try:
                self._take_step(entry)
            except CollectiveError as error:
                faults.append(f"step {entry.step} of {segment.peer}: {error.what}")
            if entry.contribution:
                self._shown.setdefault((entry.step, segment.peer), []).append((place, Shown(entry.contribution, seed)))
        return faults

    def chain(self) -> list[Step]:
        """The committed steps from 0 on, as far as records and results are known without a gap.

        Where two records can follow, which takes members who signed both or a swarm of its own, the one with more
        votes counts, then the one with the higher digest.
        """
        log: Log | None = None
        steps: list[Step] = []
        while entry := self._next(log):
            if log is None:
                log = Log(self.swarm, _KEYS, 0, entry)
                continue
            log.append_checked(entry)
            if isinstance(entry.record, StepRecord):
                steps.append(_step(entry.record, entry.result))
        return steps

    def shown(self, steps: Collection[Step]) -> dict[tuple[int, str], Shown]:
        """The contributions at hand for these steps: the first bytes posted that have the recorded digest."""
        chosen: dict[tuple[int, str], Shown] = {}
        for step in steps:
            for peer, digest in step.digests.items():
                for _, candidate in sorted(self._shown.get((step.step, peer), ()), key=lambda entry: entry[0]):
                    if vector_digest_of(candidate.data) == digest:
                        chosen[step.step, peer] = candidate
                        break
        return chosen

    def _take(self, raw: bytes, proof: bytes) -> _Candidate:
        shown = record.decode(raw)
        members = shown.next.members if isinstance(shown, ViewRecord) else shown.members
        if shown.swarm != self.swarm:
            raise BadRecord("the record is of another swarm")
        if not set(members) <= set(self.trainers):
            raise BadRecord("the record names members who are no trainers of the job")
        parsed = certificate.decode(proof)
        digest = record.digest(shown)
        known = self._after.setdefault(shown.previous_digest, {})
        candidate = known.setdefault(digest, _Candidate(shown, digest))
        candidate.certificates.setdefault(proof, parsed)
        return candidate

    def _take_step(self, entry: JournalEntry) -> None:
        candidate = self._take(entry.record, entry.certificate)
        shown = candidate.record
        if not isinstance(shown, StepRecord) or shown.step != entry.step:
            raise BadRecord(f"the record is not of step {entry.step}")
        if not candidate.result and vector_digest_of(entry.result) == shown.result_digest:
            candidate.result = entry.result

    def _next(self, log: Log | None) -> Entry | None:
        """The entry that comes next in the log, the best one if several can."""
        best: tuple[int, bytes, Entry] | None = None
        candidates = self._after.get(log.head if log else NO_DIGEST, {})
        for candidate in candidates.values():
            votes, entry = _proved(candidate, log, rivals=len(candidates) > 1)
            if entry is not None and (best is None or (votes, candidate.digest) > best[:2]):
                best = votes, candidate.digest, entry
        return best[2] if best else None


class _Verifier:
    """Checks signatures; an auditor signs nothing here."""

    def sign(self, message: bytes) -> bytes:
        raise NotImplementedError("an auditor does not vote")

    def verify(self, peer: str, message: bytes, signature: bytes) -> bool:
        return verify(peer, message, signature, domain=DOMAIN)


_KEYS = _Verifier()


def vector_digest_of(data: bytes) -> bytes:
    """The digest of a vector's bytes; of bytes that are no vector, nothing that a record holds."""
    return vectors.vector_digest(vectors.from_bytes(data)) if len(data) % 4 == 0 else b""


def _proved(candidate: _Candidate, log: Log | None, *, rivals: bool) -> tuple[int, Entry | None]:
    """The most valid votes that any certificate shows, with the entry it makes; (0, None) if none holds.

    Votes matter among rivals only: without any, the first certificate that holds will do.
    """
    best: tuple[int, Entry | None] = 0, None
    shown = candidate.record
    for proof in candidate.certificates.values():
        entry = Entry(shown, proof, candidate.result)
        try:
            if log is None:
                view = _first_view(shown)
                certificate.check(proof, shown, view, _KEYS)
            else:
                view = log.view
                log.check(entry)
        except CollectiveError:
            continue
        if not rivals:
            return 1, entry
        votes = _valid_votes(proof, shown, view.members)
        if votes > best[0]:
            best = votes, entry
    return best


def _first_view(shown: Record) -> View:
    if not isinstance(shown, ViewRecord) or shown.view != GENESIS_VIEW or shown.height or shown.step:
        raise BadRecord("a log begins with its first view")
    return shown.next


def _valid_votes(proof: Certificate, of: Record, members: Iterable[str]) -> int:
    message = certificate.ballot(of.swarm, of.view, of.height, proof.attempt, proof.digest)
    return sum(_KEYS.verify(peer, message, proof.votes[peer]) for peer in members if peer in proof.votes)


def _step(shown: StepRecord, result: bytes) -> Step:
    signed = {
        peer: digest
        for (peer, message, signature), digest in zip(
            record.signed_by_contributors(shown), shown.contribution_digests, strict=True
        )
        if _KEYS.verify(peer, message, signature)
    }
    return Step(
        step=shown.step,
        ranges=shown.ranges,
        contributors=shown.contributors,
        weights=dict(zip(shown.contributors, shown.samples, strict=True)),
        clips=dict(zip(shown.contributors, shown.clip_factors, strict=True)),
        digests=signed,
        state_digest=shown.state_digest,
        result=vectors.from_bytes(result),
    )
