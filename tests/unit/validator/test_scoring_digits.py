"""What the scoring rule promises on real data, over several splits and without per-split settings."""

from __future__ import annotations

import numpy as np
import pytest
from digits_campaign import SCHEMA, Cast, cast

from hydra_validator.scoring.score import CampaignScore, SubmissionScore, score_campaign

SEEDS = range(1, 6)
HONEST, NOISE, COPIER, FLIPPER = (1, 2), 3, 4, 5


def score(campaign: Cast, seed: int) -> dict[int, SubmissionScore]:
    result = score_campaign(campaign.reference, campaign.submissions, SCHEMA, seed=seed)
    return {entry.submission_id: entry for entry in result.submissions}


def accepted(entry: SubmissionScore) -> float:
    return float(np.mean(entry.accepted))


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_data_is_accepted_and_the_rest_is_not(seed: int) -> None:
    campaign = cast(seed)
    scores = score(campaign, seed)
    for honest in HONEST:
        assert accepted(scores[honest]) >= 0.92
    assert accepted(scores[NOISE]) <= 0.03
    assert accepted(scores[COPIER]) <= 0.03
    assert accepted(scores[FLIPPER]) <= 0.08


@pytest.mark.parametrize("seed", SEEDS)
def test_partly_flipped_labels_lose_the_flipped_items_only(seed: int) -> None:
    campaign = cast(seed, flip_share=0.6, flipper_first=True)
    scores = score(campaign, seed)
    kept = np.array(scores[FLIPPER].accepted)
    assert kept[campaign.flipped].mean() <= 0.08
    assert kept[~campaign.flipped].mean() >= 0.85
    for honest in HONEST:
        assert accepted(scores[honest]) >= 0.92


def test_noise_with_the_right_pixel_statistics_is_rejected_too() -> None:
    rates = [accepted(score(cast(seed, noise="marginal"), seed)[NOISE]) for seed in SEEDS]
    assert np.mean(rates) <= 0.03
    assert max(rates) <= 0.05


def test_copies_and_their_originals_are_told_apart_by_commit_order() -> None:
    campaign = cast(1)
    order = [campaign.submissions[i] for i in (3, 0, 1, 2, 4)]
    result = score_campaign(campaign.reference, order, SCHEMA, seed=1)
    scores = {entry.submission_id: entry for entry in result.submissions}
    assert accepted(scores[COPIER]) >= 0.9, "who commits first owns the item"
    assert accepted(scores[1]) <= 0.68, "the 150 items that were there before are not paid again"


def test_a_rescoring_gives_the_same_integers() -> None:
    campaign = cast(2)
    first = score_campaign(campaign.reference, campaign.submissions, SCHEMA, seed=7)
    second = score_campaign(campaign.reference, campaign.submissions, SCHEMA, seed=7)
    assert first == second
    assert all(0 <= bucket <= 64 for entry in first.submissions for bucket in entry.buckets)
    assert all(
        (bucket > 0) == (reason == "")
        for entry in first.submissions
        for bucket, reason in zip(entry.buckets, entry.reasons, strict=True)
    )


def test_a_flipper_gains_no_voice_by_submitting_twice() -> None:
    campaign = cast(3)
    twin = campaign.submissions[4]
    shifted = type(twin)(6, "0x" + "66" * 20, campaign.submissions[4].items)
    result = score_campaign(campaign.reference, (*campaign.submissions, shifted), SCHEMA, seed=3)
    for entry in result.submissions[-2:]:
        assert accepted(entry) <= 0.08


def total(result: CampaignScore) -> int:
    return sum(entry.score for entry in result.submissions)


def test_the_seed_moves_few_items() -> None:
    campaign = cast(4)
    first, second = (score_campaign(campaign.reference, campaign.submissions, SCHEMA, seed=seed) for seed in (1, 2))
    assert abs(total(first) - total(second)) <= total(first) // 100
