"""JobEscrow: deposited = available + reserved + paid + refunded, whatever happens."""

import pytest
from brownie import JobEscrow, reverts
from world import (
    CAMPAIGN,
    CHALLENGE,
    CID,
    COLLECTING,
    HYDRA,
    OPEN,
    REFUNDED,
    SCORING,
    SETTLED,
    TRAINING,
    UNLIMITED,
    now,
    wait_until,
)

SPEC = b"\x01" * 32


@pytest.fixture
def escrow(world, accounts):
    """An escrow whose controller and payer is account 0; the sponsor has approved it."""
    escrow = JobEscrow.deploy(world.token, accounts[0], accounts[0], {"from": accounts[0]})
    for role in (escrow.CONTROLLER_ROLE(), escrow.PAYER_ROLE()):
        escrow.grantRole(role, accounts[0], {"from": accounts[0]})
    world.token.approve(escrow, UNLIMITED, {"from": world.sponsor})
    return escrow


@pytest.fixture
def job_id(world, escrow):
    tx = escrow.open(TRAINING, SPEC, CID, 100 * HYDRA, now() + 1_000, {"from": world.sponsor})
    return tx.events["JobOpened"]["jobId"]


def books(escrow, job_id):
    job = escrow.job(job_id)
    sums = (escrow.available(job_id), job[6], job[7], job[8])
    assert job[5] == sum(sums)
    return sums


def test_opening_pulls_the_money_and_tells_everything(world, escrow):
    exit_time = now() + 1_000
    tx = escrow.open(CAMPAIGN, SPEC, CID, 100 * HYDRA, exit_time, {"from": world.sponsor})
    assert dict(tx.events["JobOpened"]) == {
        "jobId": 1,
        "kind": CAMPAIGN,
        "sponsor": world.sponsor,
        "specHash": "0x" + SPEC.hex(),
        "specCid": CID,
        "amount": 100 * HYDRA,
        "exitTime": exit_time,
    }
    assert world.token.balanceOf(escrow) == 100 * HYDRA
    assert escrow.job(1)[:5] == (world.sponsor, CAMPAIGN, OPEN, exit_time, "0x" + SPEC.hex())


@pytest.mark.parametrize(
    "amount, cid, lifetime, error",
    [
        (0, CID, 1_000, "ZeroAmount: "),
        (1, "", 1_000, "BadCidLength: 0, 96"),
        (1, "b" * 97, 1_000, "BadCidLength: 97, 96"),
        (1, CID, -1, "BadExitTime: .*"),
        (1, CID, 731 * 86_400, "BadExitTime: .*"),
    ],
)
def test_openings_refused(world, escrow, amount, cid, lifetime, error):
    with reverts(revert_pattern=error):
        escrow.open(CAMPAIGN, SPEC, cid, amount, now() + lifetime, {"from": world.sponsor})


def test_anyone_may_top_up_until_the_end(world, escrow, job_id):
    world.token.approve(escrow, UNLIMITED, {"from": world.stranger})
    escrow.topUp(job_id, 5 * HYDRA, {"from": world.stranger})
    assert books(escrow, job_id) == (105 * HYDRA, 0, 0, 0)
    with reverts("ZeroAmount: "):
        escrow.topUp(job_id, 0, {"from": world.stranger})
    escrow.advance(job_id, SETTLED)
    with reverts(revert_pattern="JobEnded: .*"):
        escrow.topUp(job_id, 5 * HYDRA, {"from": world.stranger})


def test_money_moves_only_from_where_it_is(world, escrow, job_id):
    escrow.reserve(job_id, 60 * HYDRA)
    with reverts(f"InsufficientAvailable: {job_id}, {40 * HYDRA}, {41 * HYDRA}"):
        escrow.reserve(job_id, 41 * HYDRA)
    before = world.token.balanceOf(world.stranger)
    escrow.pay(job_id, world.stranger, 20 * HYDRA)
    assert world.token.balanceOf(world.stranger) == before + 20 * HYDRA
    assert books(escrow, job_id) == (40 * HYDRA, 40 * HYDRA, 20 * HYDRA, 0)
    for refused in (lambda: escrow.pay(job_id, world.stranger, 41 * HYDRA), lambda: escrow.release(job_id, 41 * HYDRA)):
        with reverts(f"InsufficientReserved: {job_id}, {40 * HYDRA}, {41 * HYDRA}"):
            refused()
    escrow.release(job_id, 40 * HYDRA)
    assert books(escrow, job_id) == (80 * HYDRA, 0, 20 * HYDRA, 0)


def test_one_job_cannot_spend_anothers_money(world, escrow, job_id):
    tx = escrow.open(TRAINING, SPEC, CID, HYDRA, now() + 1_000, {"from": world.sponsor})
    other = tx.events["JobOpened"]["jobId"]
    with reverts(revert_pattern="InsufficientAvailable: .*"):
        escrow.reserve(other, 2 * HYDRA)
    with reverts(revert_pattern="InsufficientReserved: .*"):
        escrow.pay(other, world.stranger, 1)


def test_states_only_advance(escrow, job_id):
    for state in (COLLECTING, SCORING, CHALLENGE):
        escrow.advance(job_id, state)
        with reverts(f"IllegalTransition: {job_id}, {state}, {state}"):
            escrow.advance(job_id, state)
    with reverts(f"IllegalTransition: {job_id}, {CHALLENGE}, {OPEN}"):
        escrow.advance(job_id, OPEN)
    escrow.advance(job_id, SETTLED)
    with reverts(f"IllegalTransition: {job_id}, {SETTLED}, {REFUNDED}"):
        escrow.advance(job_id, REFUNDED)


def test_refund_leaves_what_is_reserved(world, escrow, job_id):
    escrow.reserve(job_id, 60 * HYDRA)
    with reverts(revert_pattern="NotRefundable: .*"):
        escrow.refund(job_id, {"from": world.sponsor})
    escrow.advance(job_id, SETTLED)
    before = world.token.balanceOf(world.sponsor)
    escrow.refund(job_id, {"from": world.stranger})
    assert world.token.balanceOf(world.sponsor) == before + 40 * HYDRA
    assert books(escrow, job_id) == (0, 60 * HYDRA, 0, 40 * HYDRA)
    with reverts(f"NothingToRefund: {job_id}"):
        escrow.refund(job_id, {"from": world.stranger})
    escrow.pay(job_id, world.stranger, 60 * HYDRA)  # claims go on after the end


def test_the_exit_time_frees_the_money_but_not_a_running_score(world, escrow, job_id):
    escrow.advance(job_id, SCORING)
    escrow.reserve(job_id, 60 * HYDRA)
    wait_until(escrow.job(job_id)[3])
    escrow.refund(job_id, {"from": world.stranger})
    assert escrow.job(job_id)[2] == SCORING
    assert books(escrow, job_id) == (0, 60 * HYDRA, 0, 40 * HYDRA)


def test_unknown_jobs_have_a_name(world, escrow):
    for call in (escrow.job, escrow.available):
        with reverts("UnknownJob: 9"):
            call(9)
    for call in (lambda: escrow.refund(9), lambda: escrow.reserve(9, 1), lambda: escrow.advance(9, OPEN)):
        with reverts("UnknownJob: 9"):
            call()
    with reverts("InsufficientReserved: 9, 0, 1"):
        escrow.pay(9, world.stranger, 1)


@pytest.mark.parametrize("name, arguments", [("reserve", (1,)), ("release", (1,)), ("advance", (SETTLED,))])
def test_only_controllers_control(world, escrow, job_id, name, arguments):
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        getattr(escrow, name)(job_id, *arguments, {"from": world.sponsor})


def test_only_payers_pay(world, escrow, job_id):
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        escrow.pay(job_id, world.sponsor, 1, {"from": world.sponsor})
