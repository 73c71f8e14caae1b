"""The demo's books, from events alone."""

from __future__ import annotations

from typing import Any

from hydra_node.chain.events import Event
from hydra_node.devnet import books

SPONSOR, WORKER, ESCROW, STAKES = (f"0x{n:040x}" for n in range(1, 5))
NAMES = {SPONSOR: "sponsor", WORKER: "worker"}


def event(contract: str, name: str, **args: Any) -> Event:
    return Event(contract, name, args, 1, b"", b"", 0, 0, 0)


def story() -> list[Event]:
    terms = {"bond": 7}
    return [
        event("HydraToken", "Transfer", **{"from": books.ZERO_ADDRESS, "to": SPONSOR, "value": 1000}),
        event("HydraToken", "Transfer", **{"from": SPONSOR, "to": ESCROW, "value": 500}),
        event("JobEscrow", "JobOpened", jobId=1, amount=500),
        event("SubmissionRegistry", "CampaignOpened", jobId=1, terms=terms),
        event("SubmissionRegistry", "Committed", jobId=1, submissionId=1),
        event("SubmissionRegistry", "Committed", jobId=1, submissionId=2),
        event("SubmissionRegistry", "Revealed", jobId=1, submissionId=1),
        event("JobEscrow", "Paid", jobId=1, to=WORKER, amount=120),
        event("JobEscrow", "Refunded", jobId=1, sponsor=SPONSOR, amount=380),
        event("StakeManager", "Staked", role=1, operator=WORKER, amount=90),
        event("StakeManager", "Slashed", role=1, operator=WORKER, amount=30),
        event("StakeManager", "Withdrawn", role=1, operator=WORKER, amount=20),
    ]


def report(events: list[Event], held: dict[str, int], supply: int = 1000) -> dict[str, Any]:
    return books.to_report(books.accounts(events, lambda a: NAMES[a]), held, supply, events)


HELD = {"JobEscrow": 0, "StakeManager": 40, "SubmissionRegistry": 7}


def test_every_wei_is_somewhere() -> None:
    book = books.accounts(story(), lambda address: NAMES[address])
    assert book["escrow of job 1"].remaining == 0
    assert book["trainer stake of worker"] == books.Account("StakeManager", 90, 0, 20, 30)
    assert book["bonds of campaign 1"].remaining == 7
    assert report(story(), HELD)["balanced"]


def test_a_contract_that_holds_too_little_unbalances_the_books() -> None:
    assert not report(story(), {**HELD, "StakeManager": 39})["balanced"]


def test_a_contract_that_is_missing_unbalances_the_books() -> None:
    held = {name: wei for name, wei in HELD.items() if name != "StakeManager"}
    assert not report(story(), held)["balanced"]


def test_paying_more_than_was_deposited_unbalances_the_books() -> None:
    events = [*story(), event("JobEscrow", "Paid", jobId=1, to=WORKER, amount=1)]
    assert not report(events, {**HELD, "JobEscrow": -1})["balanced"]


def test_tokens_from_nowhere_unbalance_the_books() -> None:
    assert not report(story(), HELD, supply=1001)["balanced"]


def test_empty_books_do_not_balance() -> None:
    assert not report([], {})["balanced"]
