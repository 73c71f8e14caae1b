"""One sequence of nonces per account, whoever sends: a lock file per account, and the outbox for what was sent.

Processes that share a state directory share both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hydra_node.chain.files import private_directory
from hydra_node.chain.outbox import Entry, Outbox
from hydra_node.chain.rpc import Rpc
from hydra_node.errors import HydraError

LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.01


class AccountBusy(HydraError):
    """Another process kept the account's lock for too long."""


class NonceKeeper:
    """The nonces of one account on one chain."""

    def __init__(self, rpc: Rpc, address: str, outbox: Outbox, lock: Path) -> None:
        self._rpc = rpc
        self._address = address
        self._outbox = outbox
        self._lock = private_directory(lock.parent) / lock.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the account: nobody else sends from it meanwhile. Raises `AccountBusy`."""
        lock = FileLock(self._lock)
        try:
            lock.acquire(timeout=LOCK_SECONDS, poll_interval=_POLL_SECONDS)
        except Timeout:
            raise AccountBusy(
                f"another process has been sending from {self._address} for {LOCK_SECONDS:g} s",
                remedy=f"stop it; the lock is {self._lock}",
            ) from None
        try:
            yield
        finally:
            lock.release()

    def next(self) -> int:
        """The nonce to use now; only while the account is held.

        The node's own count of pending transactions decides, which knows of other senders too, but for what the node
        has not counted yet, or has forgotten.
        """
        nonce = int(self._rpc.request("eth_getTransactionCount", self._address, "pending"), 16)
        while any(self._takes(entry) for entry in self._outbox.by_nonce(nonce)):
            nonce += 1
        return nonce

    def _takes(self, entry: Entry) -> bool:
        """Whether the entry's nonce is used up. What has ended counts while the chain has it: whoever runs a chain of
        one machine may have taken it back."""
        return not entry.state.ended or any(
            self._rpc.request("eth_getTransactionReceipt", f"0x{offer.tx_hash.hex()}") for offer in entry.offers
        )
