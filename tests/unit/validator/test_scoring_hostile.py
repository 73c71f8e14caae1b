"""Hostile submissions get a named reason, never a crash, and never harm the others."""

from __future__ import annotations

import numpy as np
import pytest
from digits_campaign import SCHEMA, Cast, cast

from hydra_node.campaigns.policy import ItemSchema
from hydra_node.storage.items import Item
from hydra_validator.scoring.score import BadReference, Submission, SubmissionScore, score_campaign

ATTACKER = "0x" + "aa" * 20


@pytest.fixture(scope="module")
def campaign() -> Cast:
    return cast(1)


def attack(campaign: Cast, items: tuple[Item, ...], fault: str = "") -> SubmissionScore:
    hostile = Submission(9, ATTACKER, items, fault)
    alone = score_campaign(campaign.reference, campaign.submissions[:2], SCHEMA, seed=5)
    result = score_campaign(campaign.reference, (*campaign.submissions[:2], hostile), SCHEMA, seed=5)
    for before, after in zip(alone.submissions, result.submissions[:2], strict=True):
        assert sum(after.accepted) >= 0.98 * sum(before.accepted)
    return result.submissions[2]


def test_empty(campaign: Cast) -> None:
    entry = attack(campaign, ())
    assert (entry.fault, entry.score, entry.reasons) == ("empty", 0, ())


def test_unavailable_payload_scores_zero_with_its_reason(campaign: Cast) -> None:
    entry = attack(campaign, (), "payload-unavailable")
    assert (entry.fault, entry.score) == ("payload-unavailable", 0)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (Item(b"", 1), "wrong-shape"),
        (Item(bytes(63), 1), "wrong-shape"),
        (Item(bytes(64 * 4), 1), "wrong-shape"),
        (Item(bytes(64), 10), "label-out-of-range"),
        (Item(b"\xff" * 64, 1), "out-of-distribution"),
        (Item(bytes(64), 1), "out-of-distribution"),
    ],
)
def test_worthless_items(campaign: Cast, item: Item, reason: str) -> None:
    entry = attack(campaign, (item,) * 3)
    assert entry.reasons == (reason,) * 3
    assert entry.buckets == (0, 0, 0)


def test_all_identical_pays_at_most_one(campaign: Cast) -> None:
    entry = attack(campaign, (campaign.submissions[4].items[0],) * 40)
    assert sum(entry.accepted) <= 1
    entry = attack(campaign, (campaign.submissions[0].items[0],) * 40)
    assert entry.reasons == ("exact-duplicate",) * 40


def test_items_of_the_reference_are_duplicates(campaign: Cast) -> None:
    entry = attack(campaign, campaign.reference[:50])
    assert sum(entry.accepted) == 0
    assert "exact-duplicate" in entry.reasons


def test_single_class_submission_is_judged_item_by_item(campaign: Cast) -> None:
    sevens = tuple(Item(item.features, 7) for item in campaign.submissions[4].items)
    entry = attack(campaign, sevens)
    assert sum(entry.accepted) <= 0.2 * len(sevens)
    assert set(entry.reasons) <= {"", "label-mismatch", "out-of-distribution"}


def test_a_mislabelled_early_copy_takes_nothing_from_the_owner(campaign: Cast) -> None:
    victim = campaign.submissions[0]
    wrong = tuple(Item(item.features, (item.label + 1) % 10) for item in victim.items)
    alone = score_campaign(campaign.reference, campaign.submissions[:2], SCHEMA, seed=5)
    result = score_campaign(
        campaign.reference, (Submission(9, ATTACKER, wrong), *campaign.submissions[:2]), SCHEMA, seed=5
    )
    assert sum(result.submissions[0].accepted) <= 0.05 * len(wrong)
    assert sum(result.submissions[1].accepted) >= 0.98 * sum(alone.submissions[0].accepted)


def test_floats_that_are_not_numbers() -> None:
    schema = ItemSchema(dtype="f4", shape=(4,), scale=1.0, classes=2)
    rng = np.random.default_rng(0)
    good = [Item(row.astype("<f4").tobytes(), int(row[0] > 0)) for row in rng.normal(size=(60, 4))]
    bad = [np.array([0, np.nan, 0, 0]), np.array([np.inf, 0, 0, 0]), np.array([3e38, -3e38, 0, 0])]
    hostile = Submission(1, ATTACKER, tuple(Item(row.astype("<f4").tobytes(), 0) for row in bad))
    entry = score_campaign(good, [hostile], schema, seed=1).submissions[0]
    assert entry.reasons == ("not-finite", "not-finite", "out-of-distribution")


def test_nobody_submitted(campaign: Cast) -> None:
    assert score_campaign(campaign.reference, [], SCHEMA, seed=1).score == 0


@pytest.mark.parametrize("size", [0, 5])
def test_a_reference_too_small_is_named(campaign: Cast, size: int) -> None:
    with pytest.raises(BadReference, match=f"{size} items"):
        score_campaign(campaign.reference[:size], campaign.submissions, SCHEMA, seed=1)


def test_a_malformed_reference_is_named(campaign: Cast) -> None:
    with pytest.raises(BadReference, match="item 6 of the reference set is malformed"):
        score_campaign((*campaign.reference[:6], Item(b"", 0)), campaign.submissions, SCHEMA, seed=1)


def test_a_reference_of_one_repeated_item_does_not_crash(campaign: Cast) -> None:
    result = score_campaign((campaign.reference[0],) * 20, campaign.submissions, SCHEMA, seed=1)
    assert all(entry.fault == "" for entry in result.submissions)
