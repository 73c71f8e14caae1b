"""Look a deployment over without changing it; run by brownie.

    brownie run scripts/inspect_deployment.py main [DEPLOYMENT] --network hydra

Prints every contract with its address, whether it is the one that this checkout compiles, and who holds its roles; then
the token's supply, the number of jobs and the stakes. Ends with exit status 1 when anything does not fit the plan.
DEPLOYMENT is that of `deploy.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brownie import web3
from scripts.deploy import ADMIN_ROLE, PLAN, DeploymentError, artifact, default_path, read_record, shown_values, verify
from scripts.fund import from_wei

STAKED = ("validators", "trainers")  # the order of the contracts' Role
Holders = dict[tuple[str, bytes], set[str]]


@dataclass
class Report:
    """What is printed, and what does not fit."""

    lines: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def object(self, misfit: str) -> None:
        self.misfits.append(misfit)
        self.lines.append(f"    DOES NOT FIT: {misfit}")


def contract_at(name: str, address: str) -> Any:
    """The contract for reading. Not brownie's container, which would note it in the project."""
    return web3.eth.contract(address=web3.to_checksum_address(address), abi=artifact(name)["abi"])


def roles_of(name: str) -> dict[str, bytes]:
    """The names of a contract's roles with what stands for them on chain."""
    names = [entry["name"] for entry in artifact(name)["abi"] if entry["type"] == "function" and not entry["inputs"]]
    return {
        role: ADMIN_ROLE if role == "DEFAULT_ADMIN_ROLE" else bytes(web3.keccak(text=role))
        for role in names
        if role.endswith("_ROLE")
    }


def role_holders(addresses: dict[str, str], block: int) -> Holders:
    """Who holds every role by contract address and role, from all that was ever granted and taken back."""
    granted, revoked = (web3.keccak(text=f"{name}(bytes32,address,address)") for name in ("RoleGranted", "RoleRevoked"))
    topics = [["0x" + bytes(topic).hex() for topic in (granted, revoked)]]
    logs = web3.eth.get_logs({"fromBlock": block, "address": list(addresses.values()), "topics": topics})
    held: Holders = defaultdict(set)
    for log in logs:
        topic, role, account = (bytes(each) for each in log["topics"][:3])
        holders = held[log["address"], role]
        change = holders.add if topic == bytes(granted) else holders.discard
        change(str(web3.to_checksum_address(account[-20:])))
    return held


def report_roles(report: Report, name: str, addresses: dict[str, str], held: Holders) -> None:
    """The roles of one contract: the plan's holders and no others; nobody is admin."""
    names = {address: each for each, address in addresses.items()}
    for role, key in roles_of(name).items():
        planned = {grant["to"] for grant in PLAN["grants"] if (grant["contract"], grant["role"]) == (name, role)}
        holders = {names.get(holder, holder) for holder in held.get((addresses[name], key), set())}
        report.say(f"    {role:20} {', '.join(sorted(holders)) or 'nobody'}")
        if role == "DEFAULT_ADMIN_ROLE":
            for holder in sorted(holders):
                report.object(f"{holder} is still admin of {name}; run deploy.py again")
        elif planned:
            for holder in sorted(planned - holders):
                report.object(f"{role} of {name} is not granted to {holder}; run deploy.py again")
            for holder in sorted(holders - planned):
                report.object(f"{role} of {name} is granted to {holder}, which the plan does not say")


def report_contract(report: Report, step: dict[str, Any], addresses: dict[str, str], held: Holders) -> bool:
    """One contract of the plan. Returns whether it is verified."""
    name = step["contract"]
    if name not in addresses:
        report.say(f"{name:20} {'missing':42}")
        report.object(f"the file names no {name}; run deploy.py again")
        return False
    try:
        verify(name, addresses[name], shown_values(step, {}, addresses))
    except DeploymentError as error:
        report.say(f"{name:20} {addresses[name]} not verified")
        report.object(str(error))
        return False
    report.say(f"{name:20} {addresses[name]} verified")
    report_roles(report, name, addresses, held)
    return True


def report_guardians(report: Report, held: Holders) -> None:
    """One guardian for all: each may pause entry for good, and nobody can replace it."""
    guardian = bytes(web3.keccak(text="GUARDIAN_ROLE"))
    guardians = sorted(set().union(*(holders for (_, role), holders in held.items() if role == guardian)))
    if len(guardians) > 1:
        report.object(f"there are several guardians: {', '.join(guardians)}")


def report_books(report: Report, contracts: dict[str, Any]) -> None:
    """Supply, jobs and stakes, as far as their contracts are verified."""
    token, stakes, escrow = (contracts.get(name) for name in ("HydraToken", "StakeManager", "JobEscrow"))
    if token:
        supply, cap = token.functions.totalSupply().call(), token.functions.cap().call()
        report.say(f"{'token supply':20} {from_wei(supply)} of {from_wei(cap)} HYDRA, the rest is burned")
    if escrow:
        report.say(f"{'jobs':20} {escrow.functions.jobCount().call()}")
    if stakes:
        totals = [stakes.functions.totalStaked(role).call() for role in range(len(STAKED))]
        for role, total in zip(STAKED, totals, strict=True):
            report.say(f"{'staked by ' + role:20} {from_wei(total)} HYDRA")
        if token and token.functions.balanceOf(stakes.address).call() < sum(totals):
            report.object("StakeManager holds fewer tokens than are staked")


def examine(path: Path) -> Report:
    """Compare a deployment with the plan. Raises `DeploymentError` when the file cannot be used."""
    record = read_record(path)
    addresses = {name: str(web3.to_checksum_address(address)) for name, address in record["addresses"].items()}
    held = role_holders(addresses, record["block"])
    report = Report()
    contracts = {}
    for step in PLAN["deployments"]:
        if report_contract(report, step, addresses, held):
            contracts[step["contract"]] = contract_at(step["contract"], addresses[step["contract"]])
    for name in sorted(set(addresses) - {step["contract"] for step in PLAN["deployments"]}):
        report.say(f"{name:20} {addresses[name]}")
        report.object(f"{name} is not part of the plan; check out the version that deployed it")
    report_guardians(report, held)
    report_books(report, contracts)
    return report


def main(deployment: str | None = None) -> None:
    """Entry point of `brownie run`."""
    path = Path(deployment) if deployment else default_path()
    report = examine(path)
    print("\n".join(report.lines))
    if report.misfits:
        sys.exit(f"{path}: {len(report.misfits)} things do not fit")
    print(f"{path}: everything fits")
