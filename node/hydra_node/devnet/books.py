"""The books: every wei that entered an escrow, a stake or a bond, and where it went.

Pure: from decoded events to accounts. What the accounts of a contract should still hold is compared with what the token
says the contract holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from hydra_node.chain.enums import Role
from hydra_node.chain.events import Event

ESCROW, STAKES, BONDS, DISPUTES = "JobEscrow", "StakeManager", "SubmissionRegistry", "DisputeManager"
ZERO_ADDRESS = "0x" + "0" * 40


@dataclass(frozen=True, slots=True)
class Account:
    """One pot of money, in wei: deposited = paid + refunded + slashed + remaining."""

    contract: str
    deposited: int = 0
    paid: int = 0
    refunded: int = 0
    slashed: int = 0

    @property
    def remaining(self) -> int:
        return self.deposited - self.paid - self.refunded - self.slashed

    def plus(self, column: str, amount: int) -> Account:
        return replace(self, **{column: getattr(self, column) + amount})

    def to_report(self) -> dict[str, Any]:
        """As the report shows it; a pot that gave out more than it got is not balanced."""
        return {**asdict(self), "remaining": self.remaining, "balanced": self.remaining >= 0}


Entry = tuple[str, str, str, int]  # account's name, its contract, column, wei


def accounts(events: Iterable[Event], name_of: Callable[[str], str]) -> dict[str, Account]:
    """The accounts that the events tell of, by name; `name_of` gives a participant's name for an address."""
    book: dict[str, Account] = {}
    bonds: dict[int, int] = {}
    for event in events:
        if event.name == "CampaignOpened":
            bonds[event.args["jobId"]] = _bond(event.args["terms"])
        for name, contract, column, amount in _entries(event, name_of, bonds):
            book[name] = book.get(name, Account(contract)).plus(column, amount)
    return book


def token_balances(events: Iterable[Event]) -> dict[str, int]:
    """The balance of every address, in wei, by the token's transfers; the zero address has minus the supply."""
    balances: dict[str, int] = {}
    for event in events:
        if event.name == "Transfer":
            source, target, value = str(event.args["from"]), str(event.args["to"]), int(event.args["value"])
            balances[source] = balances.get(source, 0) - value
            balances[target] = balances.get(target, 0) + value
    return balances


def to_report(
    book: Mapping[str, Account], held: Mapping[str, int], supply: int, events: Iterable[Event]
) -> dict[str, Any]:
    """The report's `books`; `held` is what the token says each contract holds, `supply` the token's total supply."""
    owed = dict.fromkeys(held, 0)
    for account in book.values():
        owed[account.contract] = owed.get(account.contract, 0) + account.remaining
    balances = token_balances(events)
    contracts = {name: {"owed_wei": owed[name], "held_wei": held.get(name, 0)} for name in owed}
    supply_matches = -balances.get(ZERO_ADDRESS, 0) == supply
    balanced = (
        bool(book)
        and supply_matches
        and all(account.remaining >= 0 for account in book.values())
        and all(pair["owed_wei"] == pair["held_wei"] for pair in contracts.values())
    )
    return {
        "accounts": {name: account.to_report() for name, account in sorted(book.items())},
        "contracts": contracts,
        "supply_wei": supply,
        "supply_matches_transfers": supply_matches,
        "balanced": balanced,
    }


def _entries(event: Event, name_of: Callable[[str], str], bonds: Mapping[int, int]) -> list[Entry]:
    args = event.args
    if event.contract == ESCROW and event.name in _ESCROW_COLUMNS:
        return [(f"escrow of job {args['jobId']}", ESCROW, _ESCROW_COLUMNS[event.name], int(args["amount"]))]
    if event.contract == STAKES and event.name in _STAKE_COLUMNS:
        name = f"{Role(args['role']).name.lower()} stake of {name_of(args['operator'])}"
        return [(name, STAKES, _STAKE_COLUMNS[event.name], int(args["amount"]))]
    if event.contract == BONDS and event.name in _BOND_COLUMNS:
        name = f"bonds of campaign {args['jobId']}"
        return [(name, BONDS, _BOND_COLUMNS[event.name], bonds[args["jobId"]])]
    if event.contract == DISPUTES and event.name in _DISPUTE_COLUMNS:
        column, amount = _DISPUTE_COLUMNS[event.name]
        return [(f"bonds of dispute {args['disputeId']}", DISPUTES, column, int(args[amount]))]
    return []


_ESCROW_COLUMNS = {"JobOpened": "deposited", "ToppedUp": "deposited", "Paid": "paid", "Refunded": "refunded"}
_STAKE_COLUMNS = {"Staked": "deposited", "Withdrawn": "refunded", "Slashed": "slashed"}
_BOND_COLUMNS = {"Committed": "deposited", "Revealed": "refunded", "Forfeited": "paid"}
_DISPUTE_COLUMNS = {
    "Challenged": ("deposited", "bond"),
    "Defended": ("deposited", "bond"),
    "BondPaid": ("paid", "amount"),
}


def _bond(terms: Any) -> int:
    return int(terms["bond"] if isinstance(terms, Mapping) else terms.bond)
