"""RewardsDistributor: everybody gets what the active root says, once, and never more than it adds up to."""

import pytest
from brownie import JobEscrow, RewardsDistributor, reverts
from merkle import Tree
from world import ACTIVATION, CID, HYDRA, TRAINING, UNLIMITED, now, wait

JOB = 1


@pytest.fixture
def escrow(world, accounts):
    """One job of 100 HYDRA, 90 of it reserved; account 0 controls."""
    escrow = JobEscrow.deploy(world.token, accounts[0], accounts[0], {"from": accounts[0]})
    escrow.grantRole(escrow.CONTROLLER_ROLE(), accounts[0], {"from": accounts[0]})
    world.token.approve(escrow, UNLIMITED, {"from": world.sponsor})
    escrow.open(TRAINING, b"\x01" * 32, CID, 100 * HYDRA, now() + 9_999, {"from": world.sponsor})
    escrow.reserve(JOB, 90 * HYDRA, {"from": accounts[0]})
    return escrow


@pytest.fixture
def rewards(escrow, accounts):
    rewards = RewardsDistributor.deploy(escrow, accounts[0], ACTIVATION, {"from": accounts[0]})
    rewards.grantRole(rewards.PUBLISHER_ROLE(), accounts[0], {"from": accounts[0]})
    escrow.grantRole(escrow.PAYER_ROLE(), rewards, {"from": accounts[0]})
    return rewards


@pytest.fixture
def people(accounts):
    return accounts[20:25]


def publish(rewards, tree, total=None):
    return rewards.publish(JOB, tree.root, tree.total if total is None else total)


def claim(rewards, tree, person, sender=None):
    proof = tree.proof(person)
    amount = tree.rewards[str(person)]
    return rewards.claim(JOB, person, amount, tree.EVIDENCE, proof, {"from": sender or person})


def test_everybody_is_paid_whoever_sends(world, rewards, people):
    tree = Tree(JOB, {person: (place + 1) * HYDRA for place, person in enumerate(people)})
    publish(rewards, tree)
    wait(ACTIVATION)
    for place, person in enumerate(people):
        tx = claim(rewards, tree, person, sender=world.stranger)
        assert tx.events["Claimed"]["amount"] == world.token.balanceOf(person) == (place + 1) * HYDRA
        assert rewards.claimed(JOB, person) == (place + 1) * HYDRA
    assert rewards.claimedTotal(JOB) == tree.total


def test_a_tree_of_one_needs_no_proof(world, rewards, people):
    tree = Tree(JOB, {people[0]: HYDRA})
    publish(rewards, tree)
    wait(ACTIVATION)
    assert tree.proof(people[0]) == []
    claim(rewards, tree, people[0])


def test_one_claim_covers_all_rounds(world, rewards, people):
    one, two = people[:2]
    for amount in (1, 3, 7):
        publish(rewards, tree := Tree(JOB, {one: amount * HYDRA, two: HYDRA}))
        wait(ACTIVATION)
    claim(rewards, tree, one)
    assert world.token.balanceOf(one) == 7 * HYDRA
    with reverts(revert_pattern="NothingToClaim: .*"):
        claim(rewards, tree, one)


def test_an_older_leaf_pays_nothing_twice(world, rewards, people):
    one, two = people[:2]
    first, second = Tree(JOB, {one: HYDRA, two: HYDRA}), Tree(JOB, {one: 2 * HYDRA, two: HYDRA})
    publish(rewards, first)
    wait(ACTIVATION)
    claim(rewards, first, one)
    publish(rewards, second)
    wait(ACTIVATION)
    with reverts(revert_pattern="InvalidProof: .*"):
        claim(rewards, first, one)
    claim(rewards, second, one)
    assert world.token.balanceOf(one) == 2 * HYDRA


def test_the_older_root_pays_until_the_newer_is_active(world, rewards, people):
    one, two = people[:2]
    first, second = Tree(JOB, {one: HYDRA, two: HYDRA}), Tree(JOB, {one: 2 * HYDRA, two: HYDRA})
    publish(rewards, first)
    with reverts(revert_pattern="NoActiveRoot: .*"):
        claim(rewards, first, one)
    wait(ACTIVATION)
    publish(rewards, second)
    with reverts(revert_pattern="InvalidProof: .*"):
        claim(rewards, second, one)
    claim(rewards, first, one)
    wait(ACTIVATION)
    claim(rewards, second, one)
    assert world.token.balanceOf(one) == 2 * HYDRA


@pytest.mark.parametrize("change", ["job", "account", "amount", "evidence", "proof"])
def test_every_value_of_a_leaf_is_bound(rewards, people, change):
    one, two = people[:2]
    tree = Tree(JOB, {one: HYDRA, two: HYDRA})
    publish(rewards, tree)
    wait(ACTIVATION)
    arguments = {
        "job": JOB,
        "account": one,
        "amount": HYDRA,
        "evidence": tree.EVIDENCE,
        "proof": tree.proof(one),
    }
    wrong = {"job": 2, "account": people[2], "amount": 2 * HYDRA, "evidence": b"\x01" * 32, "proof": []}
    arguments[change] = wrong[change]
    error = "NoActiveRoot: .*" if change == "job" else "InvalidProof: .*"
    with reverts(revert_pattern=error):
        rewards.claim(*arguments.values(), {"from": one})


def test_a_root_that_lies_about_its_total_pays_no_more(world, rewards, people):
    one, two = people[:2]
    tree = Tree(JOB, {one: 50 * HYDRA, two: 50 * HYDRA})
    publish(rewards, tree, total=60 * HYDRA)
    wait(ACTIVATION)
    claim(rewards, tree, one)
    with reverts(f"ExceedsTotal: {JOB}, {100 * HYDRA}, {60 * HYDRA}"):
        claim(rewards, tree, two)
    assert world.token.balanceOf(two) == 0


def test_a_total_must_be_covered_and_never_fall(rewards, people):
    tree = Tree(JOB, {people[0]: 90 * HYDRA})
    with reverts(f"NotCovered: {JOB}, {91 * HYDRA}, {90 * HYDRA}"):
        publish(rewards, tree, total=91 * HYDRA)
    publish(rewards, tree)
    with reverts(f"TotalFell: {JOB}, {90 * HYDRA}, {89 * HYDRA}"):
        publish(rewards, tree, total=89 * HYDRA)
    wait(ACTIVATION)
    claim(rewards, tree, people[0])
    with reverts(f"NotCovered: {JOB}, {HYDRA}, 0"):
        publish(rewards, tree, total=91 * HYDRA)


def test_only_publishers_publish(world, rewards, people):
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        rewards.publish(JOB, b"\x01" * 32, 1, {"from": world.stranger})
