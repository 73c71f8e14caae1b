"""Deploy the contracts as `plan.json` says and write the deployment file; run by brownie.

    brownie run scripts/deploy.py main PARAMETERS [DEPLOYMENT] --network hydra

PARAMETERS is a JSON file: {"treasury", "guardian", "supply", "thawSeconds", "activationSeconds", "disputeBond",
"disputeSeconds", "takeoverBond", "takeoverSeconds"}; treasury and guardian may be left out and are then the deployer.
DEPLOYMENT is by default deployments/CHAIN_ID.json in the checkout. It is written after every contract, so that a run that was cut short goes on
where it stopped; a finished one changes nothing. Before anything is sent, every contract that the file names must be
the one that this checkout compiles, made with these parameters.

A file beside it, DEPLOYMENT with the suffix .pending, names the creation that is under way: a run that was cut short
between sending and writing finds its contract again instead of paying for a second one. It is gone at the end.

The deployer is the chain's first account, or the keystore file $HYDRA_KEYSTORE with the password in the file
$HYDRA_PASSWORD_FILE.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from brownie import accounts, chain, project, web3
from brownie.convert import to_address, to_uint

ROOT = Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "node" / "hydra_node" / "chain" / "artifacts"
PLAN: dict[str, Any] = json.loads((ARTIFACTS / "plan.json").read_text())
ADMIN_ROLE = bytes(32)
# Constructor arguments that a function of another name shows; the others' is theirs without the "_" at the end.
SHOWN_BY = {"supply": "cap"}


class DeploymentError(Exception):
    """The deployment cannot go on; the message says why and what to do."""


def contract_class(name: str) -> Any:
    """Brownie's container of a contract of this project."""
    return getattr(project.get_loaded_projects()[0], name)


@cache
def artifact(name: str) -> dict[str, Any]:
    """What `scripts/compile.js` wrote about a contract. Raises `DeploymentError`."""
    path = ARTIFACTS / f"{name}.json"
    if not path.exists():
        raise DeploymentError(f"the plan names {name}, which {ARTIFACTS} does not have; run `make contracts`")
    compiled: dict[str, Any] = json.loads(path.read_text())
    return compiled


# ---- files


def default_path() -> Path:
    """The deployment file of the chain that brownie is connected to."""
    return ROOT / "deployments" / f"{chain.id}.json"


def read_record(path: Path) -> dict[str, Any]:
    """A deployment file of this chain. Raises `DeploymentError`."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        written_for, _, _ = record["chain_id"], int(record["block"]), record["addresses"].keys()
    except FileNotFoundError:
        raise DeploymentError(f"there is no deployment file {path}; deploy first, or name another") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DeploymentError(f"the deployment file {path} is damaged; restore it, or name another") from None
    if written_for != chain.id:
        raise DeploymentError(f"{path} is of chain {written_for}, this is chain {chain.id}; name another file")
    return record


def load_record(path: Path | None) -> dict[str, Any]:
    """The deployment so far; a new one starts at the chain's present block, or where its unrecorded creation did."""
    if path is not None and path.exists():
        return read_record(path)
    block = max(chain.height, 0)
    pending = load_pending(path)
    return {"chain_id": chain.id, "block": min(block, pending["block"]) if pending else block, "addresses": {}}


def save_record(path: Path | None, record: dict[str, Any]) -> None:
    """Write the deployment file."""
    if path is not None:
        write_json(path, record)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace the file whole, on the disk: no reader and no crash sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        file.write(json.dumps(value, indent=2, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def pending_path(path: Path) -> Path:
    """Where the creation under way is noted."""
    return path.with_suffix(".pending")


def load_pending(path: Path | None) -> dict[str, Any] | None:
    """The creation that a run before sent, or was about to send; None: there is none on this chain."""
    if path is None or not pending_path(path).exists():
        return None
    pending: dict[str, Any] = json.loads(pending_path(path).read_text())
    return pending if pending["chain_id"] == chain.id else None


# ---- verification


def runtime_hash(code: bytes, immutables: list[list[int]]) -> str:
    """The keccak-256 of deployed code without the metadata that ends it, its immutables zero."""
    kept = bytearray(code[: max(len(code) - 2 - int.from_bytes(code[-2:], "big"), 0)])
    for offset, length in immutables:
        kept[offset : offset + length] = bytes(len(kept[offset : offset + length]))
    return "0x" + bytes(web3.keccak(bytes(kept))).hex()


def verify(name: str, address: str, shown: dict[str, Any]) -> None:
    """That `address` holds the contract that this checkout compiles, and its functions show these values.

    The hash leaves the immutables out; those that decide anything are constructor arguments, which functions show.
    Raises `DeploymentError`.
    """
    code = bytes(web3.eth.get_code(address))
    if not code:
        raise DeploymentError(
            f"there is no {name} at {address}; the chain was started anew: remove the deployment file, or name another"
        )
    runtime = artifact(name)["runtime"]
    found = runtime_hash(code, runtime["immutables"])
    if found != runtime["hash"]:
        raise DeploymentError(
            f"{name} at {address} is not what this checkout compiles: expected code with hash {runtime['hash']}, "
            f"found {found}; check out the version that deployed it, or deploy to a new file"
        )
    contract = web3.eth.contract(address=to_address(address), abi=artifact(name)["abi"])
    for getter, expected in shown.items():
        value = contract.functions[getter]().call()
        if value != expected:
            raise DeploymentError(
                f"{name} at {address} was made with {getter} {value}, and not with the plan's {expected}; "
                "give the parameters and the file of that deployment, or deploy to a new file"
            )


def shown_values(step: dict[str, Any], parameters: dict[str, Any], addresses: dict[str, str]) -> dict[str, Any]:
    """The known arguments of a step that functions of its contract show, by the function's name."""
    entries = artifact(step["contract"])["abi"]
    getters = {entry["name"] for entry in entries if entry["type"] == "function" and not entry["inputs"]}
    inputs = next((entry["inputs"] for entry in entries if entry["type"] == "constructor"), [])
    shown = {}
    for given, argument in zip(inputs, step["args"], strict=True):
        getter = SHOWN_BY.get(given["name"], given["name"].removesuffix("_"))
        known = argument.get("address") in addresses or argument.get("parameter") in parameters
        if getter in getters and known:
            shown[getter] = typed(given["type"], resolve(argument, parameters, addresses))
    return shown


def typed(kind: str, value: Any) -> Any:
    """An argument as a function of the contract returns it."""
    if kind == "address":
        return str(to_address(str(value)))
    return int(to_uint(value, kind)) if kind.startswith("uint") else value


def check_record(sender: Any, parameters: dict[str, Any], record: dict[str, Any]) -> None:
    """That the recorded contracts are the plan's and can still be completed, before anything is sent.

    Raises `DeploymentError`.
    """
    addresses: dict[str, str] = record["addresses"]
    recorded = [step for step in PLAN["deployments"] if step["contract"] in addresses]
    for step in recorded:
        name = step["contract"]
        verify(name, addresses[name], shown_values(step, parameters, addresses))
        for used in (argument["address"] for argument in step["args"] if "address" in argument):
            if used not in addresses:
                raise DeploymentError(
                    f"{name} at {addresses[name]} was made for a {used} that the deployment file does not name; "
                    "restore the file, or deploy to a new one"
                )
    for grant in PLAN["grants"]:
        if grant["contract"] in addresses and grant["to"] not in addresses:
            require_admin(contract_class(grant["contract"]).at(addresses[grant["contract"]]), sender)


def require_admin(contract: Any, sender: Any) -> None:
    """That the sender may still grant roles. Raises `DeploymentError`."""
    if not contract.hasRole(ADMIN_ROLE, sender):
        raise DeploymentError(
            f"{contract._name} at {contract.address} was wired to other contracts or by another account than "
            f"{sender.address}, which is not its admin; deploy to a new file"
        )


# ---- deployment


def resolve(argument: dict[str, str], parameters: dict[str, Any], addresses: dict[str, str]) -> Any:
    """The value of one constructor argument of the plan."""
    if "address" in argument:
        return addresses[argument["address"]]
    return parameters[argument["parameter"]]


def place_contracts(
    sender: Any, parameters: dict[str, Any], path: Path | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Deploy what is missing; the rest must verify. Returns the record and the contracts by name."""
    record = load_record(path)
    check_record(sender, parameters, record)
    addresses: dict[str, str] = record["addresses"]
    contracts = {}
    for step in PLAN["deployments"]:
        name = step["contract"]
        if name not in addresses:
            found = find_unrecorded(name, shown_values(step, parameters, addresses), path)
            addresses[name] = found or create(sender, step, parameters, record, path)
            save_record(path, record)
        contracts[name] = contract_class(name).at(addresses[name])
    if path is not None:
        pending_path(path).unlink(missing_ok=True)
    return record, contracts


def create(
    sender: Any, step: dict[str, Any], parameters: dict[str, Any], record: dict[str, Any], path: Path | None
) -> str:
    """Send a creation, after noting the address that its contract will have. Returns the address."""
    name, nonce = step["contract"], web3.eth.get_transaction_count(sender.address, "pending")
    expected = str(sender.get_deployment_address(nonce))
    if path is not None:
        place = {"contract": name, "address": expected, "sender": sender.address, "nonce": nonce}
        write_json(pending_path(path), {**place, "chain_id": record["chain_id"], "block": record["block"]})
    arguments = [resolve(argument, parameters, record["addresses"]) for argument in step["args"]]
    contract = contract_class(name).deploy(*arguments, {"from": sender, "nonce": nonce})
    assert contract.address == expected, f"{name} is at {contract.address}, its nonce says {expected}"
    return expected


def find_unrecorded(name: str, shown: dict[str, Any], path: Path | None) -> str | None:
    """The address of the contract when a run before created it and was cut short before recording it.

    A creation that was never sent, or that made something else, is none. Raises `DeploymentError` until it is mined.
    """
    pending = load_pending(path)
    if pending is None or pending["contract"] != name:
        return None
    sender, nonce, address = pending["sender"], pending["nonce"], pending["address"]
    if web3.eth.get_transaction_count(sender, "latest") <= nonce:
        if web3.eth.get_transaction_count(sender, "pending") > nonce:
            raise DeploymentError(
                f"transaction {nonce} of {sender}, which may create {name}, is not mined yet; run again when it is"
            )
        return None
    try:
        verify(name, address, shown)
    except DeploymentError as error:
        print(f"transaction {nonce} of {sender} did not create the {name} that is wanted, it is created anew: {error}")
        return None
    return str(address)


def wire(sender: Any, contracts: dict[str, Any]) -> None:
    """Grant the plan's roles, then renounce: afterwards nobody can grant anything."""
    at_once = {"from": sender, "required_confs": 0}
    sent = []
    for grant in PLAN["grants"]:
        contract = contracts[grant["contract"]]
        role, holder = web3.keccak(text=grant["role"]), contracts[grant["to"]].address
        if contract.hasRole(role, holder):
            continue
        require_admin(contract, sender)
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


def main(parameters: str, deployment: str | None = None) -> None:
    """Entry point of `brownie run`."""
    path = Path(deployment) if deployment else default_path()
    contracts = deploy(deployer(), json.loads(Path(parameters).read_text()), path)
    print(f"deployment file {path}")
    for name, contract in contracts.items():
        print(f"{name:20} {contract.address}")
