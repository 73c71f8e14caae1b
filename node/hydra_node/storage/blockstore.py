"""Blocks on disk, by content address.

    blocks/ab/abcd...   one file a block, named by the hex SHA2-256 digest, sharded by its first byte
    pins/CID            one empty-or-"direct" file a pin
    tmp/XXXX/           one directory a writer, locked while it lives; a dead writer's is removed at the next opening
    quarantine/         blocks found corrupt
    lock                held for every change of blocks/ or pins/, by any process

A block becomes visible by a rename after its bytes are on the disk, so a kill at any moment leaves whole blocks
only. Bytes are verified whenever they are read.
"""

import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from hydra_node.storage import dag, dagpb
from hydra_node.storage.cid import DIGEST_BYTES, Cid, Codec
from hydra_node.storage.disk import move, sync_directory, sync_each, sync_file, write
from hydra_node.storage.errors import (
    BlockNotFound,
    CorruptBlock,
    NotPinned,
    QuotaExceeded,
    StorageError,
    StoreBusy,
    TooLarge,
)
from hydra_node.storage.usage import Usage, UsageMeter

MAX_BLOCK_BYTES = 2 * 1024 * 1024
"""What IPFS peers exchange at most; larger content is a UnixFS file of many blocks."""
LOCK_SECONDS = 60.0

_log = logging.getLogger(__name__)


class PinMode(StrEnum):
    """What a pin keeps: the block and all below it, or the block alone."""

    RECURSIVE = "recursive"
    DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What `fsck` found: blocks checked, digests (hex) moved to quarantine, pins whose blocks are not all here."""

    checked: int
    quarantined: tuple[str, ...]
    incomplete_pins: tuple[Cid, ...]


class BlockStore:
    """A directory of blocks that several threads and processes may use at once.

    `quota` bounds the bytes of all blocks; a write beyond it raises QuotaExceeded and changes nothing.
    """

    def __init__(self, directory: Path, *, quota: int | None = None) -> None:
        self.directory = Path(directory)
        self.quota = quota
        self._blocks = self.directory / "blocks"
        self._pins = self.directory / "pins"
        self._quarantine = self.directory / "quarantine"
        self._tmp = self.directory / "tmp"
        try:
            for part in (self._blocks, self._pins, self._quarantine, self._tmp):
                part.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make a block store at {self.directory} ({error.strerror})", remedy="choose another directory"
            ) from error
        self._meter = UsageMeter(self._blocks)
        with self._locked():
            _remove_abandoned(self._tmp)

    # Blocks

    def put(self, cid: Cid, data: bytes) -> None:
        """Store one verified block, on the disk when this returns. Raises CorruptBlock, TooLarge, QuotaExceeded."""
        if self.has(cid):
            cid.verify(data)
            return
        with self.batch() as batch:
            batch.put(cid, data)

    def batch(self) -> "Batch":
        """A context in which many blocks are written and become visible together, at one barrier."""
        return Batch(self)

    def get(self, cid: Cid) -> bytes:
        """The block, verified. Raises BlockNotFound; a corrupt one goes to quarantine with CorruptBlock."""
        try:
            return self._read(cid)
        except CorruptBlock:
            self._isolate(cid.digest)
            raise

    def _read(self, cid: Cid) -> bytes:
        """`get` without the move to quarantine, for callers that hold the lock."""
        try:
            with self._path(cid.digest).open("rb") as file:
                data = file.read(MAX_BLOCK_BYTES + 1)
        except FileNotFoundError as error:
            raise BlockNotFound(f"block {cid} is not in {self.directory}", remedy="fetch it from a peer") from error
        if len(data) > MAX_BLOCK_BYTES or not cid.matches(data):
            raise CorruptBlock(f"block {cid} was damaged on disk", remedy="run fsck and fetch it again")
        return data

    def has(self, cid: Cid) -> bool:
        """Whether the block is here (its bytes are checked when they are read)."""
        return self._path(cid.digest).is_file()

    def size(self, cid: Cid) -> int:
        """The block's length in bytes; raises BlockNotFound."""
        try:
            return self._path(cid.digest).stat().st_size
        except FileNotFoundError as error:
            raise BlockNotFound(f"block {cid} is not in {self.directory}") from error

    def usage(self) -> Usage:
        """Number and bytes of the blocks here."""
        return self._meter.measure()

    # Pins

    def pin(self, cid: Cid, *, recursive: bool = True) -> None:
        """Keep a block, and all below it, through every `gc`. Raises BlockNotFound unless all are here."""
        with self._locked():
            self._pin(cid, recursive)

    def _pin(self, cid: Cid, recursive: bool) -> None:
        for needed in self.walk(cid) if recursive else (cid,):
            if not self.has(needed):
                raise BlockNotFound(f"cannot pin {cid}: block {needed} is not here", remedy="fetch it first")
        mode = PinMode.RECURSIVE if recursive else PinMode.DIRECT
        temporary = self._tmp / f"pin-{secrets.token_hex(8)}"
        write(temporary, mode.encode(), sync=True)
        temporary.replace(self._pins / str(cid))
        sync_directory(self._pins)

    def unpin(self, cid: Cid) -> None:
        """Forget a pin; raises NotPinned."""
        with self._locked():
            try:
                (self._pins / str(cid)).unlink()
            except FileNotFoundError as error:
                raise NotPinned(f"{cid} is not pinned") from error
            sync_directory(self._pins)

    def pins(self) -> dict[Cid, PinMode]:
        """Every pin and its mode."""
        found = {}
        for path in sorted(self._pins.iterdir()):
            try:
                found[Cid.parse(path.name)] = PinMode(path.read_text(encoding="ascii"))
            except FileNotFoundError:
                continue  # removed by another process meanwhile
        return found

    def walk(self, root: Cid) -> Iterator[Cid]:
        """`root` and every block below it, each once; raises BlockNotFound at a missing inner node."""
        seen: set[bytes] = set()
        pending = [root]
        while pending:
            cid = pending.pop()
            if cid.digest in seen:
                continue
            seen.add(cid.digest)
            yield cid
            if cid.codec is not Codec.RAW:
                pending.extend(reversed(links_of(cid, self._read(cid))))

    # Upkeep

    def gc(self) -> list[str]:
        """Remove every block that no pin keeps; returns their digests in hex.

        Raises CorruptBlock and removes nothing when a pinned inner node is damaged, since what it kept is unknown.
        """
        with self._locked():
            kept = self._kept()
            removed = []
            for path in self._block_files():
                if path.name not in kept:
                    path.unlink()
                    removed.append(path.name)
        return removed

    def _kept(self) -> set[str]:
        kept: set[str] = set()
        for root, mode in self.pins().items():
            if mode is PinMode.DIRECT:
                kept.add(root.digest.hex())
                continue
            try:
                kept.update(cid.digest.hex() for cid in self.walk(root))
            except BlockNotFound as error:
                raise StorageError(
                    f"pin {root} is incomplete, so nothing was removed", remedy="fetch it again or remove the pin"
                ) from error
        return kept

    def fsck(self) -> FsckReport:
        """Verify every block, move damaged ones to quarantine, and name pins that miss blocks."""
        checked, bad = 0, []
        for path in self._block_files():
            checked += 1
            digest = _digest_of(path)
            if digest is None or not _holds(path, digest):
                bad.append(path.name)
                with self._locked():
                    move(path, self._quarantine / path.name)
        incomplete = []
        for root, mode in self.pins().items():
            try:
                needed = self.walk(root) if mode is PinMode.RECURSIVE else iter((root,))
                whole = all(self.has(cid) for cid in needed)
            except (BlockNotFound, CorruptBlock):
                whole = False
            if not whole:
                incomplete.append(root)
        return FsckReport(checked, tuple(bad), tuple(incomplete))

    # Files

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._blocks / name[:2] / name

    def _block_files(self) -> Iterator[Path]:
        for shard in sorted(self._blocks.iterdir()):
            yield from sorted(shard.iterdir())

    def _isolate(self, digest: bytes) -> None:
        """Move a block to quarantine, unless another process already put a good one in its place."""
        path = self._path(digest)
        with self._locked():
            if path.exists() and not _holds(path, digest):
                _log.warning("block %s is damaged: moved to quarantine", path.name)
                move(path, self._quarantine / path.name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A lock object of its own for each use: shared ones count re-entries, also those of other threads.
        lock = FileLock(self.directory / "lock", timeout=LOCK_SECONDS, poll_interval=0.005)
        try:
            lock.acquire()
        except Timeout as error:
            raise StoreBusy(
                f"another process has held {self.directory} for {LOCK_SECONDS:.0f} s", remedy="stop it, or wait"
            ) from error
        try:
            yield
        finally:
            lock.release()


class Batch:
    """Blocks written together: on leaving the context without an error all are durable and visible, else none.

    Not for several threads at once. `pin` asks for a pin that is set in the same step, so that no `gc` comes between.
    """

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._directory = store._tmp / secrets.token_hex(8)
        # Entered, written and left by different worker threads, one after the other.
        self._owner = FileLock(self._directory / "owner", thread_local=False)
        self._written: dict[bytes, int] = {}
        self._pins: list[tuple[Cid, bool]] = []

    def __enter__(self) -> Self:
        with self._store._locked():
            self._directory.mkdir()
            self._owner.acquire()
        return self

    def put(self, cid: Cid, data: bytes) -> None:
        """Write a block that becomes visible with the batch. Raises CorruptBlock, TooLarge."""
        if len(data) > MAX_BLOCK_BYTES:
            raise TooLarge(f"a block of {len(data)} bytes", expected=f"at most {MAX_BLOCK_BYTES}")
        if cid.digest in self._written:
            return
        cid.verify(data)
        write(self._directory / cid.digest.hex(), data, sync=False)
        self._written[cid.digest] = len(data)

    def pin(self, cid: Cid, *, recursive: bool = True) -> None:
        """Pin `cid` when the batch becomes visible."""
        self._pins.append((cid, recursive))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._owner.release()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _commit(self) -> None:
        sync_each(sync_file, [self._directory / digest.hex() for digest in self._written])
        store = self._store
        with store._locked():
            self._check_quota()
            shards: set[Path] = set()
            made = False
            for digest in self._written:
                final = store._path(digest)
                if not final.exists():
                    if not final.parent.exists():
                        final.parent.mkdir()
                        made = True
                    (self._directory / digest.hex()).replace(final)
                    shards.add(final.parent)
            sync_each(sync_directory, shards)
            if made:
                sync_directory(store._blocks)
            for cid, recursive in self._pins:
                store._pin(cid, recursive)

    def _check_quota(self) -> None:
        store = self._store
        if store.quota is None:
            return
        new = sum(size for digest, size in self._written.items() if not store._path(digest).exists())
        used = store.usage().size
        if used + new > store.quota:
            raise QuotaExceeded(
                f"{new} bytes on top of {used} pass the store's quota of {store.quota}",
                remedy="remove pins and collect garbage, or raise the quota",
            )


def links_of(cid: Cid, data: bytes) -> list[Cid]:
    """The CIDs in a verified block, in order; raises MalformedNode."""
    if cid.codec is Codec.DAG_PB:
        return [link.cid for link in dagpb.decode(data).links]
    return dag.links(dag.decode(data)) if cid.codec is Codec.DAG_CBOR else []


def _digest_of(path: Path) -> bytes | None:
    """The digest a block file is named by; None for any other name."""
    try:
        digest = bytes.fromhex(path.name)
    except ValueError:
        return None
    return digest if len(digest) == DIGEST_BYTES and path.parent.name == path.name[:2] else None


def _holds(path: Path, digest: bytes) -> bool:
    with path.open("rb") as file:
        data = file.read(MAX_BLOCK_BYTES + 1)
    return len(data) <= MAX_BLOCK_BYTES and Cid(Codec.RAW, digest).matches(data)


def _remove_abandoned(tmp: Path) -> None:
    """Remove what dead writers left. Called with the store locked, so no writer is between mkdir and its lock."""
    for path in tmp.iterdir():
        if path.is_file():
            path.unlink()
            continue
        owner = FileLock(path / "owner", timeout=0)
        try:
            owner.acquire()
        except Timeout:
            continue
        owner.release()
        shutil.rmtree(path, ignore_errors=True)
