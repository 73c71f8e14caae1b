"""DisputeManager: a bonded challenge stops a root, and a jury that decided nothing before decides."""

import pytest
from brownie import chain, reverts
from merkle import Tree
from world import (
    ACTIVATION,
    BOND,
    CHALLENGE,
    CID,
    DISPUTE_WINDOW,
    DRAWING,
    FAILED,
    HYDRA,
    OVERTURNED,
    REFUNDED,
    SETTLED,
    UNDECIDED,
    UPHELD,
    VALIDATOR,
    VOTING,
    Verdict,
    wait,
    wait_until,
)

ZERO_ADDRESS = "0x" + "00" * 20


@pytest.fixture
def scored(world):
    """A campaign whose wrong or right result can be disputed: its number and the tree behind its root."""
    job_id, round_id = world.scored_campaign()
    tree = Tree(job_id, {world.contributors[0]: 100 * HYDRA})
    world.settle(round_id, Verdict(tree.root, tree.total))
    return job_id, tree


@pytest.fixture
def disputed(world, scored):
    """A dispute of the stranger's, answered by a contributor."""
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    world.disputes.defend(dispute_id, CID, {"from": world.contributors[0]})
    return dispute_id


def challenge(world, job_id, root, person=None):
    tx = world.disputes.challenge(job_id, root, CID, {"from": person or world.stranger})
    return tx.events["Challenged"]["disputeId"]


def seat(world, dispute_id):
    """Fix the block and draw the jury."""
    world.disputes.seat(dispute_id, {"from": world.stranger})
    chain.mine(2)
    return world.disputes.seat(dispute_id, {"from": world.stranger})


def vote(world, dispute_id, *votes):
    """The validators' votes in their order; None is silence."""
    for validator, uphold in zip(world.validators, votes, strict=True):
        if uphold is not None:
            world.disputes.vote(dispute_id, uphold, {"from": validator})


def decide(world, dispute_id, *votes):
    seat(world, dispute_id)
    vote(world, dispute_id, *votes)
    wait_until(world.disputes.dispute(dispute_id)[7])
    return world.disputes.resolve(dispute_id, {"from": world.stranger})


def state_of(world, dispute_id):
    return world.disputes.dispute(dispute_id)[4]


def balances(world, *people):
    return [world.token.balanceOf(person) for person in people]


def stakes_of(world):
    return [world.stakes.stakeOf(VALIDATOR, validator) // HYDRA for validator in world.validators]


# --- challenging and answering ---


def test_a_challenge_costs_a_bond_and_stops_the_root(world, scored):
    job_id, tree = scored
    tx = world.disputes.challenge(job_id, tree.root, CID, {"from": world.stranger})
    assert dict(tx.events["Challenged"]) == {
        "disputeId": 1,
        "jobId": job_id,
        "challenger": world.stranger,
        "root": "0x" + tree.root.hex(),
        "evidenceCid": CID,
        "bond": BOND,
        "answerEnd": tx.timestamp + DISPUTE_WINDOW,
    }
    assert world.token.balanceOf(world.disputes) == BOND
    assert state_of(world, 1) == DRAWING
    wait(10 * ACTIVATION)
    person = world.contributors[0]
    with reverts(revert_pattern="NoActiveRoot: .*"):
        world.rewards.claim(job_id, person, tree.total, tree.EVIDENCE, tree.proof(person))
    with reverts(revert_pattern="Disputable: .*"):
        world.quality.finish(job_id)


def test_challenges_refused(world, scored):
    job_id, tree = scored
    with reverts("BadCidLength: 0, 96"):
        world.disputes.challenge(job_id, tree.root, "", {"from": world.stranger})
    for wrong_job, root in ((job_id, b"\x01" * 32), (job_id, bytes(32)), (job_id + 1, tree.root)):
        with reverts(revert_pattern="NotDisputable: .*"):
            challenge(world, wrong_job, root)
    challenge(world, job_id, tree.root)
    with reverts(revert_pattern="NotDisputable: .*"):
        challenge(world, job_id, tree.root)


def test_an_active_root_stands(world, scored):
    job_id, tree = scored
    wait_until(world.rewards.current(job_id)[2])
    with reverts(revert_pattern="NotDisputable: .*"):
        challenge(world, job_id, tree.root)


def test_the_judges_stake_stays_until_the_dispute_can_end(world, scored):
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    answer_end = world.disputes.dispute(dispute_id)[6]
    for validator in world.validators:
        assert world.stakes.lockedUntil(VALIDATOR, validator) == answer_end + 3 * DISPUTE_WINDOW


def test_one_may_answer_in_time(world, scored):
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    with reverts("BadCidLength: 0, 96"):
        world.disputes.defend(dispute_id, "", {"from": world.sponsor})
    tx = world.disputes.defend(dispute_id, CID, {"from": world.sponsor})
    assert tx.events["Defended"]["bond"] == BOND
    assert world.token.balanceOf(world.disputes) == 2 * BOND
    with reverts(f"AlreadyDefended: {dispute_id}, {world.sponsor.address.lower()}"):
        world.disputes.defend(dispute_id, CID, {"from": world.contributors[0]})
    with reverts("WrongDisputeState: 7, 0"):
        world.disputes.defend(7, CID, {"from": world.sponsor})


def test_nobody_answers_late(world, scored):
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    wait(DISPUTE_WINDOW)
    with reverts(revert_pattern="AnswersClosed: .*"):
        world.disputes.defend(dispute_id, CID, {"from": world.sponsor})


# --- the jury ---


def test_a_jury_is_seated_once_answered_or_too_late_to_answer(world, scored):
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    with reverts(revert_pattern="AnswersOpen: .*"):
        world.disputes.seat(dispute_id)
    world.disputes.defend(dispute_id, CID, {"from": world.sponsor})
    tx = world.disputes.seat(dispute_id)
    assert tx.events["DrawFixed"]["blockNumber"] == tx.block_number + 2
    assert "JurySeated" not in tx.events
    with reverts(revert_pattern="DrawPending: .*"):
        world.disputes.seat(dispute_id)
    chain.mine(260)
    assert "JurySeated" not in world.disputes.seat(dispute_id).events  # forgotten: a later block
    chain.mine(2)
    assert "JurySeated" in world.disputes.seat(dispute_id).events
    assert state_of(world, dispute_id) == VOTING
    with reverts(f"WrongDisputeState: {dispute_id}, {VOTING}"):
        world.disputes.seat(dispute_id)


def test_where_others_are_too_few_the_jury_is_everyone(world, disputed):
    tx = seat(world, disputed)
    assert set(world.disputes.jury(disputed)) == set(world.validators)
    assert tx.events["JurySeated"]["everyone"] and tx.events["JurySeated"]["weight"] == 300 * HYDRA
    end = tx.events["JurySeated"]["voteEnd"]
    assert end == tx.timestamp + DISPUTE_WINDOW
    assert all(world.stakes.lockedUntil(VALIDATOR, juror) >= end + DISPUTE_WINDOW for juror in world.validators)


@pytest.fixture
def crowded(world, scored, accounts):
    """Seven more validators: enough for a jury of six without the three who decided."""
    crowd = accounts[20:27]
    world.supply(*crowd, amount=200 * HYDRA)
    world.stake_all(VALIDATOR, crowd)
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    wait(DISPUTE_WINDOW)
    seat(world, dispute_id)
    return dispute_id


def test_the_jury_is_twice_the_committee_and_holds_none_of_it(world, crowded):
    jury = world.disputes.jury(crowded)
    assert len(set(jury)) == 6
    assert not set(jury) & set(world.validators)
    assert world.disputes.dispute(crowded)[5] is False
    with reverts(revert_pattern="NotJuror: .*"):
        world.disputes.vote(crowded, True, {"from": world.validators[0]})


def test_a_jury_that_does_not_agree_gives_way_to_everyone(world, crowded):
    first = world.disputes.jury(crowded)
    for place, juror in enumerate(first[:5]):
        world.disputes.vote(crowded, place % 2 == 0, {"from": juror})
    wait_until(world.disputes.dispute(crowded)[7])
    tx = world.disputes.resolve(crowded)
    assert "Escalated" in tx.events and "Slashed" not in tx.events
    with reverts(revert_pattern="AnswersClosed: .*"):
        world.disputes.defend(crowded, CID, {"from": world.sponsor})
    seat(world, crowded)
    everyone = world.disputes.jury(crowded)
    assert len(everyone) == 10
    assert world.disputes.dispute(crowded)[10:] == (0, 1_000 * HYDRA, 0, 0)
    for juror in everyone:
        world.disputes.vote(crowded, False, {"from": juror})
    assert "Resolved" in world.disputes.resolve(crowded).events  # nobody is waited for
    assert state_of(world, crowded) == OVERTURNED


def test_votes_refused(world, disputed):
    with reverts(f"WrongDisputeState: {disputed}, {DRAWING}"):
        world.disputes.vote(disputed, True, {"from": world.validators[0]})
    seat(world, disputed)
    with reverts(f"NotJuror: {disputed}, {world.stranger.address.lower()}"):
        world.disputes.vote(disputed, True, {"from": world.stranger})
    tx = world.disputes.vote(disputed, True, {"from": world.validators[0]})
    assert tx.events["Voted"]["weight"] == 100 * HYDRA
    with reverts(revert_pattern="AlreadyVoted: .*"):
        world.disputes.vote(disputed, False, {"from": world.validators[0]})
    with reverts(revert_pattern="VotesOpen: .*"):
        world.disputes.resolve(disputed)
    wait_until(world.disputes.dispute(disputed)[7])
    with reverts(revert_pattern="VotesClosed: .*"):
        world.disputes.vote(disputed, True, {"from": world.validators[1]})


# --- verdicts ---


def test_upheld_the_root_pays_and_the_challenger_loses_its_bond(world, scored, disputed):
    job_id, tree = scored
    people = (world.contributors[0], *world.validators)
    before = balances(world, *people)
    tx = decide(world, disputed, True, True, False)
    assert dict(tx.events["Resolved"]) == {
        "disputeId": disputed,
        "jobId": job_id,
        "state": UPHELD,
        "upholding": 200 * HYDRA,
        "overturning": 100 * HYDRA,
        "weight": 300 * HYDRA,
    }
    gains = [after - was for after, was in zip(balances(world, *people), before, strict=True)]
    share = BOND // 2 // 3
    assert gains == [2 * BOND - 3 * share, share, share, share]
    assert world.token.balanceOf(world.disputes) == 0
    assert stakes_of(world) == [100, 100, 100]
    person = world.contributors[0]
    world.rewards.claim(job_id, person, tree.total, tree.EVIDENCE, tree.proof(person))
    world.quality.finish(job_id)
    assert world.escrow.job(job_id)[2] == SETTLED


def test_overturned_the_root_falls_and_its_backers_pay(world, scored, disputed):
    job_id, _ = scored
    before = balances(world, world.stranger)[0]
    tx = decide(world, disputed, False, False, True)
    assert tx.events["Overturned"]["wrong"] is True
    assert balances(world, world.stranger)[0] == before + 2 * BOND - 3 * (BOND // 2 // 3)
    assert stakes_of(world) == [60, 60, 60]  # what a wrong vote costs; all three had backed it
    assert world.rewards.current(job_id) == ("0x" + "00" * 32, 0, 0)
    assert world.escrow.job(job_id)[2] == REFUNDED
    assert world.quality.round(world.quality.roundOf(job_id))[1] == FAILED
    assert world.escrow.available(job_id) == 985 * HYDRA  # all but the fees
    world.escrow.refund(job_id, {"from": world.stranger})
    world.check_books(job_id)
    with reverts(revert_pattern="NotTallied: .*"):
        world.quality.finish(job_id)


def test_undecided_the_root_falls_and_nobody_pays(world, scored, disputed):
    job_id, _ = scored
    people = (world.stranger, world.contributors[0])
    before = balances(world, *people)
    tx = decide(world, disputed, True, False, None)
    assert tx.events["Resolved"]["state"] == UNDECIDED
    assert tx.events["Overturned"]["wrong"] is False
    assert balances(world, *people) == [was + BOND for was in before]
    assert stakes_of(world) == [100, 100, 100]
    assert world.escrow.job(job_id)[2] == REFUNDED


def test_silence_costs_a_juror_a_tenth_of_its_stake(world, disputed):
    before = balances(world, world.validators[2])
    decide(world, disputed, True, True, None)
    assert stakes_of(world) == [100, 100, 90]
    assert balances(world, world.validators[2]) == before


def test_unanswered_and_upheld_the_jury_has_the_whole_bond(world, scored):
    job_id, tree = scored
    dispute_id = challenge(world, job_id, tree.root)
    wait(DISPUTE_WINDOW)
    before = balances(world, *world.validators)
    decide(world, dispute_id, True, True, True)
    gains = [after - was for after, was in zip(balances(world, *world.validators), before, strict=True)]
    assert sum(gains) == BOND and max(gains) - min(gains) <= 2
    assert world.disputes.dispute(dispute_id)[3] == ZERO_ADDRESS


def test_unanswered_and_overturned_the_challenger_has_its_bond_back(world, scored):
    job_id, tree = scored
    before = balances(world, world.stranger, *world.validators)
    dispute_id = challenge(world, job_id, tree.root)
    wait(DISPUTE_WINDOW)
    decide(world, dispute_id, False, False, None)
    assert balances(world, world.stranger, *world.validators) == before
    assert state_of(world, dispute_id) == OVERTURNED


def test_a_dispute_ends_without_any_validator(world, disputed):
    for validator in world.validators:
        world.stakes.requestWithdraw(VALIDATOR, world.stakes.stakeOf(VALIDATOR, validator), {"from": validator})
    seat(world, disputed)
    world.disputes.resolve(disputed)
    assert state_of(world, disputed) == UNDECIDED
    assert world.token.balanceOf(world.disputes) == 0


# --- training ---


@pytest.fixture
def trained(world):
    """A training job whose last round is settled: its number and the trees of both rounds."""
    job_id = world.open_training()
    first = Tree(job_id, {world.trainers[0]: 10 * HYDRA})
    second = Tree(job_id, {world.trainers[0]: 30 * HYDRA})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, first.root, first.total)
    wait(ACTIVATION)
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 1, second.root, second.total, last=True)
    return job_id, first, second


def test_an_overturned_round_is_attested_anew_and_the_earlier_root_pays(world, trained):
    job_id, first, second = trained
    dispute_id = challenge(world, job_id, second.root)
    wait(DISPUTE_WINDOW)
    tx = decide(world, dispute_id, False, False, None)
    assert dict(tx.events["RoundReopened"]) == {"jobId": job_id, "round": 1, "wrong": True}
    assert world.training.settledRounds(job_id) == 1
    assert world.escrow.job(job_id)[6] == first.total
    person = world.trainers[0]
    world.rewards.claim(job_id, person, first.total, first.EVIDENCE, first.proof(person))
    with reverts(f"NotClosed: {job_id}"):
        world.training.finish(job_id)
    right = Tree(job_id, {person: 20 * HYDRA})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 1, right.root, right.total, last=True)
    wait(ACTIVATION)
    world.training.finish(job_id, {"from": world.stranger})
    assert world.escrow.job(job_id)[2] == SETTLED
    world.rewards.claim(job_id, person, right.total, right.EVIDENCE, right.proof(person))
    world.check_books(job_id)


def test_attestations_of_an_overturned_round_never_count_again(world, trained):
    """Otherwise one of those who attested it could settle it again alone."""
    job_id, _, second = trained
    dispute_id = challenge(world, job_id, second.root)
    wait(DISPUTE_WINDOW)
    decide(world, dispute_id, False, False, None)
    world.attest(world.validators[0], job_id, 1, second.root, second.total, last=True)
    assert world.training.settledRounds(job_id) == 1


def test_no_newer_root_while_one_is_disputed(world):
    job_id = world.open_training()
    tree = Tree(job_id, {world.trainers[0]: 10 * HYDRA})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, tree.root, tree.total)
    challenge(world, job_id, tree.root)
    world.attest(world.validators[0], job_id, 1, tree.root, tree.total)
    with reverts(revert_pattern="RootDisputed: .*"):
        world.attest(world.validators[1], job_id, 1, tree.root, tree.total)


def test_an_upheld_last_round_settles_the_job(world, trained):
    job_id, _, second = trained
    assert world.escrow.job(job_id)[2] == CHALLENGE
    dispute_id = challenge(world, job_id, second.root)
    wait(DISPUTE_WINDOW)
    with reverts(revert_pattern="Disputable: .*"):
        world.training.finish(job_id)
    decide(world, dispute_id, True, True, True)
    world.training.finish(job_id)
    assert world.escrow.job(job_id)[2] == SETTLED


def test_only_the_dispute_manager_touches_roots(world, scored):
    job_id, tree = scored
    refused = "AccessControlUnauthorizedAccount: .*"
    for call in (
        lambda: world.rewards.suspend(job_id, tree.root),
        lambda: world.rewards.resume(job_id),
        lambda: world.rewards.revoke(job_id),
        lambda: world.quality.overturn(job_id, True),
        lambda: world.training.overturn(job_id, True),
    ):
        with reverts(revert_pattern=refused):
            call()
