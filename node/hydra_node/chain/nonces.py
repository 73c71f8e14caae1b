"""One sequence of nonces per account, whoever sends: a lock file per account, and a note of what was sent last.

Processes that share a state directory share the lock. The note is written before its transaction is sent, so that a
process that dies in between leaves neither a gap nor a nonce used twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from hydra_node.chain.files import private_directory, write_private
from hydra_node.chain.rpc import Rpc
from hydra_node.errors import HydraError

LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.01


class AccountBusy(HydraError):
    """Another process kept the account's lock for too long."""


@dataclass(frozen=True, slots=True)
class LastSent:
    """The newest transaction of the account that was about to be sent."""

    nonce: int
    tx_hash: str


class NonceKeeper:
    """The nonces of one account on one chain."""

    def __init__(self, rpc: Rpc, address: str, directory: Path) -> None:
        self._rpc = rpc
        self._address = address
        stem = f"{rpc.chain_id}-{address.lower()}"
        self._note = directory / f"{stem}.json"
        self._lock = private_directory(directory) / f"{stem}.lock"

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

        The node's own count of pending transactions decides, unless it lags behind a transaction that it does know.
        A note of a transaction that the node has never seen (a chain started anew, a crash before sending) is void.
        """
        pending = int(self._rpc.request("eth_getTransactionCount", self._address, "pending"), 16)
        last = self._read()
        if last is None or last.nonce < pending:
            return pending
        return last.nonce + 1 if self._rpc.request("eth_getTransactionByHash", last.tx_hash) else pending

    def note(self, last: LastSent) -> None:
        """Remember a transaction that is about to be sent."""
        write_private(self._note, json.dumps({"nonce": last.nonce, "hash": last.tx_hash}).encode())

    def _read(self) -> LastSent | None:
        try:
            fields = json.loads(self._note.read_bytes())
            return LastSent(nonce=int(fields["nonce"]), tx_hash=str(fields["hash"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            # A damaged note says nothing; the node's count is right but for transactions it has not shown yet.
            return None
