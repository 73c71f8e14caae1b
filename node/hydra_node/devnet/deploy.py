"""Deploying the contracts as `plan.json` says, in as few blocks as the chain allows.

Nothing waits for anything but the receipts at the end: the address of a contract follows from the deployer's nonce,
which is known when its creation is sent, and the chain runs an account's transactions in the order of their nonces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rlp  # type: ignore[import-untyped]  # it ships no types
from eth_hash.auto import keccak
from eth_utils.address import to_canonical_address, to_checksum_address

from hydra_node.chain import abi
from hydra_node.chain.codec import encode_call, encode_values
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import TIMEOUT, ContractCall, Receipt, Sent, Simulated
from hydra_node.errors import HydraError

HYDRA = 10**18
PLAN = abi.ARTIFACTS / "plan.json"
ADMIN_ROLE = bytes(32)
# Gas cannot be estimated before what a transaction builds on is mined, so these are ceilings; what is not used is free.
_CREATION_GAS = 1_500_000
_CREATION_GAS_PER_BYTE = 250
_ROLE_GAS = 120_000
_TRANSFER_GAS = 100_000


class BadPlan(HydraError):
    """The deployment plan asks for something that the artifacts or the parameters do not have."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a deployment decides: token supply in wei, waiting times in seconds of chain time.

    `treasury` receives the whole supply and `guardian` may pause entry; None: the deployer.
    """

    supply: int = 1_000_000_000 * HYDRA
    thaw_seconds: int = 30
    activation_seconds: int = 0
    dispute_bond: int = 50 * HYDRA
    dispute_seconds: int = 60
    takeover_bond: int = 50 * HYDRA
    takeover_seconds: int = 30
    treasury: str | None = None
    guardian: str | None = None

    def values(self, deployer: str) -> dict[str, Any]:
        """By the names of the plan."""
        return {
            "treasury": self.treasury or deployer,
            "supply": self.supply,
            "thawSeconds": self.thaw_seconds,
            "activationSeconds": self.activation_seconds,
            "disputeBond": self.dispute_bond,
            "disputeSeconds": self.dispute_seconds,
            "takeoverBond": self.takeover_bond,
            "takeoverSeconds": self.takeover_seconds,
            "guardian": self.guardian or deployer,
            "admin": deployer,
        }


@dataclass(frozen=True, slots=True)
class Funds:
    """What one account is given, in wei of the chain's coin and of the token."""

    ether: int = 0
    tokens: int = 0


def deploy(
    rpc: Rpc, sender: Sender, path: Path, parameters: Parameters | None = None, *, timeout: float = TIMEOUT
) -> Deployment:
    """Deploy everything, grant the roles, renounce the administration, and write the deployment file.

    The file is written only when all of it is mined. Raises what `Sender.wait` raises, BadPlan.
    """
    plan = json.loads(PLAN.read_text())
    values = (parameters or Parameters()).values(sender.address)
    addresses: dict[str, str] = {}
    sent: list[Sent] = []
    for step in plan["deployments"]:
        name = step["contract"]
        arguments = [_resolve(argument, values, addresses) for argument in step["args"]]
        creation = sender.submit(_creation(name, arguments))
        addresses[name] = creation_address(sender.address, creation.nonce)
        sent.append(creation)
    sent.extend(sender.submit(call) for call in _wiring(plan, addresses, sender.address))
    receipts = [sender.wait(each, timeout=timeout) for each in sent]
    deployment = Deployment(chain_id=rpc.chain_id, block=receipts[0].block, addresses=addresses)
    deployment.check(rpc)
    deployment.save(path)
    return deployment


def fund(
    sender: Sender, deployment: Deployment, grants: Mapping[str, Funds], *, timeout: float = TIMEOUT
) -> list[Receipt]:
    """Send ether and tokens to many accounts, together; all are mined on return."""
    transfer = abi.load("HydraToken").function("transfer")
    token = deployment.address("HydraToken")
    calls: list[ContractCall] = []
    for account, funds in grants.items():
        if funds.ether:
            calls.append(ContractCall(f"ether to {account}", account, b"", value=funds.ether, gas=_TRANSFER_GAS))
        if funds.tokens:
            payload = encode_call(transfer, (account, funds.tokens))
            calls.append(ContractCall("HydraToken.transfer", token, payload, gas=_TRANSFER_GAS))
    return sender.send_all(calls, timeout=timeout)


def creation_address(deployer: str, nonce: int) -> str:
    """The address of the contract that `deployer` creates with its transaction number `nonce` (Ethereum's CREATE)."""
    return to_checksum_address(keccak(rlp.encode([to_canonical_address(deployer), nonce]))[-20:])


def _creation(name: str, arguments: Sequence[Any]) -> Simulated:
    contract = abi.load(name)
    payload = contract.bytecode + encode_values(contract.constructor, arguments, f"the constructor of {name}")
    gas = _CREATION_GAS + _CREATION_GAS_PER_BYTE * len(payload)
    return Simulated(ContractCall(f"creation of {name}", None, payload, gas=gas), b"", gas)


def _wiring(plan: Mapping[str, Any], addresses: Mapping[str, str], admin: str) -> Iterator[Simulated]:
    for grant in plan["grants"]:
        role = keccak(grant["role"].encode())
        yield _call(grant["contract"], addresses, "grantRole", (role, addresses[grant["to"]]))
    for name in plan["renounce"]:
        yield _call(name, addresses, "renounceRole", (ADMIN_ROLE, admin))


def _call(name: str, addresses: Mapping[str, str], function: str, arguments: Sequence[Any]) -> Simulated:
    payload = encode_call(abi.load(name).function(function), arguments)
    return Simulated(ContractCall(f"{name}.{function}", addresses[name], payload, gas=_ROLE_GAS), b"", _ROLE_GAS)


def _resolve(argument: Mapping[str, str], values: Mapping[str, Any], addresses: Mapping[str, str]) -> Any:
    try:
        return addresses[argument["address"]] if "address" in argument else values[argument["parameter"]]
    except KeyError as error:
        raise BadPlan(
            f"the deployment plan refers to {error.args[0]!r}, which is not known at that point",
            remedy="compile the contracts again: make contracts",
        ) from error
