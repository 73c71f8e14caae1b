"""One deployment a module, by the same plan and script as everywhere; every test starts from it anew."""

from __future__ import annotations

import time
from unittest.mock import patch

import pytest
from brownie import web3
from eth_account import Account
from eth_utils import keccak
from scripts.deploy import deploy
from web3.exceptions import TransactionNotFound
from world import HYDRA, PARAMETERS, TRAINER, VALIDATOR, World

RECEIPT_SECONDS = 5.0


@pytest.fixture(scope="module")
def world(accounts):
    """Deployed contracts; everybody has 5,000 HYDRA; three validators and three trainers stake 100 each."""
    world = World(deploy(accounts[0], PARAMETERS), accounts)
    world.supply(world.sponsor, world.stranger, *world.contributors, *world.validators, *world.trainers)
    world.stake_all(VALIDATOR, world.validators)
    world.stake_all(TRAINER, world.trainers)
    return world


@pytest.fixture(scope="module")
def swarm(world):
    """A running job and its five trainers, whose keys are known."""
    keys = [Account.from_key(keccak(f"trainer {i}".encode())) for i in range(5)]
    job_id = world.open_training()
    for key in keys:
        person = world.accounts.add(key.key)
        world.treasury.transfer(person, "1 ether")
        world.supply(person)
        world.stakes.stake(TRAINER, 100 * HYDRA, {"from": person})
        world.join(job_id, person)
    return job_id, keys


@pytest.fixture(scope="session", autouse=True)
def receipts_in_time():
    """Anvil shows a nonce as used a moment before the receipt; brownie takes that for a lost transaction."""
    ask = web3.eth.get_transaction_receipt

    def patiently(tx_hash):
        deadline = time.monotonic() + RECEIPT_SECONDS
        while True:
            try:
                return ask(tx_hash)
            except TransactionNotFound:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    with patch.object(web3.eth, "get_transaction_receipt", patiently):
        yield


@pytest.fixture(autouse=True)
def isolation(fn_isolation):
    """Undo each test's transactions."""
