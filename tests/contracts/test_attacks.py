"""Each test is an attack that somebody would try."""

import json
from unittest.mock import patch

from brownie import CallbackToken, FeeToken, Reenterer, chain, reverts
from merkle import Tree
from scripts.deploy import deploy
from world import (
    ACTIVATION,
    CID,
    FAILED,
    HYDRA,
    PARAMETERS,
    THAW,
    TRAINER,
    TRAINING,
    UNLIMITED,
    VALIDATOR,
    Submission,
    Verdict,
    World,
    now,
    wait,
    wait_until,
)


def hostile_world(accounts, tmp_path, token_class):
    """Everything deployed by the plan, but with a token that misbehaves."""
    token = token_class.deploy(accounts[0], 10**6 * HYDRA, {"from": accounts[0]})
    path = tmp_path / "deployment.json"
    record = {"chain_id": chain.id, "block": chain.height, "addresses": {"HydraToken": token.address}}
    path.write_text(json.dumps(record))
    token_class.remove(token)  # brownie knows an address under one name only
    # The deployment would rightly refuse a token that is not ours.
    with patch("scripts.deploy.check_record"):
        return token, World(deploy(accounts[0], PARAMETERS, path), accounts)


# --- copying and replaying commitments ---


def test_a_front_run_submission_cannot_be_revealed_by_the_thief(world):
    """The thief copies the commitment from the pool, is first, and even knows everything at the reveal."""
    owner, thief = world.contributors[:2]
    job_id = world.open_campaign()
    commitment = world.submissions.commitmentOf(job_id, owner, *Submission().wire())
    stolen = world.submissions.commit(job_id, commitment, {"from": thief}).events["Committed"]["submissionId"]
    own = world.commit(job_id, owner)
    world.to_reveals(job_id)
    world.reveal(own, owner)
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.reveal(stolen, thief)
    with reverts(revert_pattern="WrongSubmissionState: .*"):
        world.reveal(own, thief)


def test_a_commitment_of_another_campaign_is_worthless(world):
    person = world.contributors[0]
    first, second = world.open_campaign(), world.open_campaign()
    commitment = world.submissions.commitmentOf(first, person, *Submission().wire())
    replayed = world.submissions.commit(second, commitment, {"from": person}).events["Committed"]["submissionId"]
    world.to_reveals(second)
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.reveal(replayed, person)


def test_a_commitment_of_another_contract_is_worthless(world, accounts, tmp_path):
    other = World(deploy(accounts[0], PARAMETERS), accounts)
    person = world.contributors[0]
    arguments = (1, person, *Submission().wire())
    assert other.submissions.commitmentOf(*arguments) != world.submissions.commitmentOf(*arguments)
    verdict = (1, person, *Verdict().wire())
    assert other.quality.commitmentOf(*verdict) != world.quality.commitmentOf(*verdict)


def test_a_vote_of_another_round_is_worthless(world):
    one = world.validators[0]
    _, first = world.scored_campaign()
    _, second = world.scored_campaign()
    commitment = world.quality.commitmentOf(first, one, *Verdict().wire())
    world.quality.commit(second, commitment, {"from": one})
    wait_until(world.quality.round(second)[2])
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.show(second, one, Verdict())


# --- waiting, silence, leaving ---


def test_the_last_revealer_gains_nothing_by_holding_back(world):
    """Its vote would have decided; holding it back costs stake and the sponsor nothing."""
    job_id, round_id = world.scored_campaign()
    one, two, last = world.validators
    other = Verdict(root=b"\x02" * 32)
    for validator, verdict in ((one, Verdict()), (two, other), (last, Verdict())):
        world.vote(round_id, validator, verdict)
    world.show(round_id, one, Verdict())
    world.show(round_id, two, other)
    with reverts(revert_pattern="RevealsOpen: .*"):
        world.quality.tally(round_id, {"from": last})
    wait_until(world.quality.round(round_id)[3])
    world.quality.tally(round_id, {"from": world.stranger})
    assert world.quality.round(round_id)[1] == FAILED
    assert world.stakes.stakeOf(VALIDATOR, last) == 60 * HYDRA
    world.draw_again(job_id)  # and the others decide without it


def test_when_nobody_finalises_a_stranger_can_do_everything(world):
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, world.contributors[0])
    abandoned = world.commit(job_id, world.contributors[1])
    world.to_reveals(job_id)
    world.reveal(submission_id, world.contributors[0])
    world.to_scoring(job_id)
    stranger = {"from": world.stranger}
    world.submissions.forfeit(abandoned, stranger)
    round_id = world.open_round(job_id)
    wait_until(world.quality.round(round_id)[3])
    world.quality.tally(round_id, stranger)
    redrawn = world.draw_again(job_id)
    wait_until(world.quality.round(redrawn)[3])
    world.quality.tally(redrawn, stranger)
    world.escrow.refund(job_id, stranger)
    assert world.token.balanceOf(world.escrow) == world.token.balanceOf(world.submissions) == 0


def test_unbonding_before_the_slash_does_not_help(world):
    _, round_id = world.scored_campaign()
    runaway = world.validators[2]
    world.stakes.requestWithdraw(VALIDATOR, 100 * HYDRA, {"from": runaway})
    wait_until(world.quality.round(round_id)[3])
    with reverts(revert_pattern="St(ill|ake)(Thawing|Locked): .*"):
        world.stakes.withdraw(VALIDATOR, {"from": runaway})
    world.quality.tally(round_id, {"from": world.stranger})
    assert world.stakes.thawingOf(VALIDATOR, runaway)[0] == 60 * HYDRA


def test_stake_requested_long_before_is_still_locked_by_the_round(world):
    """The thaw ends within the round; the lock does not."""
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, world.contributors[0])
    world.to_reveals(job_id)
    world.reveal(submission_id, world.contributors[0])
    runaway = world.validators[2]
    world.stakes.requestWithdraw(VALIDATOR, 90 * HYDRA, {"from": runaway})
    world.to_scoring(job_id)
    round_id = world.open_round(job_id)
    wait_until(max(world.stakes.thawingOf(VALIDATOR, runaway)[1], world.quality.round(round_id)[3]))
    with reverts(revert_pattern="StakeLocked: .*"):
        world.stakes.withdraw(VALIDATOR, {"from": runaway})


def test_a_trainer_cannot_leave_with_its_stake_before_the_exit_time(world):
    job_id = world.open_training()
    cheat = world.trainers[0]
    world.join(job_id, cheat)
    world.stakes.requestWithdraw(TRAINER, 100 * HYDRA, {"from": cheat})
    wait(THAW)
    with reverts(revert_pattern="StakeLocked: .*"):
        world.stakes.withdraw(TRAINER, {"from": cheat})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, b"\x01" * 32, 0, cheats=[cheat])
    assert world.stakes.thawingOf(TRAINER, cheat)[0] == 70 * HYDRA


def test_a_sybil_gains_no_vote_by_splitting(world, accounts):
    """Eighty HYDRA in eight names have the weight of eighty HYDRA in one, though by heads they were 8 of 11."""
    job_id = world.open_training()
    sybils = accounts[20:28]
    for sybil in sybils:
        world.supply(sybil, amount=10 * HYDRA)
        world.stakes.stake(VALIDATOR, 10 * HYDRA, {"from": sybil})
    heads = len(world.stakes.operators(VALIDATOR))
    assert 3 * len(sybils) >= 2 * heads, "too few to be noticed where heads are counted"
    for sybil in sybils:
        world.attest(sybil, job_id, 0, b"\x01" * 32, HYDRA)
    assert world.training.settledRounds(job_id) == 0


def test_taking_every_seat_costs_real_stake(world, accounts):
    """Dust is refused, and the list that every loop reads stays bounded."""
    crowd = accounts[12 : 12 + world.stakes.MAX_OPERATORS() - len(world.validators) + 1]
    for person in crowd:
        world.token.transfer(person, 2 * HYDRA, {"from": world.treasury})
        world.token.approve(world.stakes, UNLIMITED, {"from": person})
    for person in crowd[:-1]:
        world.stakes.stake(VALIDATOR, HYDRA, {"from": person})
    with reverts("SeatsTaken: 0, 64"):
        world.stakes.stake(VALIDATOR, HYDRA, {"from": crowd[-1]})
    world.stakes.requestWithdraw(VALIDATOR, HYDRA, {"from": crowd[0]})
    world.stakes.stake(VALIDATOR, HYDRA, {"from": crowd[-1]})
    assert len(world.stakes.operators(VALIDATOR)) == 64


# --- changing the rules ---


def test_terms_cannot_be_changed_after_the_work(world):
    job_id = world.open_training()
    world.join(job_id, world.trainers[0])
    with reverts(f"NotOpenTraining: {job_id}"):
        world.training.openTraining(job_id, (0, 0, 0, 0, 1, 1, 1), {"from": world.sponsor})
    campaign = world.open_campaign()
    with reverts(f"NotOpenCampaign: {campaign}"):
        world.submissions.openCampaign(campaign, world.terms.wire(), {"from": world.sponsor})


def test_a_sponsor_cannot_take_the_money_while_data_is_scored(world):
    job_id, _ = world.scored_campaign()
    with reverts(revert_pattern="NotRefundable: .*"):
        world.escrow.refund(job_id, {"from": world.sponsor})
    wait_until(world.escrow.job(job_id)[3])
    with reverts(f"NothingToRefund: {job_id}"):
        world.escrow.refund(job_id, {"from": world.sponsor})


# --- hostile tokens ---


def test_a_token_with_a_transfer_fee_is_refused_everywhere(accounts, tmp_path):
    token, world = hostile_world(accounts, tmp_path, FeeToken)
    for spender in (world.stakes, world.escrow):
        token.approve(spender, UNLIMITED, {"from": accounts[0]})
    with reverts(revert_pattern="InexactTransfer: .*"):
        world.stakes.stake(VALIDATOR, 100 * HYDRA, {"from": accounts[0]})
    with reverts(revert_pattern="InexactTransfer: .*"):
        world.escrow.open(TRAINING, bytes(32), CID, HYDRA, now() + 99, {"from": accounts[0]})


def reentering_world(accounts, tmp_path):
    """A token that calls its observer during transfers, and the attacker's account, which holds tokens."""
    token, world = hostile_world(accounts, tmp_path, CallbackToken)
    attacker = Reenterer.deploy({"from": accounts[0]})
    token.transfer(attacker, 1_000 * HYDRA, {"from": accounts[0]})
    for spender in (world.stakes, world.escrow, world.submissions):
        attacker.run(token, token.approve.encode_input(spender, UNLIMITED))
    return token, world, attacker


def reenter(token, attacker, target, data):
    """Make `data` the call that happens when tokens move next."""
    attacker.arm(target, data)
    token.observe(attacker)


def test_withdraw_reentered_pays_once(accounts, tmp_path):
    token, world, attacker = reentering_world(accounts, tmp_path)
    token.transfer(world.stakes, 500 * HYDRA, {"from": accounts[0]})  # somebody else's stake, to be stolen
    attacker.run(world.stakes, world.stakes.stake.encode_input(VALIDATOR, 100 * HYDRA))
    attacker.run(world.stakes, world.stakes.requestWithdraw.encode_input(VALIDATOR, 100 * HYDRA))
    wait(THAW)
    again = world.stakes.withdraw.encode_input(VALIDATOR)
    reenter(token, attacker, world.stakes, again)
    attacker.run(world.stakes, again)
    assert attacker.attempted() and not attacker.succeeded()
    assert token.balanceOf(attacker) == 1_000 * HYDRA


def test_stake_reentered_is_refused(accounts, tmp_path):
    token, world, attacker = reentering_world(accounts, tmp_path)
    inner = world.stakes.stake.encode_input(TRAINER, 100 * HYDRA)
    reenter(token, attacker, world.stakes, inner)
    with reverts(revert_pattern="InexactTransfer: .*"):
        attacker.run(world.stakes, world.stakes.stake.encode_input(VALIDATOR, 100 * HYDRA))


def test_refund_reentered_pays_once(accounts, tmp_path):
    token, world, attacker = reentering_world(accounts, tmp_path)
    token.transfer(world.escrow, 500 * HYDRA, {"from": accounts[0]})  # somebody else's deposit, to be stolen
    exit_time = now() + 100
    attacker.run(world.escrow, world.escrow.open.encode_input(TRAINING, bytes(32), CID, 100 * HYDRA, exit_time))
    wait_until(exit_time)
    again = world.escrow.refund.encode_input(1)
    reenter(token, attacker, world.escrow, again)
    attacker.run(world.escrow, again)
    assert attacker.attempted() and not attacker.succeeded()
    assert token.balanceOf(attacker) == 1_000 * HYDRA


def test_claim_reentered_pays_once(accounts, tmp_path):
    token, world, attacker = reentering_world(accounts, tmp_path)
    world.supply(world.sponsor, *world.validators, amount=2_000 * HYDRA)
    world.stake_all(VALIDATOR, world.validators)
    job_id = world.open_training()
    tree = Tree(job_id, {attacker.address: 100 * HYDRA})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, tree.root, tree.total)
    wait(ACTIVATION)
    again = world.rewards.claim.encode_input(job_id, attacker, 100 * HYDRA, tree.EVIDENCE, [])
    reenter(token, attacker, world.rewards, again)
    attacker.run(world.rewards, again)
    assert attacker.attempted() and not attacker.succeeded()
    assert token.balanceOf(attacker) == 1_100 * HYDRA


def test_reveal_and_revoke_reentered_return_the_bond_once(accounts, tmp_path):
    token, world, attacker = reentering_world(accounts, tmp_path)
    world.supply(world.sponsor, amount=2_000 * HYDRA)
    token.transfer(world.submissions, 500 * HYDRA, {"from": accounts[0]})  # other people's bonds, to be stolen
    job_id = world.open_campaign()
    commitment = world.submissions.commitmentOf(job_id, attacker, *Submission().wire())
    for _ in range(2):
        attacker.run(world.submissions, world.submissions.commit.encode_input(job_id, commitment))
    revealed, revoked = world.submissions.submissionsOf(job_id)
    again = world.submissions.revoke.encode_input(revoked)
    reenter(token, attacker, world.submissions, again)
    attacker.run(world.submissions, again)
    assert attacker.attempted() and not attacker.succeeded()
    world.to_reveals(job_id)
    again = world.submissions.reveal.encode_input(revealed, *Submission().wire())
    reenter(token, attacker, world.submissions, again)
    attacker.run(world.submissions, again)
    assert attacker.attempted() and not attacker.succeeded()
    assert token.balanceOf(attacker) == 1_000 * HYDRA
