"""The report behind a scoring root: a dag-cbor document from which anybody can recompute root and total.

Amounts are decimal strings, since dag-cbor integers end at 64 bits. `buckets` and `reasons` have one byte an item;
a reason is its place in the document's `reasons`, whose first is "" for an accepted item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hydra_node.chain.rewards import Reward, RewardTree
from hydra_node.errors import HydraError
from hydra_node.storage import dag, merkle
from hydra_validator.rewards import split
from hydra_validator.scoring.duplicates import EXACT_DUPLICATE, NEAR_DUPLICATE
from hydra_validator.scoring.labels import LABEL_MISMATCH
from hydra_validator.scoring.rows import LABEL_OUT_OF_RANGE, NOT_FINITE, WRONG_SHAPE
from hydra_validator.scoring.rule import RULE
from hydra_validator.scoring.score import CampaignScore, SubmissionScore
from hydra_validator.scoring.validity import OUT_OF_DISTRIBUTION

REASONS = (
    "",
    WRONG_SHAPE,
    NOT_FINITE,
    LABEL_OUT_OF_RANGE,
    OUT_OF_DISTRIBUTION,
    LABEL_MISMATCH,
    EXACT_DUPLICATE,
    NEAR_DUPLICATE,
)
Document = dict[str, Any]


class BadReport(HydraError):
    """A report that is malformed, or does not lead to the root and total it is shown for."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a report is about: the scoring round on chain, and the money it may give out (wei)."""

    chain_id: int
    job_id: int
    round_id: int
    budget: int
    seed: bytes  # hash of the block in which the round was opened
    reference: str  # CID of the campaign's reference set


@dataclass(frozen=True, slots=True)
class Payload:
    """What a submission revealed on chain."""

    items_root: bytes
    cid: str


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = Field(ge=0)
    contributor: str = Field(pattern="^0x[0-9a-f]{40}$")
    items_root: bytes = Field(min_length=32, max_length=32)
    cid: str = Field(max_length=128)
    fault: str = Field(max_length=200)
    buckets: bytes = Field(max_length=100_000)
    reasons: bytes = Field(max_length=100_000)
    amount: str = Field(pattern="^(0|[1-9][0-9]{0,38})$")

    @property
    def score(self) -> int:
        return sum(self.buckets)


class _Leaf(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    account: str = Field(pattern="^0x[0-9a-f]{40}$")
    cumulative: str = Field(pattern="^[1-9][0-9]{0,38}$")
    evidence: bytes = Field(min_length=32, max_length=32)


class Report(BaseModel):
    """The document, checked for its form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(ge=1, le=1)
    kind: str = Field(pattern="^quality$")
    chain: int
    job: int
    round: int
    budget: str = Field(pattern="^(0|[1-9][0-9]{0,38})$")
    rule: str = Field(max_length=64)
    seed: bytes = Field(min_length=32, max_length=32)
    reference: str = Field(max_length=128)
    reasons: tuple[str, ...]
    submissions: tuple[_Entry, ...] = Field(max_length=4096)
    leaves: tuple[_Leaf, ...] = Field(max_length=4096)
    total: str = Field(pattern="^(0|[1-9][0-9]{0,38})$")


def build(about: Round, payloads: Mapping[int, Payload], score: CampaignScore) -> tuple[Document, RewardTree]:
    """The report of `score` and the tree of its rewards. `payloads` by submission id, of every submission."""
    amounts = split(about.budget, [entry.score for entry in score.submissions])
    entries = [
        _entry(entry, payloads[entry.submission_id], amount)
        for entry, amount in zip(score.submissions, amounts, strict=True)
    ]
    tree = RewardTree(about.job_id, _rewards(entries))
    document: Document = {
        "version": 1,
        "kind": "quality",
        "chain": about.chain_id,
        "job": about.job_id,
        "round": about.round_id,
        "budget": str(about.budget),
        "rule": RULE.name,
        "seed": about.seed,
        "reference": about.reference,
        "reasons": list(REASONS),
        "submissions": [entry.model_dump() for entry in entries],
        "leaves": tree.leaves(),
        "total": str(tree.total),
    }
    return document, tree


def verify(document: object, root: bytes, total: int) -> Report:
    """Recompute amounts, evidence, root and total from the buckets; the report, if all agree.

    Raises BadReport, naming the first thing that differs. Whether the buckets themselves are right only a new
    scoring can tell.
    """
    report = read(document)
    for entry in report.submissions:
        _check_entry(entry, len(report.reasons))
    amounts = split(int(report.budget), [entry.score for entry in report.submissions])
    for entry, amount in zip(report.submissions, amounts, strict=True):
        if int(entry.amount) != amount:
            raise BadReport(f"submission {entry.id} is given {entry.amount} wei", expected=f"{amount} wei by its score")
    tree = RewardTree(report.job, _rewards(report.submissions))
    shown = [(leaf.account, int(leaf.cumulative), leaf.evidence) for leaf in report.leaves]
    if shown != [(r.account, r.cumulative, r.evidence) for r in tree.rewards]:
        raise BadReport("the report's leaves do not follow from its submissions")
    if tree.root != root:
        raise BadReport(f"the report leads to the root {tree.root.hex()}", expected=root.hex())
    if tree.total != total or int(report.total) != total:
        raise BadReport(f"the report's amounts sum to {tree.total} wei", expected=f"{total} wei")
    return report


def read(document: object) -> Report:
    """Check a document's form. Raises BadReport."""
    try:
        return Report.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "its start"
        raise BadReport(f"the scoring report is malformed at {where}: {first['msg']}") from None


def _entry(entry: SubmissionScore, payload: Payload, amount: int) -> _Entry:
    return _Entry(
        id=entry.submission_id,
        contributor=entry.contributor.lower(),
        items_root=payload.items_root,
        cid=payload.cid,
        fault=entry.fault,
        buckets=bytes(entry.buckets),
        reasons=bytes(REASONS.index(reason) for reason in entry.reasons),
        amount=str(amount),
    )


def _check_entry(entry: _Entry, reasons: int) -> None:
    if len(entry.buckets) != len(entry.reasons):
        raise BadReport(f"submission {entry.id} has {len(entry.buckets)} buckets and {len(entry.reasons)} reasons")
    for bucket, reason in zip(entry.buckets, entry.reasons, strict=True):
        if bucket > RULE.buckets or reason >= reasons or (bucket > 0) == (reason > 0):
            raise BadReport(f"submission {entry.id} has an item with bucket {bucket} and reason {reason}")


def _rewards(entries: Iterable[_Entry]) -> list[Reward]:
    by_account = groupby(sorted(entries, key=lambda e: (e.contributor, e.id)), key=lambda e: e.contributor)
    return [_reward(account, tuple(mine)) for account, mine in by_account]


def _reward(account: str, entries: Sequence[_Entry]) -> Reward:
    amount = sum(int(entry.amount) for entry in entries)
    evidence = merkle.root([dag.encode([e.id, e.items_root, e.score, e.amount]) for e in entries])
    return Reward(account, amount, evidence)
