"""Deploy the contracts as `plan.json` says and write the deployment file; run by brownie.

    brownie run scripts/deploy.py main PARAMETERS DEPLOYMENT --network hydra

PARAMETERS is a JSON file: {"treasury", "guardian", "supply", "thawSeconds", "activationSeconds", "disputeBond",
"disputeSeconds"}; treasury and guardian may be left out and are then the deployer. DEPLOYMENT is written after every contract, so that a run that was cut short goes on where it
stopped; a finished one changes nothing.

The deployer is the chain's first account, or the keystore file $HYDRA_KEYSTORE with the password in the file
$HYDRA_PASSWORD_FILE.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from brownie import accounts, chain, project, web3

ARTIFACTS = Path(__file__).resolve().parent.parent / "node" / "hydra_node" / "chain" / "artifacts"
PLAN: dict[str, Any] = json.loads((ARTIFACTS / "plan.json").read_text())
ADMIN_ROLE = bytes(32)


class DeploymentError(Exception):
    """The deployment cannot go on; the message says why and what to do."""


def contract_class(name: str) -> Any:
    """Brownie's container of a contract of this project."""
    return getattr(project.get_loaded_projects()[0], name)


def load_record(path: Path | None) -> dict[str, Any]:
    """The deployment so far; a new one starts at the chain's present block."""
    if path is None or not path.exists():
        return {"chain_id": chain.id, "block": max(chain.height, 0), "addresses": {}}
    record: dict[str, Any] = json.loads(path.read_text())
    if record["chain_id"] != chain.id:
        raise DeploymentError(f"{path} is of chain {record['chain_id']}, this is chain {chain.id}; name another file")
    return record


def save_record(path: Path | None, record: dict[str, Any]) -> None:
    """Replace the file whole, on the disk: no reader and no crash sees half of it."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        file.write(json.dumps(record, indent=2, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def resolve(argument: dict[str, str], parameters: dict[str, Any], addresses: dict[str, str]) -> Any:
    """The value of one constructor argument of the plan."""
    if "address" in argument:
        return addresses[argument["address"]]
    return parameters[argument["parameter"]]


def place_contracts(sender: Any, parameters: dict[str, Any], path: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Deploy what is missing; check that the rest holds code. Returns the record and the contracts by name."""
    record = load_record(path)
    addresses: dict[str, str] = record["addresses"]
    contracts = {}
    for step in PLAN["deployments"]:
        name = step["contract"]
        if name not in addresses:
            arguments = [resolve(argument, parameters, addresses) for argument in step["args"]]
            contracts[name] = contract_class(name).deploy(*arguments, {"from": sender})
            addresses[name] = contracts[name].address
            save_record(path, record)
            continue
        if not web3.eth.get_code(addresses[name]):
            raise DeploymentError(f"no {name} at {addresses[name]}; the chain was started anew: remove {path}")
        contracts[name] = contract_class(name).at(addresses[name])
    return record, contracts


def wire(sender: Any, contracts: dict[str, Any]) -> None:
    """Grant the plan's roles, then renounce: afterwards nobody can grant anything."""
    at_once = {"from": sender, "required_confs": 0}
    sent = []
    for grant in PLAN["grants"]:
        contract = contracts[grant["contract"]]
        role, holder = web3.keccak(text=grant["role"]), contracts[grant["to"]].address
        if contract.hasRole(role, holder):
            continue
        if not contract.hasRole(ADMIN_ROLE, sender):
            raise DeploymentError(
                f"{grant['contract']} was wired to other contracts and has no admin any more; deploy to a new file"
            )
        sent.append(contract.grantRole(role, holder, at_once))
    confirm(sent)
    sent = [
        contracts[name].renounceRole(ADMIN_ROLE, sender, at_once)
        for name in PLAN["renounce"]
        if contracts[name].hasRole(ADMIN_ROLE, sender)
    ]
    confirm(sent)


def confirm(sent: list[Any]) -> None:
    """Wait for transactions that were sent together."""
    for tx in sent:
        tx.wait(1)
        if tx.status != 1:
            raise DeploymentError(f"{tx.fn_name} was reverted in {tx.txid}: {tx.revert_msg}")


def deploy(sender: Any, parameters: dict[str, Any], path: Path | None = None) -> dict[str, Any]:
    """Carry the whole plan out. Returns the contracts by name."""
    parameters = {"treasury": sender.address, "guardian": sender.address, **parameters, "admin": sender.address}
    missing = set(PLAN["parameters"]) - set(parameters)
    if missing:
        raise DeploymentError(f"parameters are missing: {', '.join(sorted(missing))}")
    _, contracts = place_contracts(sender, parameters, path)
    wire(sender, contracts)
    return contracts


def deployer() -> Any:
    """The account that sends everything."""
    keystore = os.environ.get("HYDRA_KEYSTORE")
    if keystore is None:
        return accounts[0]
    password = Path(os.environ["HYDRA_PASSWORD_FILE"]).read_text().rstrip("\n")
    return accounts.load(keystore, password=password)


def main(parameters: str, deployment: str) -> None:
    """Entry point of `brownie run`."""
    contracts = deploy(deployer(), json.loads(Path(parameters).read_text()), Path(deployment))
    for name, contract in contracts.items():
        print(f"{name:20} {contract.address}")
