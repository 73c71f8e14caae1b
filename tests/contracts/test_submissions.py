"""SubmissionRegistry: committed blind, revealed in time, or the bond is gone."""

from dataclasses import replace

import pytest
from brownie import reverts
from world import (
    CID,
    COLLECTING,
    COMMITTED,
    EXPIRED,
    HYDRA,
    REVEALED,
    REVOKED,
    TRAINING,
    CampaignTerms,
    Submission,
    wait_until,
)

BOND = 2 * HYDRA


def test_a_campaign_opens_with_its_windows(world):
    job_id = world.open_campaign()
    terms, commit_end, reveal_end = world.submissions.campaign(job_id)
    assert terms == CampaignTerms().wire()
    assert reveal_end - commit_end == 100
    assert world.escrow.job(job_id)[2] == COLLECTING


@pytest.mark.parametrize(
    "terms",
    [
        {"commit_seconds": 0},
        {"reveal_seconds": 0},
        {"score_commit_seconds": 0},
        {"score_reveal_seconds": 0},
        {"max_items": 0},
    ],
)
def test_empty_windows_are_refused(world, terms):
    with reverts("BadTerms: "):
        world.open_campaign(**terms)


def test_only_the_sponsor_opens_and_once(world):
    job_id = world.open_job()
    with reverts(revert_pattern="NotSponsor: .*"):
        world.submissions.openCampaign(job_id, CampaignTerms().wire(), {"from": world.stranger})
    world.submissions.openCampaign(job_id, CampaignTerms().wire(), {"from": world.sponsor})
    with reverts(f"NotOpenCampaign: {job_id}"):
        world.submissions.openCampaign(job_id, CampaignTerms().wire(), {"from": world.sponsor})


def test_a_training_job_is_no_campaign(world):
    job_id = world.open_job(TRAINING)
    with reverts(f"NotOpenCampaign: {job_id}"):
        world.submissions.openCampaign(job_id, CampaignTerms().wire(), {"from": world.sponsor})


def test_windows_must_end_before_the_sponsor_may_leave(world):
    job_id = world.open_job(lifetime=399)
    with reverts(revert_pattern="ExitTooEarly: .*"):
        world.submissions.openCampaign(job_id, CampaignTerms().wire(), {"from": world.sponsor})


def test_commit_then_reveal_returns_the_bond(world):
    person = world.contributors[0]
    before = world.token.balanceOf(person)
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    assert world.token.balanceOf(person) == before - BOND
    job, contributor, state, root, count, block = world.submissions.submission(submission_id)
    assert (job, contributor, state, count) == (job_id, person, COMMITTED, 0)
    assert int(str(root), 16) == 0
    world.to_reveals(job_id)
    tx = world.reveal(submission_id, person)
    assert tx.events["Revealed"]["cid"] == CID
    assert block < tx.block_number
    _, _, state, root, count, _ = world.submissions.submission(submission_id)
    assert (state, root, count) == (REVEALED, "0x" + "11" * 32, 10)
    assert world.token.balanceOf(person) == before
    assert world.submissions.revealedCount(job_id) == 1


def test_submissions_are_listed_in_order(world):
    job_id = world.open_campaign()
    ids = [world.commit(job_id, person) for person in world.contributors]
    assert world.submissions.submissionsOf(job_id) == ids
    assert world.submissions.submissionsOf(job_id + 1) == []


def test_without_a_bond_no_allowance_is_needed(world):
    world.token.approve(world.submissions, 0, {"from": world.contributors[0]})
    job_id = world.open_campaign(bond=0)
    submission_id = world.commit(job_id, world.contributors[0])
    world.to_reveals(job_id)
    world.reveal(submission_id, world.contributors[0])


def test_commits_refused(world):
    with reverts("UnknownCampaign: 1"):
        world.submissions.commit(1, b"\x01" * 32, {"from": world.stranger})
    job_id = world.open_campaign()
    with reverts("EmptyCommitment: "):
        world.submissions.commit(job_id, bytes(32), {"from": world.stranger})
    world.to_reveals(job_id)
    with reverts(revert_pattern="CommitClosed: .*"):
        world.submissions.commit(job_id, b"\x01" * 32, {"from": world.stranger})


def test_reveals_wait_for_the_window_and_end_with_it(world):
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    with reverts(revert_pattern="OutsideRevealWindow: .*"):
        world.reveal(submission_id, person)
    world.to_scoring(job_id)
    with reverts(revert_pattern="OutsideRevealWindow: .*"):
        world.reveal(submission_id, person)


@pytest.mark.parametrize(
    "change",
    [
        {"items_root": b"\x12" * 32},
        {"item_count": 11},
        {"cid": CID[:-1] + "a"},
        {"licence": b"\x23" * 32},
        {"consent": b"\x34" * 32},
        {"salt": b"\x45" * 32},
    ],
)
def test_every_revealed_value_is_bound(world, change):
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    world.to_reveals(job_id)
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.reveal(submission_id, person, replace(Submission(), **change))


@pytest.mark.parametrize("count", [0, 1001])
def test_item_counts_are_bounded(world, count):
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person, Submission(item_count=count))
    world.to_reveals(job_id)
    with reverts(f"BadItemCount: {count}, 1000"):
        world.reveal(submission_id, person, Submission(item_count=count))


def test_a_second_reveal_is_refused(world):
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    world.to_reveals(job_id)
    world.reveal(submission_id, person)
    with reverts(f"WrongSubmissionState: {submission_id}, {REVEALED}"):
        world.reveal(submission_id, person)


def test_silence_forfeits_the_bond_to_the_job(world):
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, world.contributors[0])
    with reverts(revert_pattern="RevealsOpen: .*"):
        world.submissions.forfeit(submission_id, {"from": world.stranger})
    world.to_scoring(job_id)
    before = world.escrow.available(job_id)
    world.submissions.forfeit(submission_id, {"from": world.stranger})
    assert world.escrow.available(job_id) == before + BOND
    assert world.submissions.submission(submission_id)[2] == EXPIRED
    assert world.token.balanceOf(world.submissions) == 0
    with reverts(f"WrongSubmissionState: {submission_id}, {EXPIRED}"):
        world.submissions.forfeit(submission_id, {"from": world.stranger})


def test_a_bond_forfeited_after_the_jobs_end_still_leaves_the_registry(world):
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, world.contributors[0])
    wait_until(world.escrow.job(job_id)[3])
    world.escrow.refund(job_id, {"from": world.stranger})
    world.submissions.forfeit(submission_id, {"from": world.stranger})
    world.escrow.refund(job_id, {"from": world.stranger})
    world.check_books(job_id)
    assert world.token.balanceOf(world.escrow) == world.token.balanceOf(world.submissions) == 0


def test_revoking_early_returns_the_bond(world):
    person = world.contributors[0]
    before = world.token.balanceOf(person)
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    with reverts(revert_pattern="NotContributor: .*"):
        world.submissions.revoke(submission_id, {"from": world.stranger})
    world.submissions.revoke(submission_id, {"from": person})
    assert world.token.balanceOf(person) == before
    assert world.submissions.submission(submission_id)[2] == REVOKED
    with reverts(f"WrongSubmissionState: {submission_id}, {REVOKED}"):
        world.submissions.revoke(submission_id, {"from": person})


def test_revoking_late_costs_the_bond_like_silence(world):
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    world.to_reveals(job_id)
    before = world.escrow.available(job_id)
    world.submissions.revoke(submission_id, {"from": person})
    assert world.escrow.available(job_id) == before + BOND


def test_revoking_what_was_revealed_leaves_a_tombstone(world):
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    world.to_reveals(job_id)
    world.reveal(submission_id, person)
    world.submissions.revoke(submission_id, {"from": person})
    assert world.submissions.submission(submission_id)[1:3] == (person, REVOKED)
