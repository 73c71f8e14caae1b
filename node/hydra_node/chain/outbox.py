"""Every transaction of an account on disk, from the moment it is asked for until it is final.

    prepared -> simulated -> sent -> mined -> final
                    |          |  \\-> replaced
                    \\----------+---> failed, with the reason

A transaction is signed and written down before it leaves: a process that is killed at any moment and started again
finds what it may have sent, and sends those very bytes again, never other ones. SQLite keeps it; what must be durable
before the network sees it is synchronised to the disk.

An entry may have a key, the name its owner gave to what it wants done ("round-7-commit"). Asking again for the same key
finds the same entry, whatever became of the process that asked first.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hydra_node.chain.fees import Fees
from hydra_node.chain.files import private_directory
from hydra_node.chain.transactions import ContractCall
from hydra_node.errors import HydraError

BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT, title TEXT NOT NULL, target TEXT, data BLOB NOT NULL, value TEXT NOT NULL, gas INTEGER,
    state TEXT NOT NULL, nonce INTEGER, reason TEXT, block INTEGER, block_hash BLOB,
    owner TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS keys ON entries (key) WHERE state NOT IN ('failed', 'replaced');
CREATE INDEX IF NOT EXISTS states ON entries (state);
CREATE INDEX IF NOT EXISTS nonces ON entries (nonce);
CREATE TABLE IF NOT EXISTS offers (
    entry INTEGER NOT NULL REFERENCES entries (number), position INTEGER NOT NULL,
    hash BLOB NOT NULL, raw BLOB NOT NULL, fee TEXT NOT NULL, tip TEXT, cancels INTEGER NOT NULL,
    PRIMARY KEY (entry, position)
);
"""


class OutboxDamaged(HydraError):
    """The file of an account's transactions cannot be read."""


class NoSuchEntry(HydraError):
    """There is no transaction of that number."""


class TxState(StrEnum):
    """How far a transaction has come."""

    PREPARED = "prepared"
    SIMULATED = "simulated"
    SENT = "sent"
    MINED = "mined"
    FINAL = "final"
    REPLACED = "replaced"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing changes any more."""
        return self in {TxState.FINAL, TxState.REPLACED, TxState.FAILED}


@dataclass(frozen=True, slots=True)
class Offer:
    """A signed transaction: one of those that compete for an entry's nonce. `cancels`: it does nothing instead."""

    tx_hash: bytes
    raw: bytes = field(repr=False)
    fees: Fees
    cancels: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A transaction and what became of it. Times are seconds since 1970; `block` is where it was mined."""

    number: int
    key: str | None
    call: ContractCall
    state: TxState
    nonce: int | None
    offers: tuple[Offer, ...]
    reason: str | None
    block: int | None
    block_hash: bytes | None
    owner: str
    created: float
    updated: float


class Outbox:
    """The transactions of one account on one chain, shared by the threads and processes that send from it.

    Raises `OutboxDamaged` where the file is no outbox.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        private_directory(path.parent)
        self._lock = threading.Lock()
        self.owner = uuid.uuid4().hex
        self._alive = self._owner_lock(self.owner)
        self._alive.acquire()
        try:
            self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise OutboxDamaged(
                f"the transactions in {path} cannot be read ({error})",
                remedy="move the file away; what it held may have been sent, so look at the account on chain first",
            ) from None

    # --- what there is -----------------------------------------------------------------------------------------------

    def entry(self, number: int) -> Entry:
        """Raises `NoSuchEntry`."""
        found = self._select("number = ?", number)
        if not found:
            raise NoSuchEntry(f"there is no transaction number {number}", remedy="see: hydra-node tx list")
        return found[0]

    def entries(self) -> list[Entry]:
        """All of them, oldest first."""
        return self._select("1")

    def in_state(self, *states: TxState) -> list[Entry]:
        """Those in one of the states, oldest first."""
        return self._select(f"state IN ({', '.join('?' * len(states))})", *states)

    def by_key(self, key: str) -> Entry | None:
        """The entry of that key that has not failed."""
        found = self._select("key = ? AND state NOT IN ('failed', 'replaced')", key)
        return found[0] if found else None

    def by_nonce(self, nonce: int) -> list[Entry]:
        """The entries that were signed with that nonce."""
        return self._select("nonce = ?", nonce)

    # --- what happens to them ----------------------------------------------------------------------------------------

    def prepare(self, call: ContractCall, key: str | None = None) -> Entry:
        """Write down what is wanted; the entry of the same key, if there is one."""
        now = time.time()
        with self._change() as db:
            if key is not None:
                row = db.execute(
                    "SELECT number FROM entries WHERE key = ? AND state NOT IN ('failed', 'replaced')", (key,)
                ).fetchone()
                if row is not None:
                    number = row[0]
                    db.execute(
                        "UPDATE entries SET owner = ? WHERE number = ? AND state IN ('prepared', 'simulated')",
                        (self.owner, number),
                    )
                    return self._read(db, "number = ?", number)[0]
            what = (key, call.title, call.address, call.data, str(call.value), call.gas)
            cursor = db.execute(
                "INSERT INTO entries (key, title, target, data, value, gas, state, owner, created, updated) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*what, TxState.PREPARED, self.owner, now, now),
            )
            return self._read(db, "number = ?", cursor.lastrowid)[0]

    def simulated(self, number: int, gas: int) -> Entry:
        """The newest state accepts it; `gas` is the limit to send it with."""
        return self._update(number, state=TxState.SIMULATED, gas=gas)

    def sign(self, number: int, nonce: int, offer: Offer) -> Entry:
        """Before it leaves: on the disk when this returns. A further offer competes with the earlier ones."""
        with self._change(durable=True) as db:
            (position,) = db.execute("SELECT COUNT(*) FROM offers WHERE entry = ?", (number,)).fetchone()
            fees = offer.fees
            db.execute(
                "INSERT INTO offers VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    number,
                    position,
                    offer.tx_hash,
                    offer.raw,
                    str(fees.limit),
                    None if fees.tip is None else str(fees.tip),
                    offer.cancels,
                ),
            )
            return self._set(db, number, {"state": TxState.SENT, "nonce": nonce})

    def withdraw(self, number: int) -> Entry:
        """The chain certainly did not take it, its nonce being used: it may be signed anew."""
        with self._change() as db:
            db.execute("DELETE FROM offers WHERE entry = ?", (number,))
            return self._set(db, number, {"state": TxState.SIMULATED, "nonce": None})

    def mined(self, number: int, block: int, block_hash: bytes, *, final: bool) -> Entry:
        """It is in a block, with enough others above it or not."""
        state = TxState.FINAL if final else TxState.MINED
        return self._update(number, state=state, block=block, block_hash=block_hash)

    def unmined(self, number: int) -> Entry:
        """A reorganisation took its block away: it is only sent, as before."""
        return self._update(number, state=TxState.SENT, block=None, block_hash=None)

    def replaced(self, number: int, reason: str) -> Entry:
        """Another transaction took its nonce."""
        return self._update(number, state=TxState.REPLACED, reason=reason)

    def failed(self, number: int, reason: str, *, block: int | None = None) -> Entry:
        """It was refused, or was mined and failed (`block`)."""
        return self._update(number, state=TxState.FAILED, reason=reason, block=block)

    # --- owners ------------------------------------------------------------------------------------------------------

    def is_orphan(self, entry: Entry) -> bool:
        """Whether the process that owns the entry is gone; this one takes it over then."""
        if entry.owner == self.owner:
            return False
        lock = self._owner_lock(entry.owner)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)
        self._update(entry.number, owner=self.owner)
        return True

    def _owner_lock(self, owner: str) -> FileLock:
        # Held while its process lives; the system lets go of it however the process ends.
        folder = private_directory(self._path.parent / "owners")
        return FileLock(folder / f"{owner}.lock", thread_local=False)

    # --- SQLite ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _change(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction. It survives the end of the process in any case, and with `durable` that of the machine."""
        with self._lock:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _update(self, number: int, **columns: Any) -> Entry:
        with self._change() as db:
            return self._set(db, number, columns)

    def _set(self, db: sqlite3.Connection, number: int, columns: dict[str, Any]) -> Entry:
        columns["updated"] = time.time()
        assignments = ", ".join(f"{name} = ?" for name in columns)
        db.execute(f"UPDATE entries SET {assignments} WHERE number = ?", (*columns.values(), number))  # noqa: S608  names are ours
        return self._read(db, "number = ?", number)[0]

    def _select(self, condition: str, *values: Any) -> list[Entry]:
        with self._lock:
            return self._read(self._db, condition, *values)

    def _read(self, db: sqlite3.Connection, condition: str, *values: Any) -> list[Entry]:
        query = f"SELECT * FROM entries WHERE {condition} ORDER BY number"  # noqa: S608  conditions are ours
        rows = db.execute(query, values).fetchall()
        offers = "SELECT * FROM offers WHERE entry = ? ORDER BY position"
        return [_entry(row, db.execute(offers, (row["number"],)).fetchall()) for row in rows]


def _entry(row: sqlite3.Row, offers: Sequence[sqlite3.Row]) -> Entry:
    return Entry(
        number=row["number"],
        key=row["key"],
        call=ContractCall(row["title"], row["target"], row["data"], int(row["value"]), row["gas"]),
        state=TxState(row["state"]),
        nonce=row["nonce"],
        offers=tuple(
            Offer(
                tx_hash=offer["hash"],
                raw=offer["raw"],
                fees=Fees(int(offer["fee"]), None if offer["tip"] is None else int(offer["tip"])),
                cancels=bool(offer["cancels"]),
            )
            for offer in offers
        ),
        reason=row["reason"],
        block=row["block"],
        block_hash=row["block_hash"],
        owner=row["owner"],
        created=row["created"],
        updated=row["updated"],
    )
