"""The story of docs/architecture.md on the chain alone, with its cheats, until the books balance."""

from brownie import reverts
from merkle import Tree
from world import (
    ACTIVATION,
    CHALLENGE,
    CID,
    HYDRA,
    REFUNDED,
    REVEALED,
    SETTLED,
    TALLIED,
    TRAINER,
    TRAINING,
    VALIDATOR,
    Submission,
    Verdict,
    now,
    wait,
    wait_until,
)


def test_campaign_with_a_validator_that_copies(world):
    honest, silent = world.contributors[0], world.contributors[1]
    one, two, copier = world.validators
    before = {person: world.token.balanceOf(person) for person in (honest, silent, one, two, copier, world.sponsor)}
    supply = world.token.totalSupply()

    job_id = world.open_campaign()
    revealed = world.commit(job_id, honest)
    kept_secret = world.commit(job_id, silent, Submission(salt=b"\x01" * 32))
    world.to_reveals(job_id)
    world.reveal(revealed, honest)
    assert world.submissions.submission(revealed)[2] == REVEALED
    world.to_scoring(job_id)
    world.submissions.forfeit(kept_secret, {"from": world.stranger})

    round_id = world.open_round(job_id)
    tree = Tree(job_id, {honest: 300 * HYDRA, silent: 0})
    verdict = Verdict(tree.root, tree.total)
    world.vote(round_id, one, verdict)
    copied = world.quality.ballot(round_id, one)[0]
    world.quality.commit(round_id, copied, {"from": copier})
    world.vote(round_id, two, verdict)
    world.show(round_id, one, verdict)
    world.show(round_id, two, verdict)
    with reverts(revert_pattern="CommitmentMismatch: .*"):
        world.show(round_id, copier, verdict)
    with reverts(revert_pattern="RevealsOpen: .*"):
        world.quality.tally(round_id, {"from": one})
    wait_until(world.quality.round(round_id)[3])
    tx = world.quality.tally(round_id, {"from": world.stranger})

    assert tx.events["Tallied"]["backing"] == 200 * HYDRA  # exactly two thirds
    assert world.quality.round(round_id)[1] == TALLIED
    assert world.stakes.stakeOf(VALIDATOR, copier) == 60 * HYDRA
    with reverts(revert_pattern="NoActiveRoot: .*"):
        world.rewards.claim(job_id, honest, 300 * HYDRA, tree.EVIDENCE, tree.proof(honest), {"from": honest})
    wait(ACTIVATION)
    world.rewards.claim(job_id, honest, 300 * HYDRA, tree.EVIDENCE, tree.proof(honest), {"from": world.stranger})
    world.quality.finish(job_id, {"from": world.stranger})
    world.escrow.refund(job_id, {"from": world.stranger})

    gained = {person: world.token.balanceOf(person) - amount for person, amount in before.items()}
    assert gained == {
        honest: 300 * HYDRA,
        silent: -2 * HYDRA,
        one: 5 * HYDRA,
        two: 5 * HYDRA,
        copier: 0,
        world.sponsor: (-300 - 10 + 2) * HYDRA,
    }
    assert world.token.totalSupply() == supply - 40 * HYDRA  # the slashed stake is burned
    assert world.escrow.job(job_id)[2] == SETTLED
    assert world.escrow.job(job_id)[6] == 0
    world.check_books(job_id)


def test_training_with_a_cheat(world):
    good, slow, cheat = world.trainers
    job_id = world.open_training()
    for trainer in world.trainers:
        world.join(job_id, trainer)
    assert world.training.trainers(job_id) == [good, slow, cheat]
    for place, trainer in enumerate(world.trainers):
        world.training.postRecord(job_id, 0, 19, bytes([place]) * 32, CID, {"from": trainer})

    first = Tree(job_id, {good: 60 * HYDRA, slow: 20 * HYDRA})
    world.attest(world.validators[0], job_id, 0, first.root, first.total, cheats=[cheat])
    assert world.training.settledRounds(job_id) == 0
    tx = world.attest(world.validators[1], job_id, 0, first.root, first.total, cheats=[cheat])
    assert tx.events["TrainerBanned"]["slashed"] == 30 * HYDRA
    assert world.stakes.stakeOf(TRAINER, cheat) == 70 * HYDRA
    assert world.training.isBanned(job_id, cheat)
    with reverts(revert_pattern="NotTrainer: .*"):
        world.training.postRecord(job_id, 20, 39, b"\x09" * 32, CID, {"from": cheat})

    wait(ACTIVATION)
    world.rewards.claim(job_id, good, 60 * HYDRA, first.EVIDENCE, first.proof(good), {"from": good})
    second = Tree(job_id, {good: 100 * HYDRA, slow: 50 * HYDRA, world.validators[0]: 2 * HYDRA})
    for validator in world.validators[1:]:
        world.attest(validator, job_id, 1, second.root, second.total, last=True)
    job = world.escrow.job(job_id)
    assert job[2] == CHALLENGE
    assert job[6] == second.total - 60 * HYDRA  # reserved = total - paid

    wait(ACTIVATION)
    world.training.finish(job_id, {"from": world.stranger})
    world.escrow.refund(job_id, {"from": world.stranger})
    for account, amount in second.rewards.items():
        world.rewards.claim(job_id, account, amount, second.EVIDENCE, second.proof(account), {"from": account})
    job = world.escrow.job(job_id)
    assert (job[6], job[7], job[8]) == (0, second.total, 1_000 * HYDRA - second.total)
    world.check_books(job_id)


def test_refund_when_nothing_happens(world):
    job_id = world.open_job(TRAINING, lifetime=500)
    with reverts(revert_pattern="NotRefundable: .*"):
        world.escrow.refund(job_id, {"from": world.sponsor})
    wait_until(now() + 501)
    before = world.token.balanceOf(world.sponsor)
    world.escrow.refund(job_id, {"from": world.stranger})
    assert world.token.balanceOf(world.sponsor) == before + 1_000 * HYDRA
    assert world.escrow.job(job_id)[2] == REFUNDED
