"""The agent behind `hydra-node stake-and-train`: enlist, train with the others, post, be paid."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra_node.chain.amounts import format_hydra
from hydra_node.chain.clock import wait_until
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import State
from hydra_node.chain.events import Event
from hydra_node.chain.rewards import RewardTree, claim
from hydra_node.collective.driver import Collective
from hydra_node.collective.errors import Ejected
from hydra_node.collective.options import Options
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError
from hydra_node.training import enlist, metrics
from hydra_node.training.admission import Roster, roster
from hydra_node.training.evaluate import checkpoint
from hydra_node.training.job import BadJob, Job, load, swarm_id
from hydra_node.training.journal import Journal
from hydra_node.training.posting import Account, PostRefused, Reporter, SegmentPoster
from hydra_node.training.samples import BadSamples
from hydra_node.training.spec import BadSpec
from hydra_node.training.workload import Manner, StepReport, TrainingWorkload

WATCH_SECONDS = 1.0
AGAIN_SECONDS = 20.0
"""How long a job that could not be fetched is passed over."""
POST_SECONDS = 120.0
LEAVE_SECONDS = 3.0
ACTIVATION_SECONDS = 600.0


class Banned(HydraError):
    """The validators found this trainer's work false: its stake is cut and the others go on without it."""


class NothingToTrain(HydraError):
    """No training job is open."""


@dataclass(frozen=True, slots=True)
class TrainerOptions:
    """What one trainer does. `folder` keeps its journals and metrics, a subfolder a job.

    `job_id` None means the newest open job, or the next one. `stake` is what shall be staked in all, in wei; 0 leaves
    the stake as it is. The timeouts, in seconds, bound the waits for a job to open and, once trained, for its
    settlement.
    """

    folder: Path
    job_id: int | None = None
    stake: int = 0
    manner: Manner = field(default_factory=Manner)
    claim: bool = True
    job_timeout: float = 86_400.0
    settlement_timeout: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: the job, steps applied, and the wei that were claimed."""

    job_id: int
    steps: int
    claimed: int


class Trainer:
    """One trainer: its host (peer and store), its wallet's client, and what it is told to do.

    `report` hears of everything that happens as (kind, text for people, facts); a committed step has no text.
    """

    def __init__(
        self,
        host: Host,
        client: ChainClient,
        options: TrainerOptions,
        report: Reporter,
        on_step: Callable[[StepReport], None] | None = None,
    ) -> None:
        self._host = host
        self._client = client
        self._options = options
        self._report = report
        self._on_step = on_step
        self._history = client.history
        self._known = Roster({}, {})
        self._passed_over: dict[int, float] = {}
        self._registry = client.deployment.address("TrainingRegistry")

    async def run(self) -> Outcome:
        """Trains one job from enlisting to the claim.

        May be cancelled at any time and run again: it goes on where it was. Raises CannotEnlist, BadJob, Banned and
        the errors of chain, store and swarm.
        """
        await self._prepare()
        # Loaded before it is joined: a job that cannot be fetched does not lock the stake.
        job = await self._find_job()
        job_id = job.job_id
        await asyncio.to_thread(enlist.join, self._client, self._host.identity, job_id)
        self._report("joined", f"joined job {job_id} as {self._host.peer_id}", {"job": job_id})
        steps, banned = await self._train(job)
        claimed = await self._settlement(job_id)
        if banned:
            raise Banned(
                f"the validators found false gradients of {self._client.address} in job {job_id}",
                expected="honest work",
                remedy="what is left of the stake can be withdrawn once the job is over: hydra-node unstake",
            )
        return Outcome(job_id, steps, claimed)

    async def _prepare(self) -> None:
        client = self._client
        if self._options.stake:
            added = await asyncio.to_thread(enlist.stake_up_to, client, self._options.stake)
            if added:
                self._report("staked", f"staked {format_hydra(added)}", {"amount_wei": added})
        if await asyncio.to_thread(enlist.bind_peer, client, self._host.identity):
            self._report("bound", f"bound peer {self._host.peer_id}", {"peer": str(self._host.peer_id)})

    async def _find_job(self) -> Job:
        if self._options.job_id is not None:
            return await self._load(self._options.job_id)
        self._report("waiting", "waiting for a training job", {})
        try:
            async with asyncio.timeout(self._options.job_timeout):
                while True:
                    if (job := await self._newest_job()) is not None:
                        return job
                    await asyncio.sleep(WATCH_SECONDS)
        except TimeoutError:
            raise NothingToTrain(
                f"no training job was opened in {self._options.job_timeout:.0f} s", remedy="see: hydra-node job list"
            ) from None

    async def _newest_job(self) -> Job | None:
        """The newest open job that can be fetched and holds together: one that cannot must not keep trainers away."""
        await asyncio.to_thread(self._history.refresh)
        opened = self._history.find("TrainingOpened")
        for job_id in await asyncio.to_thread(enlist.open_jobs, self._client, opened):
            if self._passed_over.get(job_id, 0) > time.monotonic():
                continue
            try:
                return await self._load(job_id)
            except (StorageError, BadJob, BadSpec, BadSamples) as error:
                self._passed_over[job_id] = time.monotonic() + AGAIN_SECONDS
                self._report("passed_over", f"job {job_id} is passed over: {error}", {"job": job_id})
        return None

    async def _load(self, job_id: int) -> Job:
        return await asyncio.to_thread(load, self._client, self._host.ipfs, job_id)

    # --- training -----------------------------------------------------------------------------------------------

    async def _train(self, job: Job) -> tuple[int, bool]:
        """Trains until the last step, the job's end on chain or a ban; the steps applied, whether banned."""
        folder = self._options.folder / f"job-{job.job_id}"
        account = Account(job.job_id, str(self._host.peer_id), job.spec.steps, job.spec.round_steps)
        with contextlib.ExitStack() as stack:
            journal = stack.enter_context(Journal(folder / "journal"))
            lines = stack.enter_context(metrics.MetricsFile(folder / "metrics.jsonl"))
            poster = SegmentPoster(self._host.ipfs, self._client, journal, account, self._report)

            if poster.ended:
                # An earlier process ended between the last step and the post of it.
                await self._post_rest(poster, job.job_id, "")
                return job.spec.steps, False

            told = journal.last

            def observe(step: StepReport) -> None:
                poster.wake()
                if step.step <= told:
                    # Catching up over what an earlier process took part in.
                    return
                lines.write(step)
                self._report("step", "", metrics.facts(step))
                if self._on_step is not None:
                    self._on_step(step)

            workload = stack.enter_context(
                TrainingWorkload(
                    job.spec,
                    job.samples,
                    self._host.peer_id,
                    manner=self._options.manner,
                    journal=journal,
                    observer=observe,
                )
            )
            await self._work(job, workload, poster)
            steps = workload.training.step
            banned = await asyncio.to_thread(self._client.training.is_banned, job.job_id, self._client.address)
            if banned:
                self._report("banned", f"banned from job {job.job_id}", {"job": job.job_id})
            return steps, banned

    async def _work(self, job: Job, workload: TrainingWorkload, poster: SegmentPoster) -> None:
        """Runs the collective and the poster to their ends, or until the watch or a failure ends them."""
        swarm = swarm_id(self._client.deployment.chain_id, self._registry, job.job_id)
        self._known = await self._roster(job.job_id)
        # Two thirds of those who joined: then a network that splits meanwhile cannot begin two trainings.
        enough = max(job.spec.min_trainers, math.ceil(len(self._known.trainers) * 2 / 3))
        options = Options(min_members=enough, clip_slack=job.spec.clip)
        collective = Collective(self._host.node, self._host.identity, swarm, workload, options)
        workload.lineage = lambda: collective.lineage
        training = asyncio.create_task(collective.run(job.spec.steps, eject=self._is_shut_out), name="training")
        posting = asyncio.create_task(self._post(job, workload, poster), name="posting")
        watch = asyncio.create_task(self._watch(job.job_id), name="watch")
        # Who is through with one still has the other to do: to help others catch up, or to post.
        both = asyncio.gather(training, posting)
        try:
            ends: list[asyncio.Future[Any]] = [both, watch]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            collective.leave()
            await asyncio.wait([training], timeout=LEAVE_SECONDS)
            raise
        finally:
            # Each by itself: when one of both has failed, to cancel both would leave the other running.
            for task in (training, posting, watch):
                task.cancel()
            results = await asyncio.gather(both, training, posting, watch, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError | Ejected):
                raise result

    async def _post(self, job: Job, workload: TrainingWorkload, poster: SegmentPoster) -> None:
        try:
            await poster.run()
            await self._finish(job, workload, poster)
        except PostRefused as refused:
            # The watch finds out why, and ends the training.
            self._report("post_refused", str(refused), {"job": job.job_id})
            await asyncio.Event().wait()

    def _is_shut_out(self, peer: str) -> bool:
        """Whether the chain does not admit a peer to the swarm, or no longer; this one is until it is banned."""
        if peer == self._host.peer_id:
            return peer in self._known.banned
        return peer not in self._known.trainers

    async def _watch(self, job_id: int) -> None:
        """Follows whom the chain admits; returns when the job has ended.

        A ban of this trainer reaches the collective, which first helps the others to go on without it.
        """
        while not self._ended(job_id):
            await asyncio.sleep(WATCH_SECONDS)
            try:
                self._known = await self._roster(job_id)
            except HydraError as error:
                # The training needs no chain; what was known of it stays until it answers again.
                self._report("chain_unavailable", f"the chain does not answer: {error}", {"job": job_id})

    async def _roster(self, job_id: int) -> Roster:
        await asyncio.to_thread(self._history.refresh)
        return roster(self._history.all(), job_id, self._client.deployment.chain_id, self._registry)

    def _ended(self, job_id: int) -> list[Event]:
        wanted = (State.CHALLENGE, State.REFUNDED)
        return [e for e in self._history.find("StateChanged", jobId=job_id) if e.args["state"] in wanted]

    async def _finish(self, job: Job, workload: TrainingWorkload, poster: SegmentPoster) -> None:
        """Puts the model into the store and posts what is left of the journal."""
        training = workload.training
        model = await asyncio.to_thread(checkpoint, job.spec, training.parameters, training.step)
        cid = str(await asyncio.to_thread(self._host.ipfs.add, model))
        facts = {"job": job.job_id, "steps": training.step, "checkpoint": cid, "digest": training.digest().hex()}
        self._report("trained", f"job {job.job_id}: {training.step} steps, model {cid}", facts)
        await self._post_rest(poster, job.job_id, cid)

    async def _post_rest(self, poster: SegmentPoster, job_id: int, model: str) -> None:
        try:
            await poster.finish(model, POST_SECONDS)
        except (PostRefused, TimeoutError) as error:
            self._report("post_refused", f"the last steps could not be posted: {error}", {"job": job_id})

    # --- the end ------------------------------------------------------------------------------------------------

    async def _settlement(self, job_id: int) -> int:
        """Serves the store until the job is settled, then claims; the wei that were paid."""
        self._report("awaiting_settlement", f"job {job_id}: waiting for the settlement", {"job": job_id})
        await self._history.wait_for(
            lambda _: self._ended(job_id), f"the settlement of job {job_id}", self._options.settlement_timeout
        )
        if not self._options.claim:
            return 0
        client, rounds = self._client, self._history.find("RoundSettled", jobId=job_id)
        if not rounds:
            return 0
        document = await asyncio.to_thread(self._host.ipfs.get_node, Cid.parse(str(rounds[-1].args["evidenceCid"])))
        tree = RewardTree.from_document(job_id, document, bytes(rounds[-1].args["root"]))
        _root, _total, active_at = await asyncio.to_thread(client.rewards.current, job_id)
        await wait_until(client.rpc, active_at, ACTIVATION_SECONDS)
        paid = await asyncio.to_thread(claim, client, tree, client.address)
        self._report("claimed", f"{format_hydra(paid)} claimed", {"job": job_id, "amount_wei": paid})
        return paid
