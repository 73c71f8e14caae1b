"""What a trainer did, on its own disk: committed steps with the proofs of them, and what was posted on chain.

The file is a sequence of frames, `length, crc32, payload`, only ever appended to. A process that is killed
leaves at most a torn last frame, which the next start cuts off. A frame is written in one call, so a killed
process loses at most its unfinished step; `sync` puts the file beyond a loss of power.
"""

import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import msgspec

from hydra_node.errors import HydraError

MAX_FRAME = 1 << 30
MAX_SEGMENT = 1 << 26
MAX_SEGMENT_STEPS = 100_000
_FRAME = struct.Struct(">II")


class BadJournal(HydraError):
    """A journal or a segment of one cannot be used."""


class JournalEntry(msgspec.Struct, frozen=True, tag="step"):
    """One committed step as its member saw it; all byte strings are the canonical forms that were signed.

    `contribution` is the vector as sent, little-endian float32, empty when this member sent none; `result` the
    agreed gradient that was applied; `pre_digest` and `post_digest` those of the training state before and after.
    """

    step: int
    record: bytes
    certificate: bytes
    contribution: bytes
    result: bytes
    pre_digest: bytes
    post_digest: bytes


class JournalView(msgspec.Struct, frozen=True, tag="view"):
    """A change of view in the same log as the steps, at `height`: without it the chain of records cannot be checked."""

    height: int
    record: bytes
    certificate: bytes


class Posted(msgspec.Struct, frozen=True, tag="posted"):
    """The steps first..last are on chain under `digest`, their segment in the store under `cid`."""

    first: int
    last: int
    digest: bytes
    cid: str


class SegmentEntry(msgspec.Struct, frozen=True):
    """A step in a segment: a journal entry without its vectors; `sent` says whether there was a contribution."""

    step: int
    record: bytes
    certificate: bytes
    sent: bool
    pre_digest: bytes
    post_digest: bytes


class SegmentDocument(msgspec.Struct, frozen=True):
    """What a trainer uploads for a round; its hash is on chain.

    `views` are all changes of view that it knew, from the first. `results` and `contributions` are CIDs of files:
    the agreed gradients of the entries, and what this trainer sent in those with `sent`, one after the other. The
    latter is empty when it sent none. `checkpoint` is the final model's CID in the last segment, else empty.
    """

    version: int
    job: str
    peer: str
    first: int
    last: int
    views: tuple[JournalView, ...]
    entries: tuple[SegmentEntry, ...]
    results: str
    contributions: str
    checkpoint: str = ""


class Segment(NamedTuple):
    """A segment's document and its SHA-256, which goes on chain."""

    first: int
    last: int
    document: bytes
    digest: bytes


class SegmentFiles(NamedTuple):
    """The two files of a segment. All trainers that took part in the same steps have the same `results`."""

    results: bytes
    contributions: bytes


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_frames = msgspec.msgpack.Decoder(JournalEntry | JournalView | Posted)
_segments = msgspec.msgpack.Decoder(SegmentDocument)


class Journal:
    """The journal at `path`, for one process and any of its threads.

    Steps only rise; those missed while away are absent.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.RLock()
        self._places: dict[int, int] = {}
        self._views: list[JournalView] = []
        self._posted: list[Posted] = []
        self._file: BinaryIO = path.open("a+b", buffering=0)
        self._file.truncate(self._load())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def sync(self) -> None:
        """Waits until everything appended is on the disk itself."""
        os.fsync(self._file.fileno())

    @property
    def last(self) -> int:
        """The newest step, -1 when there is none."""
        with self._lock:
            return max(self._places, default=-1)

    @property
    def last_view(self) -> int:
        """The height of the newest change of view, -1 when there is none."""
        with self._lock:
            return self._views[-1].height if self._views else -1

    def append_view(self, view: JournalView) -> None:
        """Adds a change of view; heights only rise."""
        with self._lock:
            if view.height <= self.last_view:
                raise BadJournal(
                    f"a view of height {view.height} comes after {self.last_view}", expected="rising heights"
                )
            self._write(_encoder.encode(view))
            self._views.append(view)

    def append(self, entry: JournalEntry) -> None:
        """Adds the next committed step; one that is there already is left as it is."""
        with self._lock:
            if entry.step in self._places:
                if self.entry(entry.step).record != entry.record:
                    raise BadJournal(
                        f"step {entry.step} was committed with another record before",
                        remedy=f"this journal belongs to another run: move {self._path} away",
                    )
                return
            if entry.step < self.last:
                raise BadJournal(f"step {entry.step} comes after step {self.last}", expected="rising steps")
            self._places[entry.step] = self._write(_encoder.encode(entry))

    def mark_posted(self, posted: Posted) -> None:
        """Remembers that a segment is on chain, so that a restart does not post it again."""
        with self._lock:
            self._write(_encoder.encode(posted))
            self._posted.append(posted)
            self.sync()

    def entry(self, step: int) -> JournalEntry:
        """The entry of a step."""
        with self._lock, self._path.open("rb") as file:
            return self._read(file, self._places[step])

    def entries(self, first: int, last: int) -> Iterator[JournalEntry]:
        """Entries with first <= step <= last, rising."""
        with self._lock:
            places = [place for step, place in sorted(self._places.items()) if first <= step <= last]
        with self._path.open("rb") as file:
            for place in places:
                yield self._read(file, place)

    def unposted(self, round_steps: int, *, ended: bool = False) -> list[tuple[int, int]]:
        """Ranges (first, last) of whole rounds with steps that are not on chain yet.

        Round r is the steps r x round_steps <= step < (r + 1) x round_steps. The round of the newest step counts
        once its last step is there, or when the training has `ended`.
        """
        with self._lock:
            due = sorted(step for step in self._places if not any(p.first <= step <= p.last for p in self._posted))
            whole = (self.last + 1) // round_steps
        rounds: dict[int, list[int]] = {}
        for step in due:
            rounds.setdefault(step // round_steps, []).append(step)
        return [(steps[0], steps[-1]) for number, steps in sorted(rounds.items()) if ended or number < whole]

    def files(self, first: int, last: int) -> SegmentFiles:
        """The vectors of first..last, for the store."""
        return files_of(self.entries(first, last))

    def segment(
        self, first: int, last: int, *, job: str, peer: str, results: str, contributions: str, checkpoint: str = ""
    ) -> Segment:
        """The document of first..last; `results` and `contributions` are the CIDs of its files."""
        entries = tuple(bare(entry) for entry in self.entries(first, last))
        with self._lock:
            views = tuple(self._views)
        document = _encoder.encode(
            SegmentDocument(1, job, peer, first, last, views, entries, results, contributions, checkpoint)
        )
        return Segment(first, last, document, hashlib.sha256(document).digest())

    def _load(self) -> int:
        """Reads the index; returns where the last whole frame ends."""
        place = 0
        with self._path.open("rb") as file:
            while (payload := _next(file)) is not None:
                frame = _frames.decode(payload)
                if isinstance(frame, Posted):
                    self._posted.append(frame)
                elif isinstance(frame, JournalView):
                    self._views.append(frame)
                else:
                    self._places[frame.step] = place
                place = file.tell()
        return place

    def _write(self, payload: bytes) -> int:
        place = self._file.seek(0, os.SEEK_END)
        frame = memoryview(_FRAME.pack(len(payload), zlib.crc32(payload)) + payload)
        while frame:
            frame = frame[self._file.write(frame) :]
        return place

    def _read(self, file: BinaryIO, place: int) -> JournalEntry:
        file.seek(place)
        payload = _next(file)
        entry = None if payload is None else _frames.decode(payload)
        if not isinstance(entry, JournalEntry):
            raise BadJournal(f"the journal {self._path} was changed while it was in use")
        return entry


def bare(entry: JournalEntry) -> SegmentEntry:
    """What a segment's document says of an entry."""
    return SegmentEntry(
        entry.step, entry.record, entry.certificate, bool(entry.contribution), entry.pre_digest, entry.post_digest
    )


def files_of(entries: Iterable[JournalEntry]) -> SegmentFiles:
    """The vectors of these entries, one after the other."""
    results, contributions = bytearray(), bytearray()
    for entry in entries:
        results += entry.result
        contributions += entry.contribution
    return SegmentFiles(bytes(results), bytes(contributions))


def read_segment(document: bytes, digest: bytes) -> SegmentDocument:
    """Reads a segment's document fetched from the store; `digest` is what the chain says.

    Checks the hash, the bounds and that the steps rise within first..last; records, signatures and the files are
    the reader's to check.
    """
    if len(document) > MAX_SEGMENT or hashlib.sha256(document).digest() != digest:
        raise BadJournal("a segment does not hash to the digest on chain", expected=f"sha-256 {digest.hex()}")
    try:
        segment = _segments.decode(document)
    except msgspec.DecodeError as error:
        raise BadJournal(f"a segment cannot be read: {error}") from error
    steps = [entry.step for entry in segment.entries]
    if (
        segment.version != 1
        or len(steps) > MAX_SEGMENT_STEPS
        or steps != sorted(set(steps))
        or any(not segment.first <= step <= segment.last for step in steps)
        or bool(segment.contributions) != any(entry.sent for entry in segment.entries)
    ):
        raise BadJournal(
            f"a segment of steps {segment.first} to {segment.last} is malformed",
            expected="version 1, rising steps within its range, and a file for what was sent",
        )
    return segment


def _next(file: BinaryIO) -> bytes | None:
    """The payload of the next whole frame; None at the end or at a torn frame."""
    header = file.read(_FRAME.size)
    if len(header) < _FRAME.size:
        return None
    length, checksum = _FRAME.unpack(header)
    payload = file.read(length) if length <= MAX_FRAME else b""
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None
