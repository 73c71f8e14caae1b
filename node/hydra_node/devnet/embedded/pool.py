"""Transactions that wait for a block: ordered by arrival, by nonce within one sender, gaps held back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Body = TypeVar("Body")

MAX_TRANSACTIONS = 8192
MAX_PER_SENDER = 1024
REPLACEMENT_PERCENT = 110


class PoolError(Exception):
    """Why a transaction was not taken in; the message is the one that Ethereum clients know."""


@dataclass(frozen=True, slots=True)
class Waiting(Generic[Body]):
    """A transaction as the pool sees it. Amounts in wei; `cost` is the most that it can take from its sender."""

    hash: bytes
    sender: bytes
    nonce: int
    gas: int
    max_fee: int
    tip: int
    cost: int
    body: Body


@dataclass(slots=True)
class _Entry(Generic[Body]):
    transaction: Waiting[Body]
    arrival: int


@dataclass(slots=True)
class TransactionPool(Generic[Body]):
    """Bounded and safe to use from several threads. It knows accounts only through what its callers tell it."""

    capacity: int = MAX_TRANSACTIONS
    per_sender: int = MAX_PER_SENDER
    _senders: dict[bytes, dict[int, _Entry[Body]]] = field(default_factory=dict)
    _by_hash: dict[bytes, Waiting[Body]] = field(default_factory=dict)
    _arrivals: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._by_hash)

    def get(self, transaction_hash: bytes) -> Waiting[Body] | None:
        return self._by_hash.get(transaction_hash)

    def add(self, transaction: Waiting[Body], *, account_nonce: int, balance: int) -> None:
        """Take a transaction in, or in place of one with the same nonce if it pays 10 % more.

        Raises PoolError: already known, nonce too low, insufficient funds, replacement underpriced, pool full.
        """
        with self._lock:
            if transaction.hash in self._by_hash:
                raise PoolError("already known")
            if transaction.nonce < account_nonce:
                raise PoolError(f"nonce too low: next nonce {account_nonce}, tx nonce {transaction.nonce}")
            if transaction.cost > balance:
                raise PoolError(
                    "insufficient funds for gas * price + value: "
                    f"balance {balance}, tx cost {transaction.cost}, overshot {transaction.cost - balance}"
                )
            queue = self._senders.setdefault(transaction.sender, {})
            replaced = queue.get(transaction.nonce)
            if replaced is None:
                self._check_room(queue)
                self._arrivals += 1
                queue[transaction.nonce] = _Entry(transaction, self._arrivals)
            else:
                if not _outbids(transaction, replaced.transaction):
                    raise PoolError("replacement transaction underpriced")
                del self._by_hash[replaced.transaction.hash]
                replaced.transaction = transaction
            self._by_hash[transaction.hash] = transaction

    def _check_room(self, queue: dict[int, _Entry[Body]]) -> None:
        if len(self._by_hash) >= self.capacity:
            raise PoolError("txpool is full")
        if len(queue) >= self.per_sender:
            raise PoolError("txpool is full for this account")

    def next_nonce(self, sender: bytes, account_nonce: int) -> int:
        """The nonce after the last one that has no gap before it."""
        with self._lock:
            queue = self._senders.get(sender, {})
            nonce = account_nonce
            while nonce in queue:
                nonce += 1
            return nonce

    def executable(self, nonce_of: Callable[[bytes], int]) -> list[Waiting[Body]]:
        """All transactions that can run now, in order; those already overtaken by their account are dropped.

        A transaction takes the place of the latest arrival among itself and those of its sender before it.
        """
        with self._lock:
            ready: list[tuple[int, int, Waiting[Body]]] = []
            for sender in list(self._senders):
                account_nonce = nonce_of(sender)
                self._drop(
                    entry.transaction for nonce, entry in list(self._senders[sender].items()) if nonce < account_nonce
                )
                place, nonce, queue = 0, account_nonce, self._senders.get(sender, {})
                while nonce in queue:
                    place = max(place, queue[nonce].arrival)
                    ready.append((place, nonce, queue[nonce].transaction))
                    nonce += 1
            ready.sort(key=lambda item: item[:2])
            return [transaction for _, _, transaction in ready]

    def discard(self, transactions: Iterable[Waiting[Body]]) -> None:
        """Forget transactions: mined, or found unfit while a block was built."""
        with self._lock:
            self._drop(transactions)

    def clear(self) -> None:
        with self._lock:
            self._senders.clear()
            self._by_hash.clear()

    def _drop(self, transactions: Iterable[Waiting[Body]]) -> None:
        for transaction in transactions:
            if self._by_hash.pop(transaction.hash, None) is None:
                continue
            queue = self._senders[transaction.sender]
            del queue[transaction.nonce]
            if not queue:
                del self._senders[transaction.sender]


def _outbids(new: Waiting[Body], old: Waiting[Body]) -> bool:
    return new.max_fee * 100 >= old.max_fee * REPLACEMENT_PERCENT and new.tip * 100 >= old.tip * REPLACEMENT_PERCENT
