"""`hydra-node tx list | show | bump | cancel`: what an account has sent, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hydra_node.commands.confirm import confirm
from hydra_node.commands.options import (
    DeploymentOption,
    JsonOption,
    KeystoreOption,
    PasswordFileOption,
    RpcOption,
    WalletOption,
    YesOption,
)
from hydra_node.commands.output import Output

if TYPE_CHECKING:
    from hydra_node.chain.fees import Fees
    from hydra_node.chain.outbox import Entry, Outbox
    from hydra_node.chain.sender import Sender

app = typer.Typer(no_args_is_help=True, help="What an account has sent, and what became of it.", rich_markup_mode=None)
NumberArgument = Annotated[int, typer.Argument(help="The number that `tx list` shows.")]
MaxFeeOption = Annotated[
    str, typer.Option("--max-fee", help='The most to offer for a unit of gas, "30 gwei"; default: HYDRA_MAX_FEE.')
]


@app.command("list")
def list_(
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the newest to show.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show an account's transactions, the newest last. Needs no password.

    Example: hydra-node tx list --wallet me
    """
    with _outbox(rpc, deployment, keystore, wallet) as outbox:
        rows = [
            (each.number, each.state, each.call.title, each.nonce, each.block, int(each.created), each.reason or "")
            for each in outbox.entries()[-last:]
        ]
    columns = ("number", "state", "what", "nonce", "block", "asked_at", "reason")
    Output(as_json).table("transactions", columns, rows, empty="this account has sent nothing from here")


@app.command()
def show(
    number: NumberArgument,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one transaction: its states, every fee offered, and why it failed. Needs no password.

    Example: hydra-node tx show 3
    """
    with _outbox(rpc, deployment, keystore, wallet) as outbox:
        Output(as_json).facts("transaction", _facts(outbox.entry(number)))


@app.command()
def bump(
    number: NumberArgument,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    max_fee: MaxFeeOption = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Offer a higher fee for a transaction that is not mined yet.

    Example: hydra-node tx bump 3 --max-fee "30 gwei"
    """
    sender = _sender(rpc, deployment, keystore, wallet, password_file, max_fee)
    fees = _agreed(sender, number, "for", yes=yes, as_json=as_json)
    entry = sender.bump(number, fees)
    Output(as_json).event("bumped", f"offered {_price(fees)} for transaction {number}", **_facts(entry))


@app.command()
def cancel(
    number: NumberArgument,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    max_fee: MaxFeeOption = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Offer a transaction that does nothing in the place of one that is not mined yet; whichever is mined first counts.

    Example: hydra-node tx cancel 3
    """
    sender = _sender(rpc, deployment, keystore, wallet, password_file, max_fee)
    fees = _agreed(sender, number, "to cancel", yes=yes, as_json=as_json)
    entry = sender.cancel(number, fees)
    text = f"offered {_price(fees)} to cancel transaction {number}; see what was mined with: tx show {number}"
    Output(as_json).event("cancelling", text, **_facts(entry))


@contextmanager
def _outbox(rpc: str, deployment: Path | None, keystore: Path | None, wallet: str) -> Iterator[Outbox]:
    """The account's transactions as this machine saw them last; that needs no password."""
    from hydra_node.chain.outbox import Outbox
    from hydra_node.chain.sender import outbox_path
    from hydra_node.commands import session
    from hydra_node.commands.options import wallet_address

    address = wallet_address(keystore, wallet)
    client = session.chain(rpc, deployment)
    yield Outbox(outbox_path(client.rpc, address, session.accounts()))


def _sender(
    rpc: str, deployment: Path | None, keystore: Path | None, wallet: str, password_file: Path | None, max_fee: str
) -> Sender:
    """The account's sender, after it has seen to what was left behind."""
    from hydra_node.chain.amounts import parse_gas_price
    from hydra_node.commands import session

    limit = parse_gas_price(max_fee) if max_fee else None
    client = session.chain(rpc, deployment, keystore=keystore, wallet=wallet, password_file=password_file)
    sender = client.sender
    assert sender is not None
    if limit is not None:
        sender.max_fee = limit
    sender.settle()
    return sender


def _agreed(sender: Sender, number: int, purpose: str, *, yes: bool, as_json: bool) -> Fees:
    """The next offer, once the user has said yes to it."""
    fees = sender.next_offer(number)
    confirm(f"Offer {_price(fees)} {purpose} transaction {number}?", yes=yes, as_json=as_json)
    return fees


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "state": str(entry.state),
        "what": entry.call.title,
        "key": entry.key,
        "to": entry.call.address,
        "nonce": entry.nonce,
        "block": entry.block,
        "hashes": [f"0x{offer.tx_hash.hex()}" for offer in entry.offers],
        "fees": [_price(offer.fees) + (" to cancel" if offer.cancels else "") for offer in entry.offers],
        "asked_at": int(entry.created),
        "changed_at": int(entry.updated),
        "reason": entry.reason,
    }


def _price(fees: Fees) -> str:
    from hydra_node.chain.amounts import format_gas_price

    return format_gas_price(fees.limit)
