"""Taking part without ether: allowances by permit, and commitments that somebody else sends for a fee."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from brownie import chain, reverts, web3
from eth_account import Account
from world import CID, HYDRA, REVEALED, TRAINER, TRAINING, Submission, now

FOREVER = 2**63
FEE, POOL = HYDRA, 3 * HYDRA


@dataclass(frozen=True)
class Signed:
    """A signed commitment; fields in the contract's order."""

    job_id: int
    contributor: str
    commitment: bytes
    fee: int
    deadline: int
    signature: bytes

    def wire(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())


def domain(contract, name):
    return {"name": name, "version": "1", "chainId": chain.id, "verifyingContract": contract.address}


def sign(world, account, job_id, fee=FEE, deadline=FOREVER, nonce=None):
    """The contributor's commitment to a submission, by its key alone."""
    commitment = bytes(world.submissions.commitmentOf(job_id, account.address, *Submission().wire()))
    if nonce is None:
        nonce = world.submissions.nonces(account.address)
    types = {
        "Commit": [
            {"name": "jobId", "type": "uint256"},
            {"name": "contributor", "type": "address"},
            {"name": "commitment", "type": "bytes32"},
            {"name": "fee", "type": "uint256"},
            {"name": "nonce", "type": "uint256"},
            {"name": "deadline", "type": "uint256"},
        ]
    }
    values = {
        "jobId": job_id,
        "contributor": account.address,
        "commitment": commitment,
        "fee": fee,
        "nonce": nonce,
        "deadline": deadline,
    }
    where = domain(world.submissions, "Hydra submissions")
    signature = account.sign_typed_data(where, types, values).signature
    return Signed(job_id, account.address, commitment, fee, deadline, bytes(signature))


def permit(world, account, spender, value, deadline=FOREVER):
    """An allowance by signature, as the contracts take it."""
    types = {
        "Permit": [
            {"name": "owner", "type": "address"},
            {"name": "spender", "type": "address"},
            {"name": "value", "type": "uint256"},
            {"name": "nonce", "type": "uint256"},
            {"name": "deadline", "type": "uint256"},
        ]
    }
    values = {
        "owner": account.address,
        "spender": spender.address,
        "value": value,
        "nonce": world.token.nonces(account.address),
        "deadline": deadline,
    }
    signed = account.sign_typed_data(domain(world.token, "Hydra"), types, values)
    return (value, deadline, signed.v, signed.r.to_bytes(32, "big"), signed.s.to_bytes(32, "big"))


def relay(world, signed, sender=None):
    return world.submissions.commitFor(*signed.wire(), {"from": sender or world.stranger})


@pytest.fixture
def poor(world):
    """A key with tokens and no ether."""
    account = Account.from_key(b"\x07" * 32)
    world.token.transfer(account.address, 50 * HYDRA, {"from": world.treasury})
    return account


@pytest.fixture
def job_id(world):
    return world.open_campaign(relay_fee=FEE, gas_pool=POOL)


def send_permit(world, account, spender, value):
    """Anybody may hand a permit to the token."""
    signed = permit(world, account, spender, value)
    world.token.permit(account.address, spender, *signed, {"from": world.stranger})


def test_a_contributor_without_ether_takes_part(world, job_id, poor):
    """Bond, commitment and reveal are signed or told; the relayer pays the gas and has its fee from the campaign."""
    assert web3.eth.get_balance(poor.address) == 0
    bond, before = 2 * HYDRA, world.token.balanceOf(world.stranger)
    send_permit(world, poor, world.submissions, bond)
    tx = relay(world, sign(world, poor, job_id))
    submission_id = tx.events["Committed"]["submissionId"]
    assert tx.events["Relayed"]["relayer"] == world.stranger
    assert tx.events["Committed"]["contributor"] == poor.address
    assert world.token.balanceOf(poor.address) == 48 * HYDRA
    assert world.token.balanceOf(world.stranger) == before + FEE
    assert world.submissions.relayed(job_id) == FEE
    world.to_reveals(job_id)
    world.submissions.reveal(submission_id, *Submission().wire(), {"from": world.stranger})
    assert world.submissions.submission(submission_id)[1:3] == (poor.address, REVEALED)
    assert world.token.balanceOf(poor.address) == 50 * HYDRA  # the bond went to whom it came from
    world.check_books(job_id)


@pytest.mark.parametrize(
    "change",
    [{"commitment": b"\x01" * 32}, {"fee": 0}, {"deadline": FOREVER - 1}, {"signature": b"\x00" * 65}],
)
def test_every_signed_value_is_bound(world, job_id, poor, change):
    send_permit(world, poor, world.submissions, 2 * HYDRA)
    with reverts(f"BadSignature: {poor.address.lower()}, 0"):
        relay(world, replace(sign(world, poor, job_id), **change))


def test_a_signature_counts_once_and_only_here(world, job_id, poor):
    send_permit(world, poor, world.submissions, 10 * HYDRA)
    signed = sign(world, poor, job_id)
    other = world.open_campaign(relay_fee=FEE, gas_pool=POOL)
    with reverts(revert_pattern="BadSignature: .*"):
        relay(world, replace(signed, job_id=other))
    with reverts(revert_pattern="BadSignature: .*"):
        relay(world, replace(signed, contributor=str(world.contributors[0])))
    relay(world, signed)
    with reverts(f"BadSignature: {poor.address.lower()}, 1"):
        relay(world, signed)


def test_a_signature_expires(world, job_id, poor):
    with reverts(revert_pattern="SignatureExpired: .*"):
        relay(world, sign(world, poor, job_id, deadline=now() - 1))


def test_fees_are_capped_for_each_and_for_all(world, job_id, poor):
    send_permit(world, poor, world.submissions, 50 * HYDRA)
    with reverts(f"FeeTooHigh: {job_id}, {FEE + 1}, {FEE}"):
        relay(world, sign(world, poor, job_id, fee=FEE + 1))
    for _ in range(POOL // FEE):
        relay(world, sign(world, poor, job_id))
    with reverts(f"FeeTooHigh: {job_id}, {FEE}, 0"):
        relay(world, sign(world, poor, job_id))
    relay(world, sign(world, poor, job_id, fee=0))
    assert world.submissions.relayed(job_id) == POOL
    assert world.escrow.available(job_id) == 1_000 * HYDRA - POOL


def test_committing_and_revoking_does_not_drain_the_pool(world, job_id):
    """The contributor is its own relayer: whatever it takes as a fee comes back from its bond."""
    person = world.accounts.add(b"\x08" * 32)
    world.treasury.transfer(person, "1 ether")
    world.token.transfer(person, 10 * HYDRA, {"from": world.treasury})
    world.token.approve(world.submissions, 10 * HYDRA, {"from": person})
    signed = sign(world, Account.from_key(b"\x08" * 32), job_id)
    submission_id = relay(world, signed, sender=person).events["Committed"]["submissionId"]
    world.submissions.revoke(submission_id, {"from": person})
    assert world.token.balanceOf(person) == 10 * HYDRA
    assert world.escrow.available(job_id) == 1_000 * HYDRA
    world.check_books(job_id)


def test_a_relay_fee_is_at_most_the_bond(world):
    job_id = world.open_job()
    with reverts("BadTerms: "):
        world.submissions.openCampaign(
            job_id, replace(world.terms, bond=FEE - 1, relay_fee=FEE).wire(), {"from": world.sponsor}
        )


def test_without_a_gas_pool_nobody_is_paid(world, poor):
    job_id = world.open_campaign(bond=0)
    with reverts(f"FeeTooHigh: {job_id}, 1, 0"):
        relay(world, sign(world, poor, job_id, fee=1))
    relay(world, sign(world, poor, job_id, fee=0))


def test_stake_and_job_by_permit(world):
    """One transaction instead of two."""
    person = world.accounts.add(b"\x08" * 32)
    signer = Account.from_key(b"\x08" * 32)
    world.token.transfer(person, 100 * HYDRA, {"from": world.treasury})
    world.treasury.transfer(person, "1 ether")
    signed = permit(world, signer, world.stakes, 20 * HYDRA)
    world.stakes.stakeWithPermit(TRAINER, 20 * HYDRA, signed, {"from": person})
    assert world.stakes.stakeOf(TRAINER, person) == 20 * HYDRA
    signed = permit(world, signer, world.escrow, 30 * HYDRA)
    job = (TRAINING, bytes(32), CID, 30 * HYDRA, now() + 500)
    job_id = world.escrow.openWithPermit(*job, signed, {"from": person}).events["JobOpened"]["jobId"]
    assert world.escrow.job(job_id)[0] == person
    assert world.token.allowance(person, world.escrow) == 0


def test_a_permit_that_somebody_used_first_still_serves(world):
    """Otherwise a front-runner could make every such transaction fail."""
    person = world.accounts.add(b"\x08" * 32)
    signer = Account.from_key(b"\x08" * 32)
    world.token.transfer(person, 100 * HYDRA, {"from": world.treasury})
    world.treasury.transfer(person, "1 ether")
    signed = permit(world, signer, world.stakes, 20 * HYDRA)
    world.token.permit(person, world.stakes, *signed, {"from": world.stranger})
    world.stakes.stakeWithPermit(TRAINER, 20 * HYDRA, signed, {"from": person})
    # A call and no transaction: the embedded chain mines what was signed elsewhere, and tells afterwards only that it
    # failed.
    with reverts(revert_pattern="ERC20InsufficientAllowance: .*"):
        world.stakes.stakeWithPermit.call(TRAINER, 20 * HYDRA, signed, {"from": person})
