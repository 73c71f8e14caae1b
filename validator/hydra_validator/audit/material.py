"""What trainers posted, put together: the log of committed steps as its certificates prove it, and the contributions.

Everything here comes from strangers. A record counts when the one before it is in the log, its certificate holds and
only trainers of the job are its members; a result when it hashes to the record's digest, whoever posted it; a
contribution when its sender signed for its digest and posted its bytes. Nobody's segment speaks for another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hydra_node.collective import certificate, record
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.errors import BadRecord, CollectiveError
from hydra_node.collective.keys import DOMAIN
from hydra_node.collective.log import Entry, Log
from hydra_node.collective.record import GENESIS_VIEW, NO_DIGEST, Record, StepRecord, View, ViewRecord
from hydra_node.p2p.identity import verify
from hydra_node.training.journal import SegmentDocument, SegmentEntry
from hydra_validator.audit.replay import Step
from hydra_validator.audit.spool import Spool


@dataclass(frozen=True, slots=True)
class Part:
    """What belongs at one place of a segment's file: the vector with this digest, in this step.

    Without a digest nothing there is of use: the entry was refused.
    """

    step: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """What a segment's files must hold, in their order, and what was wrong with single entries."""

    results: tuple[Part, ...]
    contributions: tuple[Part, ...]
    faults: tuple[str, ...]


@dataclass(slots=True)
class _Candidate:
    """A record that was shown, with the certificates that were shown for it."""

    record: Record
    digest: bytes
    certificates: dict[bytes, Certificate] = field(default_factory=dict)


@dataclass(slots=True)
class Material:
    """The segments of one job so far; `trainers` are the peers who joined it, `swarm` the job's swarm, `spool` where
    vectors are kept.

    Every auditor ends with the same, in whatever order segments and files arrive.
    """

    swarm: bytes
    trainers: Collection[str]
    steps: int
    spool: Spool
    _after: dict[bytes, dict[bytes, _Candidate]] = field(default_factory=dict)  # by digest of the record before
    _shown: dict[tuple[int, str], list[tuple[int, bytes, bytes]]] = field(default_factory=dict)  # place, digest, seed

    def add(self, segment: SegmentDocument) -> Contents:
        """Take in a segment's document, whose hash and author have been checked."""
        faults = []
        for view in segment.views:
            try:
                self._take(view.record, view.certificate)
            except CollectiveError as error:
                faults.append(f"view at height {view.height} of {segment.peer}: {error.what}")
        results, contributions = [], []
        for entry in segment.entries:
            result = contribution = b""
            try:
                shown = self._take_step(entry)
                result = shown.result_digest
                contribution = dict(zip(shown.contributors, shown.contribution_digests, strict=True)).get(
                    segment.peer, b""
                )
            except CollectiveError as error:
                faults.append(f"step {entry.step} of {segment.peer}: {error.what}")
            results.append(Part(entry.step, result))
            if entry.sent:
                contributions.append(Part(entry.step, contribution))
        return Contents(tuple(results), tuple(contributions), tuple(faults))

    def lacks(self, results: Iterable[Part]) -> bool:
        """Whether one of these results is not known yet."""
        return any(part.digest and part.digest not in self.spool for part in results)

    def add_results(self, results: Sequence[Part], data: bytes) -> list[int]:
        """Take in a segment's file of results; the steps whose result is not the recorded one."""
        wrong = self._keep(results, data)
        return sorted(part.step for part in wrong)

    def add_contributions(
        self, contributions: Sequence[Part], data: bytes, peer: str, *, seed: bytes, place: int
    ) -> list[int]:
        """Take in what `peer` posted as its contributions; the steps in which it is not the recorded one.

        `place` is the number of its post in the order of the chain, `seed` that of its round.
        """
        wrong = self._keep(contributions, data)
        for part in contributions:
            if part.digest and part not in wrong:
                self._shown.setdefault((part.step, peer), []).append((place, part.digest, seed))
        return sorted(part.step for part in wrong)

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
                steps.append(_step(entry.record))
        return steps

    def shown(self, steps: Iterable[Step]) -> dict[tuple[int, str], bytes]:
        """The seeds of the rounds in which senders first posted the bytes that they signed for, by (step, peer)."""
        seeds: dict[tuple[int, str], bytes] = {}
        for step in steps:
            for peer, digest in step.digests.items():
                posts = [post for post in self._shown.get((step.step, peer), ()) if post[1] == digest]
                if posts:
                    seeds[step.step, peer] = min(posts)[2]
        return seeds

    def _keep(self, parts: Sequence[Part], data: bytes) -> set[Part]:
        """Take the vectors of a file into the spool; the parts that are not what they should be."""
        width, view = self.spool.width, memoryview(data)
        found = [view[at * width : (at + 1) * width] for at in range(len(parts))]
        return {p for p, each in zip(parts, found, strict=True) if p.digest and not self.spool.take(each, p.digest)}

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

    def _take_step(self, entry: SegmentEntry) -> StepRecord:
        if not 0 <= entry.step < self.steps:
            raise BadRecord(f"the job has no step {entry.step}")
        shown = self._take(entry.record, entry.certificate).record
        if not isinstance(shown, StepRecord) or shown.step != entry.step:
            raise BadRecord(f"the record is not of step {entry.step}")
        return shown

    def _next(self, log: Log | None) -> Entry | None:
        """The entry that comes next in the log, the best one if several can."""
        best: tuple[int, bytes, Entry] | None = None
        candidates = self._after.get(log.head if log else NO_DIGEST, {})
        for candidate in candidates.values():
            if isinstance(candidate.record, StepRecord) and candidate.record.result_digest not in self.spool:
                continue
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


def _proved(candidate: _Candidate, log: Log | None, *, rivals: bool) -> tuple[int, Entry | None]:
    """The most valid votes that any certificate shows, with the entry it makes; (0, None) if none holds.

    Votes matter among rivals only: without any, the first certificate that holds will do.
    """
    best: tuple[int, Entry | None] = 0, None
    shown = candidate.record
    for proof in candidate.certificates.values():
        entry = Entry(shown, proof)
        try:
            if log is None:
                view = _first_view(shown)
            else:
                view = log.view
                log.check_follows(shown)
            certificate.check(proof, shown, view, _KEYS)
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


def _step(shown: StepRecord) -> Step:
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
        result=shown.result_digest,
    )
