"""The same attack twice: on a copy without the check that answers it, where it works, and on ours, where it fails."""

import pytest
from brownie import (
    CallbackToken,
    Reenterer,
    WeakCommitments,
    WeakDraw,
    WeakEscrow,
    WeakRelay,
    WeakRewards,
    WeakStakes,
    accounts,
    chain,
    reverts,
    web3,
)
from eth_abi import encode
from eth_account import Account
from eth_utils import keccak
from merkle import Tree
from test_attacks import reenter, reentering_world
from test_relay import relay, sign
from world import ACTIVATION, CID, HYDRA, THAW, TRAINING, VALIDATOR, Verdict, wait, wait_until


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
    assert world.stakes.withdraw(VALIDATOR, {"from": runaway}).return_value == 60 * HYDRA


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
    exit_time = chain.time() + 100
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

    def collude():
        job_id, round_id = world.scored_campaign()
        tree = Tree(job_id, {thief: 500 * HYDRA})
        world.settle(round_id, Verdict(tree.root, tree.total))
        return job_id, tree

    job_id, tree = collude()
    assert web3.eth.block_number  # the chain goes on; nobody objects in time
    wait(ACTIVATION)
    world.rewards.claim(job_id, thief, tree.total, tree.EVIDENCE, [])
    assert world.token.balanceOf(thief) == 500 * HYDRA

    job_id, tree = collude()
    world.disputes.challenge(job_id, tree.root, CID, {"from": world.stranger})
    wait(100 * ACTIVATION)
    with reverts(revert_pattern="NoActiveRoot: .*"):
        world.rewards.claim(job_id, thief, tree.total, tree.EVIDENCE, [])
