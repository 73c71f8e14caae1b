"""What has happened on chain so far, kept on disk and current: read from the chain once, by whoever comes first.

SQLite holds the logs as the chain gave them; events are decoded when they are loaded. The processes of a machine share
one file for a deployment, and each goes on where the last one stopped, also after it was killed.

A reorganisation takes its events back out. One block, the anchor, is remembered by its hash: the blocks above it, at
least `depth` of them, are read again each time, and when the anchor itself is replaced everything is read anew.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_node.chain.events import Batch, Event, EventLog, LogRecord
from hydra_node.chain.files import private_directory
from hydra_node.errors import HydraError

DEPTH = 64
BUSY_SECONDS = 30.0
POLL_SECONDS = 0.3
_KEPT = ("address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS logs (
    block INTEGER NOT NULL, position INTEGER NOT NULL, timestamp INTEGER NOT NULL, raw TEXT NOT NULL,
    PRIMARY KEY (block, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
    only INTEGER PRIMARY KEY CHECK (only = 1), next INTEGER NOT NULL, generation INTEGER NOT NULL,
    anchor INTEGER NOT NULL, anchor_hash TEXT NOT NULL
);
"""


class NotSeenOnChain(HydraError):
    """Something that was waited for did not happen on chain in time."""


class EventStoreDamaged(HydraError):
    """The file of events cannot be read or written."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """The first block that was never read, how often everything was forgotten, and a block that must not change."""

    next: int
    generation: int
    anchor: int
    anchor_hash: str


class EventStore:
    """Every event of a deployment, in the order of the chain. Thread-safe; several processes may share the file.

    `path` is None for a store in memory. `finality` is how many blocks make one final; where it is zero, on the chains
    of one machine, the node's word is taken at once when the chain becomes shorter. Elsewhere a shorter chain is a node
    that lags behind, and takes nothing back.
    """

    def __init__(self, log: EventLog, path: Path | None = None, *, finality: int = 0, depth: int = DEPTH) -> None:
        self._log = log
        self._path = path
        self._finality = finality
        self._depth = max(depth, finality)
        self._lock = threading.Lock()
        self._db = self._open()
        self._events: list[Event] = []
        self._loaded: tuple[int, int] | None = None  # the generation, and up to where no process changes anything
        self._tip: tuple[int, str] | None = None
        self._head = -1

    def close(self) -> None:
        """Let go of the file. The store is of no use afterwards."""
        with self._lock:
            self._db.close()

    # --- what there is -----------------------------------------------------------------------------------------------

    def all(self, *, final: bool = False) -> list[Event]:
        """Every event so far; with `final`, those that no reorganisation takes back."""
        with self._lock:
            last = self._head - self._finality
            return [event for event in self._events if not final or event.block <= last]

    def find(self, name: str, contract: str = "", *, final: bool = False, **args: Any) -> list[Event]:
        """The events of that name whose arguments equal `args`; `contract` tells equal names apart."""
        return [
            event
            for event in self.all(final=final)
            if event.name == name
            and (not contract or event.contract == contract)
            and all(event.args[key] == value for key, value in args.items())
        ]

    async def wait_for(self, seek: Callable[[EventStore], list[Event]], what: str, timeout: float) -> Event:
        """The first event that `seek` finds in the store, now or later. Raises `NotSeenOnChain` after `timeout` s."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    await asyncio.to_thread(self.refresh)
                    if found := seek(self):
                        return found[0]
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotSeenOnChain(
                f"{what} was not seen on chain in {timeout:.0f} s", remedy="check that the chain makes blocks"
            ) from None

    # --- reading the chain -------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read up to the newest block. Raises what `EventLog.batches` raises; then nothing is lost or repeated."""
        with self._lock, self._named():
            tip = self._log.tip()
            if tip == self._tip:
                return
            self._head = tip[0]
            if not self._is_same_chain():
                self._forget()
            progress = self._progress()
            window = progress.anchor + 1 if progress.anchor_hash else self._head - self._depth + 1
            start = min(progress.next, window, self._head)
            for batch in self._log.batches(max(self._log.first, start), self._head):
                self._replace(batch)
                self._move_anchor(batch.last)
            self._tip = tip

    def _is_same_chain(self) -> bool:
        """Whether the anchor is where it was."""
        progress = self._progress()
        if not progress.anchor_hash:
            return True
        if self._head < progress.anchor:
            return self._finality > 0
        return self._log.block_hash(progress.anchor) == progress.anchor_hash

    def _move_anchor(self, reached: int) -> None:
        """Once twice `depth` blocks lie above the anchor, take one with `depth` above it."""
        progress = self._progress()
        if progress.anchor_hash and reached < progress.anchor + 2 * self._depth:
            return
        anchor = max(self._log.first, reached - self._depth)
        anchor_hash = self._log.block_hash(anchor)
        if anchor_hash is not None:
            with self._change() as db:
                db.execute(
                    "UPDATE progress SET anchor = ?, anchor_hash = ? WHERE anchor < ? OR anchor_hash = ''",
                    (anchor, anchor_hash, anchor),
                )

    def _replace(self, batch: Batch) -> None:
        """From now on these are the logs of the batch's blocks; load them before another process changes them."""
        # What a chain of one machine holds no more, whoever runs it has taken back.
        to_the_end = self._finality == 0 and batch.last == self._head
        where = "block >= ?" if to_the_end else "block BETWEEN ? AND ?"
        bounds = (batch.first,) if to_the_end else (batch.first, batch.last)
        rows = [_row(record) for record in batch.records]
        with self._change() as db:
            held = db.execute(f"SELECT * FROM logs WHERE {where} ORDER BY block, position", bounds).fetchall()  # noqa: S608  conditions are ours
            if held != rows:
                db.execute(f"DELETE FROM logs WHERE {where}", bounds)  # noqa: S608
                db.executemany("INSERT INTO logs VALUES (?, ?, ?, ?)", rows)
            known = self._progress().next
            reached = batch.last + 1 if to_the_end else max(known, batch.last + 1)
            if reached != known:
                db.execute("UPDATE progress SET next = ?", (reached,))
            self._load()

    def _forget(self) -> None:
        with self._change() as db:
            db.execute("DELETE FROM logs")
            db.execute(
                "UPDATE progress SET next = ?, generation = generation + 1, anchor = 0, anchor_hash = ''",
                (self._log.first,),
            )

    def _load(self) -> None:
        """Take over what this process, or another one, has written since the last time."""
        progress = self._progress()
        start = self._log.first
        if self._loaded is not None and self._loaded[0] == progress.generation:
            start = self._loaded[1] + 1
        rows = self._db.execute(
            "SELECT raw, timestamp FROM logs WHERE block >= ? ORDER BY block, position", (start,)
        ).fetchall()
        known = {(event.block_hash, event.log_index): event for event in self._events if event.block >= start}
        kept = [event for event in self._events if event.block < start]
        self._events = kept + [self._event(raw, timestamp, known) for raw, timestamp in rows]
        self._loaded = (progress.generation, progress.anchor if progress.anchor_hash else self._log.first - 1)

    def _event(self, raw: str, timestamp: int, known: dict[tuple[bytes, int], Event]) -> Event:
        log = json.loads(raw)
        key = bytes.fromhex(log["blockHash"][2:]), int(log["logIndex"], 16)
        return known.get(key) or self._log.event(LogRecord(log, timestamp))

    # --- SQLite ------------------------------------------------------------------------------------------------------

    def _progress(self) -> _Progress:
        row = self._db.execute("SELECT next, generation, anchor, anchor_hash FROM progress").fetchone()
        return _Progress(*row)

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return self._connect(":memory:")
        private_directory(self._path.parent)
        try:
            return self._connect(str(self._path))
        except sqlite3.OperationalError as error:
            raise self._damaged(error) from None
        except sqlite3.DatabaseError:
            # It only repeats what the chain holds.
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            return self._connect(str(self._path))

    def _connect(self, name: str) -> sqlite3.Connection:
        db = sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(_SCHEMA)
        db.execute("INSERT OR IGNORE INTO progress VALUES (1, ?, 0, 0, '')", (self._log.first,))
        return db

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: sqlite3.DatabaseError) -> EventStoreDamaged:
        return EventStoreDamaged(
            f"the events in {self._path} cannot be kept ({error})",
            remedy="look at the disk, or delete the file: it only repeats what the chain holds",
        )


def _row(record: LogRecord) -> tuple[int, int, int, str]:
    raw = record.raw
    kept = json.dumps({field: raw[field] for field in _KEPT}, separators=(",", ":"))
    return int(raw["blockNumber"], 16), int(raw["logIndex"], 16), record.timestamp, kept
