"""One deployment a module, by the same plan and script as everywhere; every test starts from it anew."""

from __future__ import annotations

import pytest
from scripts.deploy import deploy
from world import PARAMETERS, TRAINER, VALIDATOR, World


@pytest.fixture(scope="module")
def world(accounts):
    """Deployed contracts; everybody has 5,000 HYDRA; three validators and three trainers stake 100 each."""
    world = World(deploy(accounts[0], PARAMETERS), accounts)
    world.supply(world.sponsor, world.stranger, *world.contributors, *world.validators, *world.trainers)
    world.stake_all(VALIDATOR, world.validators)
    world.stake_all(TRAINER, world.trainers)
    return world


@pytest.fixture(autouse=True)
def isolation(fn_isolation):
    """Undo each test's transactions."""
