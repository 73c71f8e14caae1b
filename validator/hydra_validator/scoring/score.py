"""A campaign's score: every item's bucket and every rejected item's reason, as deterministic integers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_node.campaigns.policy import ItemSchema
from hydra_node.errors import HydraError
from hydra_node.storage.items import Item
from hydra_validator.scoring.duplicates import EXACT_DUPLICATE, NEAR_DUPLICATE, Duplicates
from hydra_validator.scoring.labels import LABEL_MISMATCH, Labels
from hydra_validator.scoring.novelty import Novelty
from hydra_validator.scoring.rows import Integers, Mask, Rows, decode, stack
from hydra_validator.scoring.rule import RULE, Rule
from hydra_validator.scoring.validity import OUT_OF_DISTRIBUTION, Validity

EMPTY = "empty"
MAX_REFERENCE = 100_000


class BadReference(HydraError):
    """A reference set that nothing can be measured against."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One revealed submission as its validator holds it. `fault` says why there is nothing to score."""

    submission_id: int
    contributor: str
    items: tuple[Item, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionScore:
    """Per item, in the submission's order: bucket (0 when rejected) and reason ("" when accepted)."""

    submission_id: int
    contributor: str
    buckets: tuple[int, ...]
    reasons: tuple[str, ...]
    fault: str

    @property
    def accepted(self) -> tuple[bool, ...]:
        return tuple(not reason for reason in self.reasons)

    @property
    def score(self) -> int:
        return sum(self.buckets)


@dataclass(frozen=True, slots=True)
class CampaignScore:
    """The scores of all submissions, in chain order."""

    submissions: tuple[SubmissionScore, ...]

    @property
    def score(self) -> int:
        return sum(submission.score for submission in self.submissions)


def seed_of(block_hash: bytes, job_id: int) -> int:
    """The campaign's seed: nobody knew it when the last payload was committed."""
    digest = hashlib.sha256(b"hydra-score" + block_hash + job_id.to_bytes(32, "big")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def score_campaign(
    reference: Sequence[Item],
    submissions: Sequence[Submission],
    schema: ItemSchema,
    *,
    seed: int,
    rule: Rule = RULE,
) -> CampaignScore:
    """Score `submissions`, given in chain order of their commits (block, transaction index).

    `seed` (0 <= seed < 2^31) fixes the isolation forests. Bad submissions get reasons; only a reference that
    cannot be used raises BadReference.
    """
    known = _reference(reference, schema, rule)
    decoded = [decode(() if entry.fault else entry.items, schema, rule) for entry in submissions]
    if not any(part.hashes for part in decoded):
        return CampaignScore(tuple(_nothing(entry) for entry in submissions))
    rows = stack(decoded)
    owner = np.repeat(np.arange(len(decoded)), [len(part.hashes) for part in decoded])
    reasons = np.array([fault for part in decoded for fault in part.faults], dtype=object)
    buckets = _judge(known, rows, owner, reasons, seed=seed, rule=rule)
    return CampaignScore(
        tuple(
            _nothing(entry)
            if not decoded[i].hashes
            else SubmissionScore(
                entry.submission_id,
                entry.contributor,
                tuple(buckets[owner == i].tolist()),
                tuple(reasons[owner == i].tolist()),
                "",
            )
            for i, entry in enumerate(submissions)
        )
    )


def _judge(
    known: Rows, rows: Rows, owner: Integers, reasons: NDArray[np.object_], *, seed: int, rule: Rule
) -> Integers:
    """Run the signals in order, fill `reasons`, return the buckets.

    Duplicates are sought twice: first so that copies do not vote on labels, then among those whose labels
    hold, so that a mislabelled early copy takes nothing from the honest item that follows it.
    """
    standing = reasons == ""
    standing = _reject(reasons, standing, Validity.fit(known, seed, rule).rejects(rows), OUT_OF_DISTRIBUTION)
    duplicates = Duplicates.fit(known, rule)
    copied, _ = _among(duplicates, rows, standing)
    votes = Labels.fit(known, rule).votes(rows, owner, standing & ~copied)
    standing = _reject(reasons, standing, votes < rule.label_votes, LABEL_MISMATCH)
    copied, exact = _among(duplicates, rows, standing)
    standing = _reject(reasons, standing, exact, EXACT_DUPLICATE)
    standing = _reject(reasons, standing, copied, NEAR_DUPLICATE)
    worth = Novelty.fit(known, rule).measure(rows) * votes // rule.neighbours
    return np.where(standing, np.maximum(1, worth), 0)


def _reject(reasons: NDArray[np.object_], standing: Mask, rejected: Mask, reason: str) -> Mask:
    reasons[standing & rejected] = reason
    return standing & ~rejected


def _among(duplicates: Duplicates, rows: Rows, standing: Mask) -> tuple[Mask, Mask]:
    copied, exact = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    copied[standing], exact[standing] = duplicates.rejects(rows.take(standing))
    return copied, exact


def _reference(items: Sequence[Item], schema: ItemSchema, rule: Rule) -> Rows:
    need = max(rule.folds, rule.neighbours) + 1
    if not need <= len(items) <= MAX_REFERENCE:
        raise BadReference(
            f"the reference set has {len(items)} items",
            expected=f"{need} to {MAX_REFERENCE}",
            remedy="the sponsor must open the campaign with another reference set",
        )
    decoded = decode(items, schema, rule)
    for place, fault in enumerate(decoded.faults):
        if fault:
            raise BadReference(
                f"item {place} of the reference set is malformed ({fault})",
                remedy="the sponsor must open the campaign with another reference set",
            )
    return stack([decoded])


def _nothing(entry: Submission) -> SubmissionScore:
    return SubmissionScore(entry.submission_id, entry.contributor, (), (), entry.fault or EMPTY)
