"""The guardian closes the entry, and nothing else."""

import pytest
from brownie import reverts
from merkle import Tree
from world import ACTIVATION, CID, HYDRA, THAW, TRAINER, TRAINING, VALIDATOR, Verdict, now, wait, wait_until


@pytest.fixture
def guarded(world):
    return (world.stakes, world.escrow, world.training)


def test_entry_is_closed_and_opened_again(world, guarded):
    campaign, training = world.open_campaign(), world.open_training()
    person = world.trainers[0]
    world.training.bindPeer(b"\x01" * 32, b"\x99" * 64, {"from": person})
    entries = (
        lambda: world.stakes.stake(TRAINER, HYDRA, {"from": person}),
        lambda: world.escrow.open(TRAINING, bytes(32), CID, HYDRA, now() + 99, {"from": world.sponsor}),
        lambda: world.submissions.commit(campaign, b"\x01" * 32, {"from": person}),
        lambda: world.training.join(training, {"from": person}),
    )
    for contract in guarded:
        contract.pause({"from": world.treasury})
    world.submissions.setPaused(campaign, True, {"from": world.treasury})
    for enter in entries:
        with reverts(revert_pattern="EnforcedPause: |CampaignPaused: .*"):
            enter()
    for contract in guarded:
        contract.unpause({"from": world.treasury})
    world.submissions.setPaused(campaign, False, {"from": world.treasury})
    for enter in entries:
        enter()


def test_only_the_guardian_pauses(world, guarded):
    for contract in guarded:
        with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
            contract.pause({"from": world.stranger})
        with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
            contract.unpause({"from": world.stranger})
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        world.submissions.setPaused(1, True, {"from": world.stranger})


def test_everything_that_runs_ends_and_pays_while_paused(world, guarded):
    """Reveals, scoring, claims, refunds and withdrawals never look at the pause."""
    person = world.contributors[0]
    job_id = world.open_campaign()
    submission_id = world.commit(job_id, person)
    for contract in guarded:
        contract.pause({"from": world.treasury})
    world.submissions.setPaused(job_id, True, {"from": world.treasury})
    world.to_reveals(job_id)
    world.reveal(submission_id, person)
    world.to_scoring(job_id)
    tree = Tree(job_id, {person: 100 * HYDRA})
    world.settle(world.open_round(job_id), Verdict(tree.root, tree.total))
    wait(ACTIVATION)
    world.quality.finish(job_id)
    world.rewards.claim(job_id, person, tree.total, tree.EVIDENCE, tree.proof(person))
    world.escrow.refund(job_id)
    runaway = world.validators[0]
    world.stakes.requestWithdraw(VALIDATOR, 100 * HYDRA, {"from": runaway})
    wait(THAW)
    wait_until(world.stakes.lockedUntil(VALIDATOR, runaway))
    world.stakes.withdraw(VALIDATOR, {"from": runaway})
