"""The token's limits, and that a deployment leaves nobody in charge."""

import json

import pytest
from brownie import HydraToken, reverts
from scripts.deploy import PLAN, DeploymentError, deploy, place_contracts
from world import HYDRA, PARAMETERS

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
    """It stopped after the first two contracts."""
    path = tmp_path / "deployment.json"
    record, contracts = place_contracts(accounts[0], {**PARAMETERS, **people(accounts[0])}, path)
    kept = {name: contracts[name].address for name in ("HydraToken", "StakeManager")}
    path.write_text(json.dumps({**record, "addresses": kept}))
    deployed = deploy(accounts[0], PARAMETERS, path)
    assert {name: deployed[name].address for name in kept} == kept
    assert deployed["StakeManager"].hasRole(deployed["StakeManager"].SLASHER_ROLE(), deployed["QualityRounds"])
    assert json.loads(path.read_text())["addresses"].keys() == deployed.keys()


def people(deployer):
    return dict.fromkeys(("treasury", "guardian", "admin"), deployer.address)


def test_finished_contracts_cannot_be_wired_to_others(accounts, tmp_path):
    path = tmp_path / "deployment.json"
    deploy(accounts[0], PARAMETERS, path)
    record = json.loads(path.read_text())
    used = {argument.get("address") for step in PLAN["deployments"] for argument in step["args"]}
    unused = next(grant["to"] for grant in PLAN["grants"] if grant["to"] not in used)
    del record["addresses"][unused]
    path.write_text(json.dumps(record))
    nonce = accounts[0].nonce
    with pytest.raises(DeploymentError, match=r"StakeManager at .* was wired to other contracts"):
        deploy(accounts[0], PARAMETERS, path)
    assert accounts[0].nonce == nonce, "nothing is paid for a contract that cannot be wired"


def test_a_finished_deployment_sends_nothing(accounts, chain, tmp_path):
    path = tmp_path / "deployment.json"
    deploy(accounts[0], PARAMETERS, path)
    height, nonce = chain.height, accounts[0].nonce
    deploy(accounts[0], PARAMETERS, path)
    assert (chain.height, accounts[0].nonce) == (height, nonce)


def test_a_deployment_of_a_chain_started_anew_is_refused(accounts, chain, tmp_path):
    path = tmp_path / "deployment.json"
    path.write_text(json.dumps({"chain_id": chain.id, "block": 0, "addresses": {"HydraToken": accounts[9].address}}))
    with pytest.raises(DeploymentError, match="started anew"):
        deploy(accounts[0], PARAMETERS, path)
    path.write_text(json.dumps({"chain_id": 1, "block": 0, "addresses": {}}))
    with pytest.raises(DeploymentError, match="of chain 1"):
        deploy(accounts[0], PARAMETERS, path)
