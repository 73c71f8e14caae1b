"""StakeManager: what goes in comes out after the thaw, less what was slashed."""

import pytest
from brownie import StakeManager, reverts
from world import HYDRA, THAW, TRAINER, UNLIMITED, VALIDATOR, now, wait_until

START = 1_000 * HYDRA


@pytest.fixture
def stakes(world, accounts):
    """A manager whose slasher and locker is account 0."""
    stakes = StakeManager.deploy(world.token, THAW, accounts[0], accounts[0], {"from": accounts[0]})
    for role in (stakes.SLASHER_ROLE(), stakes.LOCKER_ROLE()):
        stakes.grantRole(role, accounts[0], {"from": accounts[0]})
    return stakes


@pytest.fixture
def operators(world, stakes, accounts):
    people = accounts[20:23]
    for person in people:
        world.token.transfer(person, START, {"from": world.treasury})
        world.token.approve(stakes, UNLIMITED, {"from": person})
    return people


def thawed(stakes, role, operator):
    wait_until(stakes.thawingOf(role, operator)[1])


def test_stakes_of_roles_do_not_mix(stakes, operators):
    tx = stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    stakes.stake(TRAINER, 3 * HYDRA, {"from": operators[0]})
    assert tx.events["Staked"] == {"role": VALIDATOR, "operator": operators[0], "amount": 10 * HYDRA}
    assert stakes.stakeOf(VALIDATOR, operators[0]) == stakes.totalStaked(VALIDATOR) == 10 * HYDRA
    assert stakes.stakeOf(TRAINER, operators[0]) == stakes.totalStaked(TRAINER) == 3 * HYDRA
    assert stakes.operators(VALIDATOR) == [operators[0]]


@pytest.mark.parametrize(
    "amount, error", [(0, "ZeroAmount: "), (HYDRA - 1, f"BelowMinimumStake: {HYDRA - 1}, {HYDRA}")]
)
def test_dust_is_refused(stakes, operators, amount, error):
    with reverts(error):
        stakes.stake(VALIDATOR, amount, {"from": operators[0]})


def test_without_an_allowance_nothing_is_booked(world, stakes, operators):
    world.token.approve(stakes, 0, {"from": operators[0]})
    with reverts(revert_pattern="ERC20InsufficientAllowance: .*"):
        stakes.stake(VALIDATOR, HYDRA, {"from": operators[0]})
    assert stakes.totalStaked(VALIDATOR) == 0


def test_withdrawal_waits_for_the_thaw(world, stakes, operators):
    stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    with reverts(revert_pattern="NothingThawing: .*"):
        stakes.withdraw(VALIDATOR, {"from": operators[0]})
    stakes.requestWithdraw(VALIDATOR, 4 * HYDRA, {"from": operators[0]})
    assert stakes.stakeOf(VALIDATOR, operators[0]) == 6 * HYDRA
    with reverts(revert_pattern="StillThawing: .*"):
        stakes.withdraw(VALIDATOR, {"from": operators[0]})
    thawed(stakes, VALIDATOR, operators[0])
    stakes.withdraw(VALIDATOR, {"from": operators[0]})
    assert world.token.balanceOf(operators[0]) == START - 6 * HYDRA
    with reverts(revert_pattern="NothingThawing: .*"):
        stakes.withdraw(VALIDATOR, {"from": operators[0]})


def test_a_second_request_thaws_everything_anew(stakes, operators):
    stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    stakes.requestWithdraw(VALIDATOR, 4 * HYDRA, {"from": operators[0]})
    thawed(stakes, VALIDATOR, operators[0])
    stakes.requestWithdraw(VALIDATOR, 1 * HYDRA, {"from": operators[0]})
    with reverts(revert_pattern="StillThawing: .*"):
        stakes.withdraw(VALIDATOR, {"from": operators[0]})
    assert stakes.thawingOf(VALIDATOR, operators[0])[0] == 5 * HYDRA


@pytest.mark.parametrize(
    "amount, error",
    [(0, "ZeroAmount: "), (11 * HYDRA, "InsufficientStake: .*"), (10 * HYDRA - 1, "BelowMinimumStake: .*")],
)
def test_impossible_requests(stakes, operators, amount, error):
    stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    with reverts(revert_pattern=error):
        stakes.requestWithdraw(VALIDATOR, amount, {"from": operators[0]})


def test_operators_lists_exactly_those_with_active_stake(stakes, operators):
    for operator in operators:
        stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operator})
    stakes.requestWithdraw(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    assert set(stakes.operators(VALIDATOR)) == set(operators[1:])
    stakes.slash(VALIDATOR, operators[2], 10 * HYDRA)
    assert stakes.operators(VALIDATOR) == [operators[1]]
    stakes.requestWithdraw(VALIDATOR, 10 * HYDRA, {"from": operators[1]})
    assert stakes.operators(VALIDATOR) == []
    stakes.stake(VALIDATOR, HYDRA, {"from": operators[0]})
    assert stakes.operators(VALIDATOR) == [operators[0]]


def test_slashing_burns_active_stake_first_then_thawing(world, stakes, operators):
    stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    stakes.requestWithdraw(VALIDATOR, 4 * HYDRA, {"from": operators[0]})
    supply = world.token.totalSupply()
    tx = stakes.slash(VALIDATOR, operators[0], 7 * HYDRA)
    assert tx.events["Slashed"]["amount"] == 7 * HYDRA
    assert stakes.stakeOf(VALIDATOR, operators[0]) == stakes.totalStaked(VALIDATOR) == 0
    assert stakes.thawingOf(VALIDATOR, operators[0])[0] == 3 * HYDRA
    assert stakes.slash(VALIDATOR, operators[0], 7 * HYDRA).events["Slashed"]["amount"] == 3 * HYDRA
    assert "Slashed" not in stakes.slash(VALIDATOR, operators[0], 7 * HYDRA).events
    assert world.token.totalSupply() == supply - 10 * HYDRA
    assert world.token.balanceOf(stakes) == 0


def test_a_lock_outlasts_the_thaw_and_never_shrinks(stakes, operators):
    stakes.stake(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    stakes.requestWithdraw(VALIDATOR, 10 * HYDRA, {"from": operators[0]})
    until = now() + 10 * THAW
    stakes.lock(VALIDATOR, operators[0], until)
    stakes.lock(VALIDATOR, operators[0], until - 5 * THAW)
    assert stakes.lockedUntil(VALIDATOR, operators[0]) == until
    thawed(stakes, VALIDATOR, operators[0])
    with reverts(revert_pattern="StakeLocked: .*"):
        stakes.withdraw(VALIDATOR, {"from": operators[0]})
    wait_until(until)
    stakes.withdraw(VALIDATOR, {"from": operators[0]})


def test_only_the_roles_slash_and_lock(stakes, operators):
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        stakes.slash(VALIDATOR, operators[0], 1, {"from": operators[1]})
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        stakes.lock(VALIDATOR, operators[0], 1, {"from": operators[1]})
