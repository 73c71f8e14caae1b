"""Top accounts up with ether and tokens from the deployer; run by brownie.

    brownie run scripts/fund.py main RECIPIENTS [DEPLOYMENT] --network hydra

RECIPIENTS is a JSON file {ADDRESS: {"ether": "0.5", "tokens": "100"}}: the balances that every address shall have at
least. Only what is missing is sent, so that a second run sends nothing. DEPLOYMENT and the deployer are those of
`deploy.py`; the deployer must hold the tokens.
"""

from __future__ import annotations

import json
from decimal import Context, Inexact, InvalidOperation
from pathlib import Path
from typing import Any

from brownie import web3
from scripts.deploy import DeploymentError, confirm, contract_class, default_path, deployer, read_record, verify

DECIMALS = 18
EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])


def to_wei(text: Any, place: str) -> int:
    """An amount such as "0.5" in wei. Raises `DeploymentError`."""
    try:
        amount = EXACT.scaleb(EXACT.create_decimal(str(text)), DECIMALS)
        if amount < 0 or amount != amount.to_integral_value(context=EXACT):
            raise InvalidOperation
        return int(amount)
    except (InvalidOperation, Inexact, OverflowError, ValueError):
        raise DeploymentError(
            f'{place} is {str(text)[:80]!r}; expected an amount such as "0.5", with at most {DECIMALS} decimals'
        ) from None


def from_wei(wei: int) -> str:
    """The amount as people write it: 0.5."""
    whole, part = divmod(wei, 10**DECIMALS)
    return f"{whole}.{part:0{DECIMALS}}".rstrip("0").rstrip(".")


def read_recipients(path: Path) -> dict[str, dict[str, int]]:
    """The wanted balances in wei by checksummed address. Raises `DeploymentError`."""
    try:
        listed = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DeploymentError(f"the recipients cannot be read from {path}: {error}") from None
    wanted: dict[str, dict[str, int]] = {}
    if not isinstance(listed, dict):
        raise DeploymentError(f'{path} holds no recipients; expected {{ADDRESS: {{"ether": "0.5", "tokens": "100"}}}}')
    for address, amounts in listed.items():
        if not web3.is_address(address):
            raise DeploymentError(f"{address[:80]!r} in {path} is not an address")
        if not isinstance(amounts, dict) or not set(amounts) <= {"ether", "tokens"}:
            raise DeploymentError(f'{path} gives {address} {amounts!r}; expected {{"ether": "0.5", "tokens": "100"}}')
        key = str(web3.to_checksum_address(address))
        if key in wanted:
            raise DeploymentError(f"{path} names {key} twice")
        wanted[key] = {kind: to_wei(text, f"{kind} of {address}") for kind, text in amounts.items()}
    return wanted


def missing_funds(sender: Any, wanted: dict[str, dict[str, int]], token: Any) -> dict[str, dict[str, int]]:
    """What every address lacks, in wei. Raises `DeploymentError` when the sender cannot pay all of it."""
    balance = {"ether": web3.eth.get_balance, "tokens": token.balanceOf}
    lacking = {
        address: {kind: max(amount - balance[kind](address), 0) for kind, amount in amounts.items()}
        for address, amounts in wanted.items()
    }
    for kind, held in balance.items():
        needed = sum(amounts.get(kind, 0) for amounts in lacking.values())
        if needed > held(sender.address):
            raise DeploymentError(
                f"{sender.address} has {from_wei(held(sender.address))} {kind} and {from_wei(needed)} are missing; "
                "send it more, or fund fewer"
            )
    if any(lacking.get(sender.address, {}).values()):
        raise DeploymentError(f"{sender.address} is the account that pays and cannot top itself up; leave it out")
    return lacking


def fund(sender: Any, wanted: dict[str, dict[str, int]], path: Path) -> dict[str, dict[str, int]]:
    """Top every address up to the wanted balances. Returns what was sent, in wei. Raises `DeploymentError`."""
    address = read_record(path)["addresses"].get("HydraToken")
    if address is None:
        raise DeploymentError(f"{path} has no HydraToken; finish the deployment first")
    verify("HydraToken", address, {})
    token = contract_class("HydraToken").at(address)
    lacking = missing_funds(sender, wanted, token)
    sent = []
    for recipient, amounts in lacking.items():
        if amounts.get("ether"):
            sent.append(sender.transfer(recipient, amounts["ether"], required_confs=0))
        if amounts.get("tokens"):
            sent.append(token.transfer(recipient, amounts["tokens"], {"from": sender, "required_confs": 0}))
    confirm(sent)
    return lacking


def main(recipients: str, deployment: str | None = None) -> None:
    """Entry point of `brownie run`."""
    wanted = read_recipients(Path(recipients))
    for address, amounts in fund(deployer(), wanted, Path(deployment) if deployment else default_path()).items():
        given = [f"{from_wei(amount)} {kind}" for kind, amount in amounts.items() if amount]
        print(f"{address} {'received ' + ' and '.join(given) if given else 'has enough'}")
