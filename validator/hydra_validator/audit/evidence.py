"""The evidence of one job: its segments, fetched, checked, kept and served, and what they amount to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hydra_node.chain.events import Event
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError, TooLarge
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.job import Job
from hydra_node.training.journal import MAX_SEGMENT, BadJournal, SegmentDocument, read_segment
from hydra_node.training.spec import parameter_count
from hydra_validator.audit.material import Material, Part
from hydra_validator.audit.replay import Replay, replay
from hydra_validator.audit.spool import Spool
from hydra_validator.audit.windows import Window
from hydra_validator.watch import Report

FETCH_SECONDS = 8.0  # for one document or file
MAX_FILE = 1 << 30
FAULTS_SHOWN = 5
_ENTRY_BYTES = 64 * 1024  # of one step's record and certificate in a segment's document
_VIEWS_BYTES = 1024 * 1024  # of everything else in it
_MODEL_OVERHEAD = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a segment that has been taken in, its `parts` in order; `place` and `seed` are those of the post."""

    what: str
    cid: str
    parts: tuple[Part, ...]
    trainer: str
    peer: str
    seed: bytes
    place: int


class Evidence:
    """What trainers posted for `job`; `swarm` names its swarm in the records. Vectors are kept in `spool`."""

    def __init__(self, job: Job, swarm: bytes, spool: Spool, ipfs: IpfsClient, report: Report) -> None:
        self.job = job
        self._ipfs = ipfs
        self._report = report
        self._spool = spool
        self._material = Material(swarm, (), job.spec.steps, spool)
        self._read: set[tuple[bytes, int]] = set()
        self._owed_contributions: list[_File] = []
        self._owed_results: dict[tuple[str, tuple[Part, ...]], _File] = {}
        self._distances: dict[tuple[int, str, bytes], float] = {}

    async def fetch(self, rounds: Sequence[Window], peers: Mapping[str, str]) -> int:
        """Take in the segments of these rounds, the first ones in order; how many things could not be had.

        `peers` are all who ever joined the job, with their wallets.
        """
        self._material.trainers = peers
        posts = [(post, window.seed) for window in rounds for post in window.posts]
        missing = 0
        for place, (post, seed) in enumerate(posts):
            key = (post.block_hash, post.log_index)
            if key not in self._read:
                if await self._take(post, peers, seed, place):
                    self._read.add(key)
                else:
                    missing += 1
        await self._take_results()
        self._owed_contributions = [f for f in self._owed_contributions if not await self._take_contributions(f)]
        return missing + len(self._owed_results) + len(self._owed_contributions)

    async def prefetch(self, post: Event) -> None:
        """Bring what a trainer has just posted into the store: it may be gone before its round closes."""
        steps = int(post.args["lastStep"]) - int(post.args["firstStep"]) + 1
        try:
            document = await self._document(post, steps)
            for cid in filter(None, (document.results, document.contributions)):
                await self._fetch(cid, min(MAX_FILE, steps * self._spool.width))
        except (StorageError, BadJournal):
            return  # `fetch` tries again when the round closes, and says what is wrong

    async def judge(self) -> Replay:
        """Replay everything at hand; in a thread."""

        def work() -> Replay:
            steps = self._material.chain()
            seeds = self._material.shown(steps)
            return replay(self.job.spec, self.job.samples, steps, seeds, self._spool.get, known=self._distances)

        return await asyncio.to_thread(work)

    async def _take(self, post: Event, peers: Mapping[str, str], seed: bytes, place: int) -> bool:
        """Take in one segment's document; False when it is not to be had (yet)."""
        trainer, first, last = str(post.args["trainer"]), int(post.args["firstStep"]), int(post.args["lastStep"])
        fields = {"job": self.job.job_id, "trainer": trainer, "first": first, "last": last}
        try:
            document = await self._document(post, last - first + 1)
        except StorageError as error:
            self._report("segment_missing", f"steps {first} to {last} of {trainer}: {error}", fields)
            return False
        except BadJournal as error:
            self._report("segment_refused", f"steps {first} to {last} of {trainer}: {error}", fields)
            return True
        if peers.get(document.peer, "").lower() != trainer.lower() or document.job != str(self.job.job_id):
            self._report("segment_refused", f"{trainer} posted a segment of {document.peer}", fields)
            return True
        contents = await asyncio.to_thread(self._material.add, document)
        for fault in contents.faults[:FAULTS_SHOWN]:
            self._report("entry_refused", fault, fields)
        origin = (trainer, document.peer, seed, place)
        results = _File("results", document.results, contents.results, *origin)
        self._owed_results.setdefault((results.cid, results.parts), results)
        if document.contributions:
            sent = _File("contributions", document.contributions, contents.contributions, *origin)
            self._owed_contributions.append(sent)
        if document.checkpoint:
            await self._keep_model(document.checkpoint)
        return True

    async def _document(self, post: Event, steps: int) -> SegmentDocument:
        """One segment's document, checked against its digest on chain. Raises StorageError, BadJournal."""
        cid = str(post.args["cid"])
        data = await self._fetch(cid, min(MAX_SEGMENT, steps * _ENTRY_BYTES + _VIEWS_BYTES))
        document = await asyncio.to_thread(read_segment, data, bytes(post.args["digest"]))
        await self._keep(cid)
        return document

    async def _take_results(self) -> None:
        """Fetch results until those of all steps are known: a file that nobody needs any more is not fetched."""
        for key, file in list(self._owed_results.items()):
            if self._material.lacks(file.parts):
                data = await self._file(file)
                if data is None:
                    continue
                await self._took(file, await asyncio.to_thread(self._material.add_results, file.parts, data))
            del self._owed_results[key]
        # What was not to be had may have come with another trainer's.
        self._owed_results = {key: f for key, f in self._owed_results.items() if self._material.lacks(f.parts)}

    async def _take_contributions(self, file: _File) -> bool:
        """Fetch what a trainer posted as its contributions; False when they are not to be had (yet)."""
        data = await self._file(file)
        if data is None:
            return False
        add = partial(self._material.add_contributions, seed=file.seed, place=file.place)
        await self._took(file, await asyncio.to_thread(add, file.parts, data, file.peer))
        return True

    async def _file(self, file: _File) -> bytes | None:
        """A file's bytes, None when they are not to be had (yet); a file that is too large counts as empty."""
        fields = {"job": self.job.job_id, "trainer": file.trainer, "cid": file.cid}
        try:
            return await self._fetch(file.cid, min(MAX_FILE, len(file.parts) * self._spool.width))
        except TooLarge as error:
            self._report("file_refused", f"{file.what} of {file.trainer}: {error}", fields)
            return b""
        except StorageError as error:
            self._report("file_missing", f"{file.what} of {file.trainer}: {error}", fields)
            return None

    async def _took(self, file: _File, wrong: Sequence[int]) -> None:
        """Keep a file that is of use, and say what is wrong with it."""
        if wrong:
            fields = {"job": self.job.job_id, "trainer": file.trainer, "steps": list(wrong[:FAULTS_SHOWN])}
            text = f"{file.what} of {file.trainer} in {len(wrong)} steps are not those in the records"
            self._report("file_refused", text, fields)
        if len(wrong) < len(file.parts):
            await self._keep(file.cid)

    async def _fetch(self, cid: str, limit: int) -> bytes:
        """Content of at most `limit` bytes. Raises StorageError."""
        return await asyncio.to_thread(self._ipfs.cat, Cid.parse(cid), limit, timeout=FETCH_SECONDS)

    async def _keep(self, cid: str) -> None:
        """Keep and serve content: whoever disputes the settlement needs it, and the trainer may be gone by then."""
        await asyncio.to_thread(self._ipfs.pin, Cid.parse(cid))

    async def _keep_model(self, checkpoint: str) -> None:
        """Keep and serve the trained model, which outlives its trainers."""
        try:
            await self._fetch(checkpoint, 4 * parameter_count(self.job.spec) + _MODEL_OVERHEAD)
            await self._keep(checkpoint)
        except StorageError as error:
            self._report("model_missing", f"job {self.job.job_id}: {error}", {"cid": checkpoint})
