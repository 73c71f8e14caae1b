"""The evidence of one job: its segments, fetched, checked, kept and served, and what they amount to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from hydra_node.chain.events import Event
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.job import Job
from hydra_node.training.journal import BadJournal, SegmentDocument, read_segment
from hydra_node.training.spec import parameter_count
from hydra_validator.audit.material import Material
from hydra_validator.audit.replay import Replay, replay
from hydra_validator.audit.windows import Window
from hydra_validator.watch import Report

FETCH_SECONDS = 20.0  # for one segment
FAULTS_SHOWN = 5
_ENTRY_OVERHEAD = 64 * 1024  # bytes of one step's record and certificate in a segment
_MODEL_OVERHEAD = 1024 * 1024


class Evidence:
    """What trainers posted for `job`; `swarm` names its swarm in the records."""

    def __init__(self, job: Job, swarm: bytes, ipfs: IpfsClient, report: Report) -> None:
        self.job = job
        self._ipfs = ipfs
        self._report = report
        self._material = Material(swarm, (), job.spec.steps)
        self._taken: set[tuple[bytes, int]] = set()
        self._distances: dict[tuple[int, str, bytes], float] = {}

    async def fetch(self, rounds: Sequence[Window], peers: Mapping[str, str]) -> int:
        """Take in the segments of these rounds, the first ones in order; how many could not be had.

        `peers` are all who ever joined the job, with their wallets.
        """
        self._material.trainers = peers
        missing = place = 0
        for window in rounds:
            for post in window.posts:
                key = (post.block_hash, post.log_index)
                if key not in self._taken:
                    if await self._take(post, peers, window.seed, place):
                        self._taken.add(key)
                    else:
                        missing += 1
                place += 1
        return missing

    async def judge(self) -> Replay:
        """Replay everything at hand; in a thread."""

        def work() -> Replay:
            steps = self._material.chain()
            return replay(self.job.spec, self.job.samples, steps, self._material.shown(steps), self._distances)

        return await asyncio.to_thread(work)

    async def _take(self, post: Event, peers: Mapping[str, str], seed: bytes, place: int) -> bool:
        """Fetch one segment into the material; False when it is not to be had (yet)."""
        trainer, first, last = str(post.args["trainer"]), int(post.args["firstStep"]), int(post.args["lastStep"])
        fields = {"job": self.job.job_id, "trainer": trainer, "first": first, "last": last}
        try:
            segment = await self._segment(post, last - first + 1)
        except StorageError as error:
            self._report("segment_missing", f"steps {first} to {last} of {trainer}: {error}", fields)
            return False
        except BadJournal as error:
            self._report("segment_refused", f"steps {first} to {last} of {trainer}: {error}", fields)
            return True
        if peers.get(segment.peer, "").lower() != trainer.lower() or segment.job != str(self.job.job_id):
            self._report("segment_refused", f"{trainer} posted a segment of {segment.peer}", fields)
            return True
        for fault in (await asyncio.to_thread(self._material.add, segment, seed, place))[:FAULTS_SHOWN]:
            self._report("entry_refused", fault, fields)
        if segment.checkpoint:
            await self._keep_model(segment.checkpoint)
        return True

    async def _segment(self, post: Event, steps: int) -> SegmentDocument:
        """One segment, checked against its digest on chain. Raises StorageError, BadJournal."""
        cid = Cid.parse(str(post.args["cid"]))
        limit = steps * (8 * parameter_count(self.job.spec) + _ENTRY_OVERHEAD) + _ENTRY_OVERHEAD
        data = await asyncio.to_thread(self._ipfs.cat, cid, limit, timeout=FETCH_SECONDS)
        segment = await asyncio.to_thread(read_segment, data, bytes(post.args["digest"]))
        # Kept and served: whoever disputes the settlement needs it, and the trainer may be gone by then.
        await asyncio.to_thread(self._ipfs.pin, cid)
        return segment

    async def _keep_model(self, checkpoint: str) -> None:
        """Keep and serve the trained model, which outlives its trainers."""
        try:
            cid = Cid.parse(checkpoint)
            size = 4 * parameter_count(self.job.spec) + _MODEL_OVERHEAD
            await asyncio.to_thread(self._ipfs.cat, cid, size, timeout=FETCH_SECONDS)
            await asyncio.to_thread(self._ipfs.pin, cid)
        except StorageError as error:
            self._report("model_missing", f"job {self.job.job_id}: {error}", {"cid": checkpoint})
