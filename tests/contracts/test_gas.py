"""What each action costs, against the design's ceilings and the tracked table.

`HYDRA_GAS_TABLE=write` in the environment writes the table anew instead of comparing.
"""

import os
import re
from pathlib import Path

import pytest
from brownie import chain, network
from merkle import Tree
from test_arbiter import propose, record
from world import ACTIVATION, CID, HYDRA, TAKEOVER_SECONDS, THAW, VALIDATOR, Submission, Verdict, wait

TABLE = Path(__file__).resolve().parent.parent.parent / "docs" / "gas.md"
GANACHE = "hydra-test"
CEILINGS = {
    "claim, first": 110_000,
    "claim, later": 72_000,
    "stake, first": 110_000,
    "stake, later": 60_000,
    "withdrawal, request": 75_000,
    "withdrawal": 55_000,
    "score, commit": 52_000,
    "score, reveal": 60_000,
    "submission without bond, commit": 75_000,
}
HEAD = """\
# Gas

Written by `make gas` (Ganache, rules of the merge, optimizer 200 runs, 21,000 of each transaction included); a test
compares. Claims prove a place among 32 accounts. A ceiling is the design's.

| action | gas | ceiling |
|---|---:|---:|
"""


def stake_and_withdraw(world, gas):
    person = world.stranger
    world.token.approve(world.stakes, 50 * HYDRA, {"from": person})
    gas["stake, first"] = world.stakes.stake(VALIDATOR, 10 * HYDRA, {"from": person})
    gas["stake, later"] = world.stakes.stake(VALIDATOR, 10 * HYDRA, {"from": person})
    gas["withdrawal, request"] = world.stakes.requestWithdraw(VALIDATOR, 5 * HYDRA, {"from": person})
    wait(THAW)
    gas["withdrawal"] = world.stakes.withdraw(VALIDATOR, {"from": person})
    world.stakes.requestWithdraw(VALIDATOR, 15 * HYDRA, {"from": person})


def submit(world, gas):
    """Returns a job whose reveals are closed."""
    job_id = world.open_campaign(bond=0)
    for person in world.contributors:
        commitment = world.submissions.commitmentOf(job_id, person, *Submission().wire())
        gas["submission without bond, commit"] = world.submissions.commit(job_id, commitment, {"from": person})
    world.to_reveals(job_id)
    for submission_id, person in zip(world.submissions.submissionsOf(job_id), world.contributors, strict=True):
        gas["submission without bond, reveal"] = world.reveal(submission_id, person)
    world.to_scoring(job_id)
    return job_id


def score(world, gas, job_id, tree):
    verdict = Verdict(tree.root, tree.total)
    gas["score, fix the draw"] = world.quality.openRound(job_id, {"from": world.stranger})
    chain.mine(2)
    gas["score, draw 3 members"] = tx = world.quality.openRound(job_id, {"from": world.stranger})
    round_id = tx.events["RoundOpened"]["roundId"]
    for validator in world.validators:
        commitment = world.quality.commitmentOf(round_id, validator, *verdict.wire())
        gas["score, commit"] = world.quality.commit(round_id, commitment, {"from": validator})
    for validator in world.validators:
        gas["score, reveal"] = world.show(round_id, validator, verdict)
    gas["score, tally of 3 members"] = world.quality.tally(round_id, {"from": world.stranger})


def train(world, gas, crowd):
    job_id = world.open_training()
    for trainer in world.trainers:
        world.join(job_id, trainer)
        gas["record"] = world.training.postRecord(job_id, 0, 19, b"\x01" * 32, CID, {"from": trainer})
    newcomer = crowd[0]
    for round_, label in enumerate(("claim, first", "claim, later")):
        rewards = dict.fromkeys(crowd[1:], HYDRA)
        tree = Tree(job_id, {newcomer: (round_ + 1) * HYDRA, **rewards, **filler(32 - len(crowd))})
        result = (job_id, round_, tree.root, tree.total)
        gas["attestation"] = world.attest(world.validators[0], *result)
        gas["attestation that settles a round"] = world.attest(world.validators[1], *result)
        wait(ACTIVATION)
        proof = tree.proof(newcomer)
        others = crowd[1]
        if round_ == 0:  # somebody else's claim has made the job's own counters nonzero
            world.rewards.claim(job_id, others, HYDRA, tree.EVIDENCE, tree.proof(others), {"from": others})
        amount = (round_ + 1) * HYDRA
        gas[label] = world.rewards.claim(job_id, newcomer, amount, tree.EVIDENCE, proof, {"from": newcomer})


def arbitrate(world, gas, swarm):
    job_id, keys = swarm
    gas["view of 5 members, 3 sign"] = record(world, job_id, 1, keys, [], [*keys[:3], None, None])
    gas["takeover by 2 of 5"] = propose(world, job_id, (0, 1), [3, 4], keys)
    wait(TAKEOVER_SECONDS)
    gas["takeover, completed"] = world.arbiter.completeTakeover(job_id, {"from": world.stranger})


def filler(count):
    """Accounts that nobody has, which make the tree tall."""
    return {f"0x{place + 2**152:040x}": 1 for place in range(count)}


def row(label, used):
    ceiling = f"{CEILINGS[label]:,}" if label in CEILINGS else ""
    return f"| {label} | {used:,} | {ceiling} |\n"


@pytest.fixture
def table(world, swarm, accounts):
    transactions = {}
    stake_and_withdraw(world, transactions)
    job_id = submit(world, transactions)
    score(world, transactions, job_id, Tree(job_id, {world.contributors[0]: HYDRA}))
    train(world, transactions, accounts[40:44])
    arbitrate(world, transactions, swarm)
    return {label: tx.gas_used for label, tx in sorted(transactions.items())}


def test_gas_stays_below_the_ceilings_and_as_tracked(request):
    if network.show_active() != GANACHE:
        pytest.skip("the table is measured on Ganache")
    table = request.getfixturevalue("table")
    if os.environ.get("HYDRA_GAS_TABLE") == "write":
        TABLE.write_text(HEAD + "".join(row(label, used) for label, used in table.items()))
    assert {label: table[label] for label in CEILINGS if table[label] > CEILINGS[label]} == {}
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|", TABLE.read_text(), re.MULTILINE)
    tracked = {label: int(used.replace(",", "")) for label, used in rows}
    assert tracked.keys() == table.keys(), "run `make gas`"
    moved = [label for label, used in table.items() if abs(used - tracked[label]) > tracked[label] / 100]
    assert moved == [], "run `make gas` and look at the difference"
