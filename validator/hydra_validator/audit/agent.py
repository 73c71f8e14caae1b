"""The auditing agent: fetches what trainers posted, replays it, attests what it is worth.

Everything it attests is a function of the chain and the store, so a restarted agent simply computes it again.
"""

from __future__ import annotations

import asyncio

from hydra_node.chain.events import Event
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.rewards import NO_ROOT, RewardTree
from hydra_node.errors import HydraError
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.admission import Roster, roster
from hydra_node.training.job import Job, load, swarm_id
from hydra_node.training.journal import BadJournal, read_segment
from hydra_node.training.spec import parameter_count
from hydra_validator.audit.material import Material
from hydra_validator.audit.replay import PAID, Replay, Verdict, replay
from hydra_validator.audit.settlement import Settlement, Terms, Work, settle
from hydra_validator.audit.windows import Window, active_validators, funded, windows
from hydra_validator.watch import Report, TooLate, Watch

RETRY_SECONDS = 2.0
FETCH_SECONDS = 20.0  # for one segment
PATIENCE_SECONDS = 12  # chain time after a round's cutoff for missing segments to appear
REATTEST_SECONDS = 10  # chain time without a quorum after which everything is computed afresh
_ENTRY_OVERHEAD = 64 * 1024  # bytes of one step's record and certificate in a segment
_MODEL_OVERHEAD = 1024 * 1024
_STAKE_EVENTS = ("Staked", "WithdrawRequested", "Withdrawn", "Slashed")
_MONEY_EVENTS = ("JobOpened", "ToppedUp", "Refunded")
_ROSTER_EVENTS = ("PeerBound", "TrainerJoined", "TrainerBanned")


class AuditAgent:
    """Audits the training jobs of one deployment for one validator."""

    def __init__(self, watch: Watch, ipfs: IpfsClient, report: Report) -> None:
        self._watch = watch
        self._client = watch.client
        self._ipfs = ipfs
        self._report = report

    async def run(self) -> None:
        """Audit every job until cancelled; a failure in one never stops another."""
        seen: set[int] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                job_id = await self._watch.until(lambda: self._unseen(seen), "a training job")
                seen.add(job_id)
                group.create_task(self._follow(job_id), name=f"training {job_id}")

    def _unseen(self, seen: set[int]) -> int | None:
        opened = (int(event.args["jobId"]) for event in self._watch.find("TrainingOpened", "TrainingRegistry"))
        return next((job_id for job_id in opened if job_id not in seen), None)

    async def _follow(self, job_id: int) -> None:
        while True:
            try:
                return await JobAudit(self._watch, self._ipfs, self._report, job_id).run()
            except HydraError as error:
                self._report("audit_failed", str(error), {"job": job_id})
                await asyncio.sleep(RETRY_SECONDS)


class JobAudit:
    """The audit of one job, round by round."""

    def __init__(self, watch: Watch, ipfs: IpfsClient, report: Report, job_id: int) -> None:
        self._watch = watch
        self._client = watch.client
        self._ipfs = ipfs
        self._report = report
        self._job_id = job_id
        self._taken: set[tuple[bytes, int]] = set()
        self._known: dict[tuple[int, str, bytes], float] = {}
        self._material: Material | None = None

    async def run(self) -> None:
        """Attest every round until the job is settled."""
        while not self._ended():
            # Nothing is loaded before there is something to audit.
            window = await self._closed_window()
            if window is None:
                return
            job = await asyncio.to_thread(load, self._client, self._ipfs, self._job_id)
            while window is not None:
                await self._settle_round(job, window)
                window = await self._closed_window()

    def _settled(self) -> list[Event]:
        return self._watch.find("RoundSettled", "TrainingRegistry", jobId=self._job_id)

    def _ended(self) -> bool:
        return any(event.args["last"] for event in self._settled())

    async def _closed_window(self) -> Window | None:
        """The next round to settle, once its posts are all in; None when the job is settled."""
        terms = await asyncio.to_thread(self._client.training.terms, self._job_id)

        def seek() -> Window | bool | None:
            if self._ended():
                return False
            number = len(self._settled())
            found = self._windows(terms.post_seconds)
            if len(found) > number and self._watch.now > found[number].cutoff:
                return found[number]
            return None

        found = await self._watch.until(seek, "the end of a round")
        return found if isinstance(found, Window) else None

    def _windows(self, post_seconds: int) -> list[Window]:
        posts = self._watch.find("RecordPosted", "TrainingRegistry", jobId=self._job_id)
        return windows(posts, post_seconds)

    async def _settle_round(self, job: Job, window: Window) -> None:
        """Attest one round, again with fresh data whenever no quorum forms, until it is settled."""
        attested: tuple[bytes, int, tuple[str, ...], bool] | None = None
        while len(self._settled()) <= window.number:
            missing = await self._fetch(job, window)
            if missing and self._watch.now <= window.cutoff + PATIENCE_SECONDS:
                await self._watch.until_time(self._watch.now + 1)
                continue
            settlement = await self._settlement(job, window)
            outcome = (settlement.tree.root, settlement.tree.total, settlement.cheats, settlement.last)
            if outcome != attested and await self._attest(settlement):
                attested = outcome
            try:
                by = self._watch.now + REATTEST_SECONDS
                await self._watch.until(lambda: len(self._settled()) > window.number or None, "a quorum", by)
            except TooLate:
                self._report("no_quorum_yet", f"job {self._job_id}: round {window.number} waits for others", {})

    async def _attest(self, settlement: Settlement) -> bool:
        """Put the evidence in the store and attest; False when the round was settled meanwhile."""
        cid = await asyncio.to_thread(self._ipfs.put_node, settlement.document)
        tree, number = settlement.tree, settlement.round_number
        try:
            await asyncio.to_thread(
                self._client.training.attest,
                self._job_id,
                number,
                tree.root,
                tree.total,
                settlement.cheats,
                settlement.last,
                str(cid),
            )
        except Reverted as error:
            if error.error_name not in {"WrongRound", "NotRunning"}:
                raise
            return False
        fields = {"job": self._job_id, "round": number, "root": tree.root.hex(), "total_wei": tree.total}
        text = f"job {self._job_id}: round {number} attested" + (", the last one" if settlement.last else "")
        self._report("attested", text, {**fields, "cheats": list(settlement.cheats), "last": settlement.last})
        return True

    async def _fetch(self, job: Job, until: Window) -> int:
        """Fetch the segments of all rounds up to this one; how many could not be had."""
        known = self._roster()
        peers: dict[str, str] = {str(peer): who for peer, who in [*known.trainers.items(), *known.banned.items()]}
        if self._material is None:
            self._material = Material(self._swarm(), peers, job.spec.steps)
        self._material.trainers = peers
        missing = place = 0
        for window in self._windows(job.terms.post_seconds)[: until.number + 1]:
            for post in window.posts:
                key = (post.block_hash, post.log_index)
                if key not in self._taken:
                    if await self._take(job, post, peers, window.seed, place):
                        self._taken.add(key)
                    else:
                        missing += 1
                place += 1
        return missing

    async def _take(self, job: Job, post: Event, peers: dict[str, str], seed: bytes, place: int) -> bool:
        """Fetch one segment into the material; False when it is not to be had (yet)."""
        trainer, first, last = str(post.args["trainer"]), int(post.args["firstStep"]), int(post.args["lastStep"])
        limit = (last - first + 1) * (8 * parameter_count(job.spec) + _ENTRY_OVERHEAD) + _ENTRY_OVERHEAD
        fields = {"job": self._job_id, "trainer": trainer, "first": first, "last": last}
        assert self._material is not None
        try:
            cid = Cid.parse(str(post.args["cid"]))
            data = await asyncio.to_thread(self._ipfs.cat, cid, limit, timeout=FETCH_SECONDS)
            segment = await asyncio.to_thread(read_segment, data, bytes(post.args["digest"]))
            # Kept and served: whoever disputes the settlement needs it, and the trainer may be gone by then.
            await asyncio.to_thread(self._ipfs.pin, cid)
        except StorageError as error:
            self._report("segment_missing", f"steps {first} to {last} of {trainer}: {error}", fields)
            return False
        except BadJournal as error:
            self._report("segment_refused", f"steps {first} to {last} of {trainer}: {error}", fields)
            return True
        author = peers.get(segment.peer, "")
        if author.lower() != trainer.lower() or segment.job != str(self._job_id):
            self._report("segment_refused", f"{trainer} posted a segment of {segment.peer}", fields)
            return True
        for fault in (await asyncio.to_thread(self._material.add, segment, seed, place))[:5]:
            self._report("entry_refused", fault, fields)
        if segment.checkpoint:
            await self._keep_model(job, segment.checkpoint)
        return True

    async def _keep_model(self, job: Job, checkpoint: str) -> None:
        """Keep and serve the trained model, which outlives its trainers."""
        try:
            cid = Cid.parse(checkpoint)
            await asyncio.to_thread(self._ipfs.cat, cid, 4 * parameter_count(job.spec) + _MODEL_OVERHEAD)
            await asyncio.to_thread(self._ipfs.pin, cid)
        except StorageError as error:
            self._report("model_missing", f"job {self._job_id}: {error}", {"job": self._job_id, "cid": checkpoint})

    async def _settlement(self, job: Job, window: Window) -> Settlement:
        """What this round is worth, from everything at hand."""
        assert self._material is not None
        material, known = self._material, self._known

        def judge() -> Replay:
            steps = material.chain()
            return replay(job.spec, job.samples, steps, material.shown(steps), known)

        outcome = await asyncio.to_thread(judge)
        self._tell(window, outcome)
        stakes, money = self._watch.all(*_STAKE_EVENTS), self._watch.all(*_MONEY_EVENTS)
        rounds = self._windows(job.terms.post_seconds)[: window.number + 1]
        trainers = self._roster()
        return settle(
            Terms(self._client.deployment.chain_id, self._job_id, job.terms.rate_per_sample, job.terms.audit_fee),
            window.number,
            work_of(outcome, trainers),
            [active_validators(stakes, each.cutoff) for each in rounds],
            previous=await self._previous(window.number),
            cap=funded(money, self._job_id, window.cutoff),
            banned=list(trainers.banned.values()),
            last=outcome.steps == job.spec.steps,
            seed=window.seed,
            covered=outcome.steps,
        )

    async def _previous(self, number: int) -> dict[str, int]:
        """What was settled before round `number`, from the document behind the root on chain."""
        if number == 0:
            return {}
        event = self._settled()[number - 1]
        root = bytes(event.args["root"])
        if root == NO_ROOT:
            return {}
        document = await asyncio.to_thread(self._ipfs.get_node, Cid.parse(str(event.args["evidenceCid"])))
        tree = RewardTree.from_document(self._job_id, document, root)
        return {reward.account: reward.cumulative for reward in tree.rewards}

    def _swarm(self) -> bytes:
        deployment = self._client.deployment
        return swarm_id(deployment.chain_id, deployment.address("TrainingRegistry"), self._job_id)

    def _roster(self) -> Roster:
        registry = self._client.deployment.address("TrainingRegistry")
        events = self._watch.all(*_ROSTER_EVENTS)
        return roster(events, self._job_id, self._client.deployment.chain_id, registry)

    def _tell(self, window: Window, outcome: Replay) -> None:
        counts = outcome.counts()
        fields = {"job": self._job_id, "round": window.number, "steps": outcome.steps, "verdicts": counts}
        text = f"job {self._job_id}: {outcome.steps} steps replayed: " + ", ".join(
            f"{n} {v}" for v, n in counts.items()
        )
        self._report("audited", text, {**fields, "wrong_results": list(outcome.wrong_results)[:20]})
        if outcome.stopped:
            self._report("replay_stopped", f"step {outcome.steps}: {outcome.stopped}", fields)


def work_of(outcome: Replay, trainers: Roster) -> list[Work]:
    """The judgements of a replay, gathered by trainer."""
    work = []
    for peer, wallet in sorted({**trainers.trainers, **trainers.banned}.items()):
        mine = {step: j for (step, who), j in outcome.judgements.items() if who == peer}
        counts = outcome.counts(peer)
        credited = {step: j.samples for step, j in mine.items() if j.verdict in PAID and j.samples}
        work.append(Work(wallet, peer, credited, counts, counts.get(Verdict.CONTRADICTED, 0) > 0))
    return work
