"""The chain's database: bytes to bytes in one SQLite file, written one block at a time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eth.abc import AtomicWriteBatchAPI
from eth.db.atomic import AtomicDB
from eth.db.backends.base import BaseDB

from hydra_node.errors import HydraError


class DataDirLocked(HydraError):
    """Another process has this chain's database open."""


class DatabaseUnusable(HydraError):
    """The file cannot be opened as a chain database."""


class BlockStore(BaseDB):
    """Reads at any time from any thread; writes only whole batches, each atomic and ordered.

    The write-ahead log is handed to the operating system at each commit, so a batch survives a process that is
    killed; the database holds an exclusive lock as long as it is open.
    """

    def __init__(self, path: Path | None) -> None:
        """Open or create the database at `path`, or one in memory. Raises DataDirLocked, DatabaseUnusable."""
        self._lock = threading.Lock()
        location = ":memory:" if path is None else str(path)
        self._db = sqlite3.connect(location, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("PRAGMA cache_size=-65536")
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS entry (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._db.close()
            if "locked" not in str(error):
                raise DatabaseUnusable(
                    f"cannot open the chain database {location}: {error}",
                    remedy="check the directory's permissions and free space, or choose another data directory",
                ) from error
            raise DataDirLocked(
                f"the chain database {location} is in use by another process",
                remedy="stop that chain or choose another data directory",
            ) from error
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise DatabaseUnusable(
                f"{location} is not a chain database: {error}",
                expected="a file written by the embedded chain",
                remedy="choose another data directory or delete this one",
            ) from error

    def __getitem__(self, key: bytes) -> bytes:
        with self._lock:
            row = self._db.execute("SELECT value FROM entry WHERE key=?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return bytes(row[0])

    def _exists(self, key: bytes) -> bool:
        with self._lock:
            row = self._db.execute("SELECT 1 FROM entry WHERE key=?", (key,)).fetchone()
        return row is not None

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.write({key: value})

    def __delitem__(self, key: bytes) -> None:
        self.write({key: None})

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply all changes or none; `None` deletes."""
        upserts = [(key, value) for key, value in changes.items() if value is not None]
        deletions = [(key,) for key, value in changes.items() if value is None]
        with self._lock:
            self._db.execute("BEGIN")
            try:
                self._db.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", upserts)
                self._db.executemany("DELETE FROM entry WHERE key=?", deletions)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Fold the write-ahead log into the file and let go of the lock."""
        with self._lock:
            self._db.close()


class _Overlay(BaseDB):
    """Changes in memory over a store that they do not touch yet."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self.changes: dict[bytes, bytes | None] = {}

    def __getitem__(self, key: bytes) -> bytes:
        if key in self.changes:
            value = self.changes[key]
            if value is None:
                raise KeyError(key)
            return value
        return self._store[key]

    def _exists(self, key: bytes) -> bool:
        if key in self.changes:
            return self.changes[key] is not None
        return key in self._store

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.changes[key] = value

    def __delitem__(self, key: bytes) -> None:
        self.changes[key] = None


class PendingWrites(AtomicDB):
    """What one block changes, invisible to every reader until `commit`."""

    def __init__(self, store: BlockStore) -> None:
        self._overlay = _Overlay(store)
        self._store = store
        super().__init__(self._overlay)

    def commit(self) -> None:
        """Write everything in one database transaction."""
        self._store.write(self._overlay.changes)
        self._overlay.changes = {}


class ReadView(AtomicDB):
    """The store for readers. py-evm buffers what a call would write; nothing of it may reach the store."""

    def __setitem__(self, key: bytes, value: bytes) -> None:
        raise TypeError("this view of the chain database is read-only")

    def __delitem__(self, key: bytes) -> None:
        raise TypeError("this view of the chain database is read-only")

    @contextmanager
    def atomic_batch(self) -> Iterator[AtomicWriteBatchAPI]:
        raise TypeError("this view of the chain database is read-only")
        yield
