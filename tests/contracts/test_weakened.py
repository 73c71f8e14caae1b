"""The same attack twice: on a copy without the check that answers it, where it works, and on ours, where it fails."""

import pytest
from brownie import (
    CallbackToken,
    FeeToken,
    Reenterer,
    WeakActivation,
    WeakBond,
    WeakCampaign,
    WeakCommitments,
    WeakDeposit,
    WeakDraw,
    WeakEscrow,
    WeakFinish,
    WeakRate,
    WeakRelay,
    WeakRewards,
    WeakSeats,
    WeakSettlement,
    WeakStakes,
    WeakTally,
    accounts,
    chain,
    reverts,
)
from eth_abi import encode
from eth_account import Account
from eth_utils import keccak
from merkle import Tree
from test_attacks import hostile_world, reenter, reentering_world
from test_relay import relay, sign
from world import (
    ACTIVATION,
    CID,
    HYDRA,
    SETTLED,
    TALLIED,
    THAW,
    TRAINING,
    VALIDATOR,
    TrainingTerms,
    Verdict,
    now,
    wait,
    wait_until,
)


@pytest.fixture
def deployer(world):
    return {"from": world.treasury}


def test_copied_commitment(world, deployer):
    one, copier = world.validators[:2]
    weak = WeakCommitments.deploy(deployer)
    root, salt = b"\x01" * 32, b"\x02" * 32
    weak.commit(keccak(root + salt), {"from": one})
    weak.commit(weak.commitmentOf(one), {"from": copier})
    weak.reveal(root, salt, {"from": copier})
    assert weak.rootOf(copier) == "0x" + root.hex()

    _, round_id = world.scored_campaign()
    world.vote(round_id, one, Verdict())
    world.quality.commit(round_id, world.quality.ballot(round_id, one)[0], {"from": copier})
    wait_until(world.quality.round(round_id)[2])
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.show(round_id, copier, Verdict())


def test_drawing_from_a_forgotten_hash(world, deployer):
    """Wait until the hash is forgotten, and anybody knows whom zero draws."""
    names = [str(person) for person in accounts[20:30]]
    weak = WeakDraw.deploy(names, deployer)
    chain.mine(260)
    seed = keccak(bytes(32))
    known = int.from_bytes(keccak(encode(["bytes32", "uint256"], [seed, 0])), "big") % len(names)
    assert weak.draw(1) == [names[known]]

    job_id = world.submitted_campaign()
    world.quality.openRound(job_id)
    chain.mine(260)
    tx = world.quality.openRound(job_id)
    assert "RoundOpened" not in tx.events and tx.events["DrawFixed"]["blockNumber"] > tx.block_number


def test_unbonding_before_the_slash(world, deployer):
    runaway = world.validators[0]
    weak = WeakStakes.deploy(world.token, deployer)
    world.token.approve(weak, 100 * HYDRA, {"from": runaway})
    before = world.token.balanceOf(runaway)
    weak.stake(100 * HYDRA, {"from": runaway})
    weak.requestWithdraw(100 * HYDRA, {"from": runaway})
    weak.slash(runaway, 40 * HYDRA, deployer)
    weak.withdraw({"from": runaway})
    assert world.token.balanceOf(runaway) == before

    _, round_id = world.scored_campaign()
    world.stakes.requestWithdraw(VALIDATOR, 100 * HYDRA, {"from": runaway})
    wait_until(world.quality.round(round_id)[3])
    world.quality.tally(round_id)
    wait(THAW)
    assert world.stakes.withdraw(VALIDATOR, {"from": runaway}).events["Withdrawn"]["amount"] == 60 * HYDRA


def test_claiming_twice(world, deployer):
    thief, victim = accounts[20], accounts[21]
    tree = Tree(1, {thief: HYDRA, victim: HYDRA})
    weak = WeakRewards.deploy(world.token, tree.root, deployer)
    world.token.transfer(weak, 2 * HYDRA, deployer)
    for _ in range(2):
        weak.claim(1, thief, HYDRA, tree.EVIDENCE, tree.proof(thief), {"from": thief})
    assert world.token.balanceOf(thief) == 2 * HYDRA

    job_id = world.open_training()
    tree = Tree(job_id, {thief: HYDRA, victim: HYDRA})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, tree.root, tree.total)
    wait(ACTIVATION)
    claim = (job_id, thief, HYDRA, tree.EVIDENCE, tree.proof(thief))
    world.rewards.claim(*claim, {"from": thief})
    with reverts(revert_pattern="NothingToClaim: .*"):
        world.rewards.claim(*claim, {"from": thief})


def test_refund_reentered(accounts, tmp_path):
    token = CallbackToken.deploy(accounts[0], 1_000 * HYDRA, {"from": accounts[0]})
    attacker = Reenterer.deploy({"from": accounts[0]})
    weak = WeakEscrow.deploy(token, {"from": accounts[0]})
    token.transfer(weak, 500 * HYDRA, {"from": accounts[0]})  # somebody else's deposit
    token.transfer(attacker, 100 * HYDRA, {"from": accounts[0]})
    attacker.run(token, token.approve.encode_input(weak, 100 * HYDRA))
    attacker.run(weak, weak.open.encode_input(100 * HYDRA))
    reenter(token, attacker, weak, weak.refund.encode_input())
    attacker.run(weak, weak.refund.encode_input())
    assert attacker.succeeded() and token.balanceOf(attacker) == 200 * HYDRA

    token, world, attacker = reentering_world(accounts, tmp_path)
    token.transfer(world.escrow, 500 * HYDRA, {"from": accounts[0]})
    exit_time = now() + 100
    attacker.run(world.escrow, world.escrow.open.encode_input(TRAINING, bytes(32), CID, 100 * HYDRA, exit_time))
    wait_until(exit_time)
    again = world.escrow.refund.encode_input(1)
    reenter(token, attacker, world.escrow, again)
    attacker.run(world.escrow, again)
    assert not attacker.succeeded() and token.balanceOf(attacker) == 1_000 * HYDRA


def test_relaying_twice(world, deployer):
    contributor = Account.from_key(b"\x07" * 32)
    weak = WeakRelay.deploy(deployer)
    message = keccak(encode(["address", "address", "bytes32"], [weak.address, contributor.address, b"\x01" * 32]))
    signature = contributor.unsafe_sign_hash(message).signature
    for _ in range(2):
        weak.commitFor(contributor.address, b"\x01" * 32, signature, {"from": world.stranger})
    assert weak.count() == 2

    job_id = world.open_campaign(bond=0)
    signed = sign(world, contributor, job_id, fee=0)
    relay(world, signed)
    with reverts(revert_pattern="BadSignature: .*"):
        relay(world, signed)


def test_a_false_result_is_claimed_before_anyone_can_object(world, deployer):
    """Two of three validators collude. Where roots are active at once, they have the money in the same minute."""
    thief = accounts[20]
    weak = WeakActivation.deploy(world.token, deployer)
    world.token.transfer(weak, 500 * HYDRA, deployer)
    tree = Tree(1, {thief: 500 * HYDRA})
    weak.publish(tree.root, deployer)
    weak.claim(1, thief, tree.total, tree.EVIDENCE, [])
    assert world.token.balanceOf(thief) == 500 * HYDRA

    job_id, round_id = world.scored_campaign()
    tree = Tree(job_id, {thief: 500 * HYDRA})
    world.settle(round_id, Verdict(tree.root, tree.total))
    with reverts(revert_pattern="NoActiveRoot: .*"):
        world.rewards.claim(job_id, thief, tree.total, tree.EVIDENCE, [])
    world.disputes.challenge(job_id, tree.root, CID, {"from": world.stranger})
    wait(100 * ACTIVATION)
    with reverts(revert_pattern="NoActiveRoot: .*"):
        world.rewards.claim(job_id, thief, tree.total, tree.EVIDENCE, [])
    assert world.token.balanceOf(thief) == 500 * HYDRA


def test_submitting_first_what_another_shows(world, deployer):
    """A thief sees a CID on its way, and is there first."""
    owner, thief = world.contributors[:2]
    weak = WeakCampaign.deploy(deployer)
    weak.submit(CID, {"from": thief})
    with reverts("submitted already"):
        weak.submit(CID, {"from": owner})

    job_id = world.open_campaign()
    submission_id = world.commit(job_id, owner)
    world.to_reveals(job_id)
    # What the owner shows now comes too late to be committed to.
    with reverts(revert_pattern="CommitClosed: .*"):
        world.commit(job_id, thief)
    world.reveal(submission_id, owner)
    assert world.submissions.submission(submission_id)[1] == owner


def test_committing_and_keeping_quiet(world, deployer):
    lurker = world.contributors[0]
    weak = WeakBond.deploy(world.token, deployer)
    world.token.approve(weak, 2 * HYDRA, {"from": lurker})
    before = world.token.balanceOf(lurker)
    weak.commit(2 * HYDRA, {"from": lurker})
    weak.takeBack({"from": lurker})
    assert world.token.balanceOf(lurker) == before

    job_id = world.open_campaign()
    submission_id = world.commit(job_id, lurker)
    world.to_scoring(job_id)
    world.submissions.forfeit(submission_id, {"from": world.stranger})
    assert world.token.balanceOf(lurker) == before - world.terms.bond


def test_holding_the_last_reveal_back(world, deployer):
    """Two thirds agree; the third dislikes it, and its reveal is missing."""
    weak = WeakTally.deploy(3, deployer)
    for validator in world.validators[:2]:
        weak.reveal({"from": validator})
    wait(10**6)
    with reverts("reveals are missing"):
        weak.tally()

    _, round_id = world.scored_campaign()
    for validator in world.validators:
        world.vote(round_id, validator, Verdict())
    for validator in world.validators[:2]:
        world.show(round_id, validator, Verdict())
    wait_until(world.quality.round(round_id)[3])
    world.quality.tally(round_id, {"from": world.stranger})
    assert world.quality.round(round_id)[1] == TALLIED
    assert world.stakes.stakeOf(VALIDATOR, world.validators[2]) == 100 * HYDRA - world.terms.validator_penalty


def test_nobody_finishes(world):
    """The sponsor has its result, and goes."""
    weak = WeakFinish.deploy({"from": world.sponsor})
    wait(10**6)
    with reverts("not the sponsor"):
        weak.finish({"from": world.stranger})

    job_id, round_id = world.scored_campaign()
    world.settle(round_id, Verdict())
    wait(ACTIVATION)
    world.quality.finish(job_id, {"from": world.stranger})
    assert world.escrow.job(job_id)[2] == SETTLED


def test_spam_that_makes_the_settlement_too_dear(world, deployer):
    """Submissions for nothing, and a loop over them: the settlement's cost is the spammer's to choose."""
    spammer = world.contributors[0]
    weak = WeakSettlement.deploy(deployer)
    costs = []
    for _ in range(2):
        for _ in range(10):
            weak.submit({"from": spammer})
        costs.append(weak.settle(deployer).gas_used)
    assert costs[1] > costs[0] + 10_000

    def tally_after(count):
        job_id = world.open_campaign()
        for _ in range(count):
            world.commit(job_id, spammer)
        submission_id = world.commit(job_id, world.contributors[1])
        world.to_reveals(job_id)
        world.reveal(submission_id, world.contributors[1])
        world.to_scoring(job_id)
        tx = world.settle(world.open_round(job_id), Verdict())
        wait(ACTIVATION)
        return tx.gas_used

    before = world.token.balanceOf(spammer)
    tally_after(0)  # the first ever pays for storage that later ones find
    few, many = tally_after(1), tally_after(12)
    assert abs(many - few) < 1_000
    assert world.token.balanceOf(spammer) == before - 13 * world.terms.bond


def test_a_token_that_keeps_a_fee(accounts, tmp_path):
    token = FeeToken.deploy(accounts[0], 1_000 * HYDRA, {"from": accounts[0]})
    weak = WeakDeposit.deploy(token, {"from": accounts[0]})
    token.approve(weak, 100 * HYDRA, {"from": accounts[0]})
    weak.deposit(100 * HYDRA, {"from": accounts[0]})
    assert token.balanceOf(weak) < weak.deposited(accounts[0])

    token, world = hostile_world(accounts, tmp_path, FeeToken)
    token.approve(world.stakes, 100 * HYDRA, {"from": accounts[0]})
    with reverts(revert_pattern="InexactTransfer: .*"):
        world.stakes.stake(VALIDATOR, 100 * HYDRA, {"from": accounts[0]})


def test_dust_takes_every_seat(world, deployer):
    weak = WeakSeats.deploy(deployer)
    for person in accounts[10:74]:
        weak.stake(1, {"from": person})
    with reverts("seats taken"):
        weak.stake(10**6 * HYDRA, {"from": world.validators[0]})

    with reverts(revert_pattern="BelowMinimumStake: .*"):
        world.stakes.stake(VALIDATOR, 1, {"from": world.stranger})


def test_a_stake_that_is_split_votes_no_more_often(world, deployer):
    """One stake of 90 under three names, against two honest ones of 100."""
    names, honest = accounts[20:23], world.validators[:2]
    weak = WeakSeats.deploy(deployer)
    for person, amount in [*((name, 30) for name in names), *((one, 100) for one in honest)]:
        weak.stake(amount, {"from": person})
    for person in names:
        weak.vote(b"\x01" * 32, {"from": person})
    for person in honest:
        weak.vote(b"\x02" * 32, {"from": person})
    assert weak.votes(b"\x01" * 32) > weak.votes(b"\x02" * 32)

    world.stakes.requestWithdraw(VALIDATOR, 100 * HYDRA, {"from": world.validators[2]})
    world.supply(*names)
    for person in names:
        world.stakes.stake(VALIDATOR, 30 * HYDRA, {"from": person})
    _, round_id = world.scored_campaign()
    false, true = Verdict(), Verdict(root=b"\x02" * 32)
    members = [*((name, false) for name in names), *((one, true) for one in honest)]
    for person, verdict in members:
        world.vote(round_id, person, verdict)
    for person, verdict in members:
        world.show(round_id, person, verdict)
    world.quality.tally(round_id)
    assert world.quality.round(round_id)[5] == "0x" + "02" * 32


def test_a_rate_that_changes_after_the_work(world):
    trainer = world.trainers[0]
    weak = WeakRate.deploy({"from": world.sponsor})
    weak.setRate(HYDRA, {"from": world.sponsor})
    weak.work(100, {"from": trainer})
    weak.setRate(0, {"from": world.sponsor})
    assert weak.owed(trainer) == 0

    job_id = world.open_training()
    world.join(job_id, trainer)
    with reverts(revert_pattern="NotOpenTraining: .*"):
        world.training.openTraining(job_id, TrainingTerms(rate_per_sample=0).wire(), {"from": world.sponsor})


def test_a_vote_replayed_in_another_round(world, deployer):
    """A commitment that names no round counts in each: what a validator once said is said for it again."""
    one = world.validators[0]
    weak = WeakCommitments.deploy(deployer)
    for _round in range(2):
        weak.commit(keccak(b"\x01" * 32 + b"\x02" * 32), {"from": one})
        weak.reveal(b"\x01" * 32, b"\x02" * 32, {"from": one})
    assert weak.rootOf(one) == "0x" + "01" * 32

    _, first = world.scored_campaign()
    _, second = world.scored_campaign()
    said = world.quality.commitmentOf(first, one, *Verdict().wire())
    world.quality.commit(second, said, {"from": one})
    wait_until(world.quality.round(second)[2])
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.show(second, one, Verdict())
