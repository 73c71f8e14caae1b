"""The report of a scoring round leads to its root and total, and to no other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.chain import merkle
from hydra_node.chain.rewards import NO_ROOT, RewardTree
from hydra_node.storage import dag
from hydra_validator.rewards import split
from hydra_validator.scoring.report import BadReport, Payload, Round, build, verify
from hydra_validator.scoring.score import CampaignScore, SubmissionScore

ALICE, BOB = "0x" + "aA" * 20, "0x" + "bb" * 20
ABOUT = Round(chain_id=1337, job_id=3, round_id=1, budget=10**21, seed=bytes(32), reference="bafy")


def scored(submission_id: int, who: str, *buckets: int) -> SubmissionScore:
    reasons = tuple("" if bucket else "near-duplicate" for bucket in buckets)
    return SubmissionScore(submission_id, who, buckets, reasons, "")


SCORE = CampaignScore(
    (
        scored(1, ALICE, 64, 0, 12),
        scored(2, BOB, 3, 0),
        scored(3, ALICE, 7),
        SubmissionScore(4, BOB, (), (), "payload-unavailable"),
    )
)
PAYLOADS = {i: Payload(bytes([i]) * 32, f"cid{i}") for i in range(1, 5)}


def made() -> tuple[Any, RewardTree]:
    document, tree = build(ABOUT, PAYLOADS, SCORE)
    return dag.decode(dag.encode(document)), tree


def test_a_report_survives_the_store_and_verifies() -> None:
    document, tree = made()
    report = verify(document, tree.root, tree.total)
    assert [int(entry.amount) for entry in report.submissions] == [
        10**21 * 76 // 86, 10**21 * 3 // 86, 10**21 * 7 // 86, 0,
    ]  # fmt: skip
    assert tree.total == sum(int(entry.amount) for entry in report.submissions) <= ABOUT.budget


def test_every_leaf_has_a_proof_that_the_chain_accepts() -> None:
    _, tree = made()
    assert [reward.account for reward in tree.rewards] == [ALICE.lower(), BOB]
    for reward in tree.rewards:
        leaf = merkle.leaf(3, reward.account, reward.cumulative, reward.evidence)
        assert merkle.verify(tree.root, leaf, tree.proof(reward.account))
    with pytest.raises(KeyError):
        tree.proof("0x" + "cc" * 20)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("submissions", 0, "buckets"), bytes([64, 0, 13])),
        (("submissions", 0, "buckets"), bytes([64, 0])),
        (("submissions", 0, "buckets"), bytes([65, 0, 11])),
        (("submissions", 1, "reasons"), bytes([0, 0])),
        (("submissions", 1, "amount"), "1"),
        (("submissions", 1, "contributor"), ALICE.lower()),
        (("submissions", 2, "items_root"), bytes(32)),
        (("leaves", 0, "cumulative"), "5"),
        (("leaves", 0, "account"), "nobody"),
        (("total",), "5"),
        (("job",), 4),
        (("budget",), str(10**22)),
        (("version",), 2),
        (("submissions",), None),
    ],
)
def test_a_changed_report_is_refused(path: tuple[Any, ...], value: object) -> None:
    document, tree = made()
    changed = copy.deepcopy(document)
    place = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    with pytest.raises(BadReport):
        verify(changed, tree.root, tree.total)


def test_another_root_or_total_is_refused() -> None:
    document, tree = made()
    with pytest.raises(BadReport, match="root"):
        verify(document, bytes(32), tree.total)
    with pytest.raises(BadReport, match="sum"):
        verify(document, tree.root, tree.total + 1)


def test_a_campaign_in_which_nothing_was_accepted_has_a_report_too() -> None:
    document, tree = build(ABOUT, PAYLOADS, CampaignScore((scored(1, ALICE, 0),)))
    assert (tree.root, tree.total) == (NO_ROOT, 0)
    verify(document, NO_ROOT, 0)


@given(st.integers(0, 2**96 - 1), st.lists(st.integers(0, 6_400_000), max_size=30))
def test_a_split_never_gives_out_more_than_there_is(reward: int, weights: list[int]) -> None:
    parts = split(reward, weights)
    assert sum(parts) <= reward
    if sum(weights):
        assert reward - sum(parts) < len(weights)
        assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if weight == 0)
