"""The pool decides which transactions run, and in which order."""

from __future__ import annotations

import pytest

from hydra_node.devnet.embedded.pool import PoolError, TransactionPool, Waiting

ALICE, BOB = b"a" * 20, b"b" * 20
RICH = 10**30


def transaction(sender: bytes, nonce: int, *, fee: int = 100, tip: int = 10, cost: int = 1) -> Waiting[None]:
    identity = b"%s/%d/%d" % (sender[:1], nonce, fee)
    return Waiting(identity, sender, nonce, gas=21_000, max_fee=fee, tip=tip, cost=cost, body=None)


def filled(*transactions: Waiting[None]) -> TransactionPool[None]:
    pool: TransactionPool[None] = TransactionPool()
    for each in transactions:
        pool.add(each, account_nonce=0, balance=RICH)
    return pool


def order(pool: TransactionPool[None], nonces: dict[bytes, int] | None = None) -> list[tuple[bytes, int]]:
    known = nonces or {}
    return [(each.sender[:1], each.nonce) for each in pool.executable(lambda sender: known.get(sender, 0))]


def test_senders_take_turns_by_arrival() -> None:
    pool = filled(transaction(ALICE, 0), transaction(BOB, 0), transaction(ALICE, 1))
    assert order(pool) == [(b"a", 0), (b"b", 0), (b"a", 1)]


def test_an_early_late_nonce_does_not_overtake_its_predecessors() -> None:
    pool = filled(transaction(ALICE, 1), transaction(BOB, 0), transaction(ALICE, 0))
    assert order(pool) == [(b"b", 0), (b"a", 0), (b"a", 1)]


def test_nothing_runs_behind_a_gap_until_it_is_filled() -> None:
    pool = filled(transaction(ALICE, 0), transaction(ALICE, 2))
    assert order(pool) == [(b"a", 0)]
    assert pool.next_nonce(ALICE, 0) == 1
    pool.add(transaction(ALICE, 1), account_nonce=0, balance=RICH)
    assert order(pool) == [(b"a", 0), (b"a", 1), (b"a", 2)]
    assert pool.next_nonce(ALICE, 0) == 3


def test_what_the_account_has_overtaken_is_forgotten() -> None:
    stale = transaction(ALICE, 0)
    pool = filled(stale, transaction(ALICE, 1))
    assert order(pool, {ALICE: 1}) == [(b"a", 1)]
    assert pool.get(stale.hash) is None
    assert len(pool) == 1


def test_the_same_transaction_is_taken_once() -> None:
    pool = filled(transaction(ALICE, 0))
    with pytest.raises(PoolError, match="already known"):
        pool.add(transaction(ALICE, 0), account_nonce=0, balance=RICH)


def test_a_used_nonce_is_refused() -> None:
    with pytest.raises(PoolError, match="nonce too low: next nonce 3, tx nonce 2"):
        filled().add(transaction(ALICE, 2), account_nonce=3, balance=RICH)


def test_who_cannot_pay_is_refused() -> None:
    with pytest.raises(PoolError, match="insufficient funds"):
        filled().add(transaction(ALICE, 0, cost=11), account_nonce=0, balance=10)


def test_a_replacement_must_pay_a_tenth_more() -> None:
    first = transaction(ALICE, 0, fee=100, tip=10)
    pool = filled(first)
    for fee, tip in ((109, 11), (110, 10)):
        with pytest.raises(PoolError, match="replacement transaction underpriced"):
            pool.add(transaction(ALICE, 0, fee=fee, tip=tip), account_nonce=0, balance=RICH)
    better = transaction(ALICE, 0, fee=111, tip=11)
    pool.add(better, account_nonce=0, balance=RICH)
    assert pool.executable(lambda _: 0) == [better]
    assert pool.get(first.hash) is None


def test_memory_is_bounded_in_all_and_per_sender() -> None:
    pool: TransactionPool[None] = TransactionPool(capacity=3, per_sender=2)
    pool.add(transaction(ALICE, 0), account_nonce=0, balance=RICH)
    pool.add(transaction(ALICE, 1), account_nonce=0, balance=RICH)
    with pytest.raises(PoolError, match="full for this account"):
        pool.add(transaction(ALICE, 2), account_nonce=0, balance=RICH)
    pool.add(transaction(BOB, 0), account_nonce=0, balance=RICH)
    with pytest.raises(PoolError, match="txpool is full"):
        pool.add(transaction(BOB, 1), account_nonce=0, balance=RICH)
    pool.discard([transaction(ALICE, 0)])
    pool.add(transaction(BOB, 1), account_nonce=0, balance=RICH)


def test_a_refused_transaction_leaves_no_trace() -> None:
    pool: TransactionPool[None] = TransactionPool(capacity=0)
    with pytest.raises(PoolError):
        pool.add(transaction(ALICE, 0), account_nonce=0, balance=RICH)
    assert order(pool) == []
    assert pool.next_nonce(ALICE, 0) == 0
