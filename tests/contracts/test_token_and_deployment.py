"""The token's limits, and that a deployment leaves nobody in charge."""

import json

import pytest
from brownie import HydraToken, reverts
from world import HYDRA, PARAMETERS

from scripts.deploy import PLAN, DeploymentError, deploy

ADMIN_ROLE = bytes(32)


def test_supply_is_minted_once_to_the_treasury(accounts):
    token = HydraToken.deploy(accounts[5], 1000 * HYDRA, {"from": accounts[0]})
    assert token.balanceOf(accounts[5]) == token.totalSupply() == token.cap() == 1000 * HYDRA
    assert (token.symbol(), token.decimals()) == ("HYDRA", 18)


def test_supply_beyond_the_books_width_is_refused(accounts):
    with reverts(revert_pattern="SupplyTooLarge: .*"):
        HydraToken.deploy(accounts[5], 2**96, {"from": accounts[0]})


def test_nobody_is_admin_after_the_deployment(world, accounts):
    for name in PLAN["renounce"]:
        assert not world.contracts[name].hasRole(ADMIN_ROLE, accounts[0])
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        world.stakes.grantRole(world.stakes.SLASHER_ROLE(), accounts[0], {"from": accounts[0]})


def test_roles_are_the_plans_and_no_others(world):
    granted = {(grant["contract"], grant["role"], grant["to"]) for grant in PLAN["grants"]}
    for owner, role in {(owner, role) for owner, role, _ in granted}:
        contract = world.contracts[owner]
        for name, holder in world.contracts.items():
            assert contract.hasRole(getattr(contract, role)(), holder) == ((owner, role, name) in granted)


def test_a_deployment_cut_short_goes_on(accounts, tmp_path):
    path = tmp_path / "deployment.json"
    contracts = deploy(accounts[0], PARAMETERS, path)
    whole = json.loads(path.read_text())
    assert whole["addresses"] == {name: contract.address for name, contract in contracts.items()}
    kept = {name: whole["addresses"][name] for name in ("HydraToken", "StakeManager")}
    path.write_text(json.dumps({**whole, "addresses": kept}))
    # The kept StakeManager has renounced already, so only its grants to new contracts can fail.
    with reverts(revert_pattern="AccessControlUnauthorizedAccount: .*"):
        deploy(accounts[0], PARAMETERS, path)
    assert kept.items() <= json.loads(path.read_text())["addresses"].items()


def test_a_finished_deployment_sends_nothing(accounts, chain, tmp_path):
    path = tmp_path / "deployment.json"
    deploy(accounts[0], PARAMETERS, path)
    height = chain.height
    deploy(accounts[0], PARAMETERS, path)
    assert chain.height == height


def test_a_deployment_of_a_chain_started_anew_is_refused(accounts, chain, tmp_path):
    path = tmp_path / "deployment.json"
    path.write_text(json.dumps({"chain_id": chain.id, "block": 0, "addresses": {"HydraToken": accounts[9].address}}))
    with pytest.raises(DeploymentError, match="started anew"):
        deploy(accounts[0], PARAMETERS, path)
    path.write_text(json.dumps({"chain_id": 1, "block": 0, "addresses": {}}))
    with pytest.raises(DeploymentError, match="of chain 1"):
        deploy(accounts[0], PARAMETERS, path)
