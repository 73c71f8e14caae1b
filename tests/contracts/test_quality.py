"""QualityRounds: two thirds of the stake decide, silence and error cost."""

from dataclasses import replace

import pytest
from brownie import chain, reverts
from world import (
    ACTIVATION,
    CHALLENGE,
    CID,
    FAILED,
    HYDRA,
    REFUNDED,
    ROUND_COMMIT,
    ROUND_REVEAL,
    SCORING,
    SETTLED,
    TALLIED,
    VALIDATOR,
    Verdict,
    wait,
    wait_until,
)

GOOD, BAD = Verdict(), Verdict(root=b"\x56" * 32)


def stakes_of(world):
    return [world.stakes.stakeOf(VALIDATOR, validator) // HYDRA for validator in world.validators]


def close(world, round_id):
    wait_until(world.quality.round(round_id)[3])
    return world.quality.tally(round_id, {"from": world.stranger})


def test_opening_seats_every_validator_and_reserves_everything(world):
    job_id, round_id = world.scored_campaign()
    assert world.quality.roundOf(job_id) == round_id
    assert set(world.quality.committee(round_id)) == set(world.validators)
    job, state, commit_end, reveal_end, reserved, _, _ = world.quality.round(round_id)
    assert (job, state, reveal_end - commit_end) == (job_id, ROUND_COMMIT, 100)
    assert reserved == 1_000 * HYDRA
    assert world.quality.budget(round_id) == 985 * HYDRA
    assert world.escrow.available(job_id) == 0
    assert world.escrow.job(job_id)[2] == SCORING
    for validator in world.validators:
        assert world.stakes.lockedUntil(VALIDATOR, validator) > reveal_end


def test_openings_refused(world):
    with reverts("CampaignRunning: 1, 0"):
        world.quality.openRound(1)
    job_id = world.open_campaign()
    with reverts(revert_pattern=f"CampaignRunning: {job_id}, .*"):
        world.quality.openRound(job_id)
    world.to_scoring(job_id)
    with reverts(f"NothingRevealed: {job_id}"):
        world.quality.openRound(job_id)


def test_a_job_has_one_round(world):
    job_id, round_id = world.scored_campaign()
    with reverts(f"AlreadyOpened: {job_id}, {round_id}"):
        world.quality.openRound(job_id)


def test_the_committee_is_as_large_as_the_money_pays_for(world):
    _, round_id = world.scored_campaign(validator_fee=334 * HYDRA)
    assert len(world.quality.committee(round_id)) == 2
    assert world.quality.budget(round_id) == 332 * HYDRA


def test_fees_must_leave_something(world):
    job_id = world.submitted_campaign(validator_fee=1_000 * HYDRA)
    world.quality.openRound(job_id)
    chain.mine(2)
    with reverts(f"FeesNotCovered: {job_id}, {1_000 * HYDRA}, {1_000 * HYDRA}"):
        world.quality.openRound(job_id)


def test_nobody_knows_the_committee_before_its_block(world):
    job_id = world.submitted_campaign()
    tx = world.quality.openRound(job_id, {"from": world.stranger})
    drawing_block = tx.events["DrawFixed"]["blockNumber"]
    assert drawing_block == tx.block_number + 2 and "RoundOpened" not in tx.events
    with reverts(f"DrawPending: {job_id}, {drawing_block}"):
        world.quality.openRound(job_id)
    chain.mine(1)
    assert world.quality.openRound(job_id).events["RoundOpened"]["jobId"] == job_id


def test_a_drawing_that_nobody_finished_moves_to_a_later_block(world):
    """The hash is forgotten after 256 blocks; it never becomes zero."""
    job_id = world.submitted_campaign()
    world.quality.openRound(job_id)
    chain.mine(260)
    tx = world.quality.openRound(job_id)
    assert tx.events["DrawFixed"]["blockNumber"] == tx.block_number + 2
    assert "RoundOpened" not in tx.events
    world.draw_again(job_id)


def test_without_validators_no_round_opens(world):
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, world.contributors[0])
    world.to_reveals(job_id)
    world.reveal(submission_id, world.contributors[0])
    world.to_scoring(job_id)
    for validator in world.validators:
        world.stakes.requestWithdraw(VALIDATOR, 100 * HYDRA, {"from": validator})
    with reverts("NoValidators: "):
        world.quality.openRound(job_id)


def test_agreement_is_counted_without_waiting(world):
    job_id, round_id = world.scored_campaign()
    before = [world.token.balanceOf(validator) for validator in world.validators]
    tx = world.settle(round_id, GOOD)
    assert dict(tx.events["Tallied"]) == {
        "roundId": round_id,
        "jobId": job_id,
        "root": "0x" + GOOD.root.hex(),
        "total": GOOD.total,
        "backing": 300 * HYDRA,
    }
    assert [world.token.balanceOf(validator) for validator in world.validators] == [b + 5 * HYDRA for b in before]
    assert stakes_of(world) == [100, 100, 100]
    assert world.rewards.current(job_id)[:2] == ("0x" + GOOD.root.hex(), GOOD.total)
    job = world.escrow.job(job_id)
    assert (job[2], job[6], world.escrow.available(job_id)) == (CHALLENGE, 100 * HYDRA, 885 * HYDRA)
    with reverts(f"RoundNotOpen: {round_id}"):
        world.quality.tally(round_id)


def test_a_campaign_is_settled_once_nobody_can_dispute_it(world):
    job_id, round_id = world.scored_campaign()
    with reverts(f"NotTallied: {job_id}, {round_id}"):
        world.quality.finish(job_id)
    world.settle(round_id, GOOD)
    with reverts(revert_pattern=f"Disputable: {job_id}, .*"):
        world.quality.finish(job_id)
    assert world.stakes.lockedUntil(VALIDATOR, world.validators[0]) >= world.rewards.current(job_id)[2]
    wait(ACTIVATION)
    world.quality.finish(job_id, {"from": world.stranger})
    assert world.escrow.job(job_id)[2] == SETTLED


def test_the_ballot_shows_each_stage(world):
    _, round_id = world.scored_campaign()
    one = world.validators[0]
    zero = "0x" + "00" * 32
    assert world.quality.ballot(round_id, one) == (zero, zero, 0, False, 100 * HYDRA)
    world.vote(round_id, one, GOOD)
    commitment = world.quality.commitmentOf(round_id, one, *GOOD.wire())
    assert world.quality.ballot(round_id, one) == (commitment, zero, 0, False, 100 * HYDRA)
    wait_until(world.quality.round(round_id)[2])
    assert world.quality.round(round_id)[1] == ROUND_REVEAL
    world.show(round_id, one, GOOD)
    assert world.quality.ballot(round_id, one) == (zero, "0x" + GOOD.root.hex(), GOOD.total, True, 100 * HYDRA)


def test_commits_refused(world):
    _, round_id = world.scored_campaign()
    one = world.validators[0]
    with reverts(f"RoundNotOpen: {round_id + 1}"):
        world.quality.commit(round_id + 1, b"\x01" * 32, {"from": one})
    with reverts(f"NotOnCommittee: {round_id}, {world.stranger.address.lower()}"):
        world.quality.commit(round_id, b"\x01" * 32, {"from": world.stranger})
    for empty in (0, 1):
        with reverts("EmptyCommitment: "):
            world.quality.commit(round_id, empty.to_bytes(32, "big"), {"from": one})
    world.vote(round_id, one, GOOD)
    with reverts(revert_pattern="AlreadyCommitted: .*"):
        world.vote(round_id, one, BAD)
    wait_until(world.quality.round(round_id)[2])
    with reverts(revert_pattern="CommitClosed: .*"):
        world.vote(round_id, world.validators[1], GOOD)


def test_reveals_wait_until_no_commitment_can_follow(world):
    _, round_id = world.scored_campaign()
    one, two, three = world.validators
    world.vote(round_id, one, GOOD)
    world.vote(round_id, two, GOOD)
    with reverts(revert_pattern="OutsideRevealWindow: .*"):
        world.show(round_id, one, GOOD)
    world.vote(round_id, three, GOOD)
    world.show(round_id, one, GOOD)
    with reverts(revert_pattern="AlreadyRevealed: .*"):
        world.show(round_id, one, GOOD)
    wait_until(world.quality.round(round_id)[3])
    with reverts(revert_pattern="OutsideRevealWindow: .*"):
        world.show(round_id, two, GOOD)


def test_the_reveal_window_begins_with_the_last_commitment_and_keeps_its_length(world):
    _, round_id = world.scored_campaign()
    before = world.quality.round(round_id)
    for validator in world.validators[:2]:
        world.vote(round_id, validator, GOOD)
    assert world.quality.round(round_id)[2:4] == before[2:4]
    receipt = world.vote(round_id, world.validators[2], GOOD)
    _, _, commit_end, reveal_end, *_ = world.quality.round(round_id)
    assert commit_end == receipt.timestamp < before[2]
    assert reveal_end - commit_end == before[3] - before[2]
    for validator in world.validators[:2]:
        world.show(round_id, validator, GOOD)
    with reverts(revert_pattern="RevealsOpen: .*"):
        world.quality.tally(round_id, {"from": world.stranger})
    wait_until(reveal_end)
    world.quality.tally(round_id, {"from": world.stranger})
    assert stakes_of(world) == [100, 100, 60]


@pytest.mark.parametrize(
    "change", [{"root": b"\x57" * 32}, {"total": 1}, {"cid": CID[:-1] + "a"}, {"salt": b"\x67" * 32}]
)
def test_every_revealed_value_is_bound(world, change):
    _, round_id = world.scored_campaign()
    for validator in world.validators:
        world.vote(round_id, validator, GOOD)
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.show(round_id, world.validators[0], replace(GOOD, **change))


@pytest.mark.parametrize("odd", [BAD, replace(GOOD, total=GOOD.total + 1)])
def test_a_minority_is_slashed_and_unpaid(world, odd):
    _, round_id = world.scored_campaign()
    verdicts = [odd, GOOD, GOOD]
    before = world.token.balanceOf(world.validators[0])
    for validator, verdict in zip(world.validators, verdicts, strict=True):
        world.vote(round_id, validator, verdict)
    for validator, verdict in zip(world.validators, verdicts, strict=True):
        world.show(round_id, validator, verdict)
    world.quality.tally(round_id, {"from": world.stranger})
    assert stakes_of(world) == [60, 100, 100]
    assert world.token.balanceOf(world.validators[0]) == before


@pytest.mark.parametrize("reveals", [True, False])
def test_silence_is_slashed(world, reveals):
    """Never committing, and committing without revealing, cost the same."""
    _, round_id = world.scored_campaign()
    one, two, three = world.validators
    world.vote(round_id, one, GOOD)
    world.vote(round_id, two, GOOD)
    if not reveals:
        world.vote(round_id, three, GOOD)
    wait_until(world.quality.round(round_id)[2])
    world.show(round_id, one, GOOD)
    world.show(round_id, two, GOOD)
    close(world, round_id)
    assert stakes_of(world) == [100, 100, 60]


def disagree(world, round_id):
    """One says this, one that, the third says nothing."""
    one, two, _ = world.validators
    for validator, verdict in ((one, GOOD), (two, BAD)):
        world.vote(round_id, validator, verdict)
    wait_until(world.quality.round(round_id)[2])
    for validator, verdict in ((one, GOOD), (two, BAD)):
        world.show(round_id, validator, verdict)
    return close(world, round_id)


def test_without_two_thirds_another_committee_decides(world):
    job_id, round_id = world.scored_campaign()
    tx = disagree(world, round_id)
    assert tx.events["Redrawing"]["jobId"] == job_id
    assert tx.events["DrawFixed"]["blockNumber"] == tx.block_number + 2
    assert world.quality.round(round_id)[1] == FAILED
    assert stakes_of(world) == [100, 100, 60]  # nobody was wrong, one was silent
    assert (world.escrow.job(job_id)[2], world.escrow.available(job_id)) == (SCORING, 0)
    second = world.draw_again(job_id)
    assert second == world.quality.roundOf(job_id) == round_id + 1
    world.settle(second, GOOD)
    assert world.escrow.job(job_id)[2] == CHALLENGE
    assert world.escrow.available(job_id) == 885 * HYDRA
    world.check_books(job_id)


def test_without_two_thirds_twice_the_money_goes_back(world):
    job_id, round_id = world.scored_campaign()
    disagree(world, round_id)
    tx = disagree(world, world.draw_again(job_id))
    assert tx.events["Failed"]["jobId"] == job_id
    assert world.escrow.job(job_id)[2] == REFUNDED
    before = world.token.balanceOf(world.sponsor)
    world.escrow.refund(job_id, {"from": world.stranger})
    assert world.token.balanceOf(world.sponsor) == before + 1_000 * HYDRA
    with reverts(revert_pattern="AlreadyOpened: .*"):
        world.quality.openRound(job_id)


def test_without_validators_for_a_second_committee_the_money_goes_back(world):
    job_id, round_id = world.scored_campaign()
    disagree(world, round_id)
    for validator in world.validators:
        world.stakes.requestWithdraw(VALIDATOR, world.stakes.stakeOf(VALIDATOR, validator), {"from": validator})
    chain.mine(2)
    tx = world.quality.openRound(job_id, {"from": world.stranger})
    assert tx.events["Failed"]["roundId"] == round_id
    assert world.escrow.job(job_id)[2] == REFUNDED
    assert world.escrow.available(job_id) == 1_000 * HYDRA


def test_stake_counts_not_heads(world):
    """Two small validators agree; one with more than a third of the stake does not."""
    world.stakes.stake(VALIDATOR, HYDRA, {"from": world.validators[2]})
    _, round_id = world.scored_campaign()
    verdicts = [GOOD, GOOD, BAD]
    for validator, verdict in zip(world.validators, verdicts, strict=True):
        world.vote(round_id, validator, verdict)
    for validator, verdict in zip(world.validators, verdicts, strict=True):
        world.show(round_id, validator, verdict)
    world.quality.tally(round_id, {"from": world.stranger})
    assert world.quality.round(round_id)[1] == FAILED


def test_a_total_beyond_the_budget_never_passes(world):
    _, round_id = world.scored_campaign()
    world.settle(round_id, Verdict(total=985 * HYDRA + 1))
    assert world.quality.round(round_id)[1] == FAILED
    assert stakes_of(world) == [100, 100, 100]


def test_the_whole_budget_may_be_spent(world):
    job_id, round_id = world.scored_campaign()
    world.settle(round_id, Verdict(total=985 * HYDRA))
    assert world.quality.round(round_id)[1] == TALLIED
    assert world.escrow.available(job_id) == 0


def test_nothing_accepted_is_a_result_too(world):
    job_id, round_id = world.scored_campaign()
    world.settle(round_id, Verdict(root=bytes(32), total=0))
    assert world.quality.round(round_id)[1] == TALLIED
    assert world.escrow.available(job_id) == 985 * HYDRA


def test_a_penalty_takes_half_of_the_stake_at_most(world):
    _, round_id = world.scored_campaign(validator_penalty=10**30)
    close(world, round_id)
    assert stakes_of(world) == [50, 50, 50]


def test_the_committee_is_bounded_and_drawn_by_stake(world, accounts):
    """Thirty-four of 1 HYDRA and three of 100: the three sit on every committee of sixteen, but for bad luck."""
    crowd = accounts[3:6] + accounts[9:40]
    for person in crowd:
        world.token.transfer(person, HYDRA, {"from": world.treasury})
        world.token.approve(world.stakes, HYDRA, {"from": person})
        world.stakes.stake(VALIDATOR, HYDRA, {"from": person})
    _, first = world.scored_campaign()
    _, second = world.scored_campaign()
    committees = [set(world.quality.committee(round_id)) for round_id in (first, second)]
    assert [len(committee) for committee in committees] == [16, 16]
    assert committees[0] != committees[1]
    assert all(committee >= set(world.validators) for committee in committees)
    assert close(world, first).gas_used < 3_000_000
