"""The auditing agent: round by round, it judges what trainers posted and attests what it is worth.

Everything it attests is a function of the chain and the store, so a restarted agent simply computes it again.
"""

from __future__ import annotations

import asyncio
import contextlib

from hydra_node.chain.bindings.structs import TrainingTerms
from hydra_node.chain.contract import NoWallet
from hydra_node.chain.enums import State
from hydra_node.chain.events import Event
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.rewards import NO_ROOT, RewardTree
from hydra_node.errors import HydraError
from hydra_node.storage.cid import Cid
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.admission import Roster, roster
from hydra_node.training.job import load, swarm_id
from hydra_node.training.spec import parameter_count
from hydra_validator.audit.evidence import Evidence
from hydra_validator.audit.replay import PAID, Replay, Verdict
from hydra_validator.audit.settlement import Settlement, Terms, Work, settle
from hydra_validator.audit.spool import Spool
from hydra_validator.audit.windows import Window, active_validators, due, funded, windows
from hydra_validator.watch import Report, TooLate, Watch

RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 15.0
PATIENCE_SECONDS = 12  # chain time after a round's cutoff for missing segments to appear
REATTEST_SECONDS = 10  # chain time without a quorum after which everything is computed afresh
LATE_POSTS = 3  # times `postSeconds`: how long the last step's stragglers are waited for
EXTRA_PAID_ROUNDS = 2  # rounds with an audit fee beyond those that the steps need
_ATTEST_GAS = 1_000_000  # a settlement with 64 validators takes less; what is not used is not paid
_BAN_GAS = 150_000
_STAKE_EVENTS = ("Staked", "WithdrawRequested", "Withdrawn", "Slashed")
_MONEY_EVENTS = ("JobOpened", "ToppedUp", "Refunded")
_ROSTER_EVENTS = ("PeerBound", "TrainerJoined", "TrainerBanned")


class AuditAgent:
    """Audits the training jobs of one deployment for one validator."""

    def __init__(self, watch: Watch, ipfs: IpfsClient, report: Report) -> None:
        self._watch = watch
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
        pause = RETRY_SECONDS
        while not self._is_over(job_id):
            try:
                await self._audit(job_id)
                continue
            except HydraError as error:
                self._report("audit_failed", str(error), {"job": job_id})
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    async def _audit(self, job_id: int) -> None:
        """Attest every round; a dispute may take even the last one back, which is then attested anew."""
        audit = JobAudit(self._watch, self._ipfs, self._report, job_id)
        await audit.run()
        await self._watch.until(lambda: self._is_over(job_id) or not audit.ended() or None, "the job's end")

    def _is_over(self, job_id: int) -> bool:
        states = self._watch.find("StateChanged", "JobEscrow", jobId=job_id)
        return any(event.args["state"] in {State.SETTLED, State.REFUNDED} for event in states)


class JobAudit:
    """The audit of one job, round by round."""

    def __init__(self, watch: Watch, ipfs: IpfsClient, report: Report, job_id: int) -> None:
        self._watch = watch
        self._client = watch.client
        self._ipfs = ipfs
        self._report = report
        self._job_id = job_id
        if watch.client.sender is None:
            raise NoWallet("an auditor attests from a wallet", remedy="name one with --wallet")
        self._sender = watch.client.sender

    async def run(self) -> None:
        """Attest every round until the job is settled."""
        terms = await asyncio.to_thread(self._client.training.terms, self._job_id)
        # Nothing is loaded before there is something to audit.
        await self._watch.until(lambda: self._windows(terms) or self.ended() or None, "a posted segment")
        if self.ended():
            return
        job = await asyncio.to_thread(load, self._client, self._ipfs, self._job_id)
        deployment = self._client.deployment
        swarm = swarm_id(deployment.chain_id, deployment.address("TrainingRegistry"), self._job_id)
        with Spool(parameter_count(job.spec)) as spool:
            evidence = Evidence(job, swarm, spool, self._ipfs, self._report)
            prefetching = asyncio.create_task(self._prefetch(evidence), name="prefetch")
            try:
                complete = await self._was_complete(evidence)
                while (window := await self._next_round(terms, complete)) is not None:
                    complete = await self._settle_round(evidence, window)
            finally:
                prefetching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await prefetching

    async def _prefetch(self, evidence: Evidence) -> None:
        """Fetch each segment when it is posted, all that are new at the same time."""
        seen = 0

        def new() -> list[Event] | None:
            return self._posts()[seen:] or None

        while True:
            posts = await self._watch.until(new, "a posted segment")
            seen += len(posts)
            await asyncio.gather(*(evidence.prefetch(post) for post in posts))

    def _settled(self) -> list[Event]:
        """The settlements that stand, in order: a dispute takes its round back out, to be attested anew."""
        standing: list[Event] = []
        for event in self._watch.all("RoundSettled", "RoundReopened"):
            if event.args["jobId"] != self._job_id:
                continue
            if event.name == "RoundSettled":
                standing.append(event)
            else:
                standing.pop()
        return standing

    def ended(self) -> bool:
        """Whether the last round is settled, and stands."""
        return any(event.args["last"] for event in self._settled())

    def _windows(self, terms: TrainingTerms) -> list[Window]:
        return windows(self._posts(), terms.post_seconds)

    def _posts(self) -> list[Event]:
        return self._watch.find("RecordPosted", "TrainingRegistry", jobId=self._job_id)

    async def _was_complete(self, evidence: Evidence) -> bool:
        """After a restart: whether the rounds settled so far held the records of all steps."""
        before = self._windows(evidence.job.terms)[: len(self._settled())]
        if not before:
            return False
        await evidence.fetch(before, self._peers())
        return (await evidence.judge()).steps == evidence.job.spec.steps

    async def _next_round(self, terms: TrainingTerms, complete: bool) -> Window | None:
        """The next round to settle, once its posts are all in; None when the job is settled."""

        def seek() -> Window | bool | None:
            if self.ended():
                return False
            patience = LATE_POSTS * terms.post_seconds
            return due(
                self._windows(terms), len(self._settled()), self._watch.now, complete=complete, patience=patience
            )

        found = await self._watch.until(seek, "the end of a round")
        return found if isinstance(found, Window) else None

    async def _settle_round(self, evidence: Evidence, window: Window) -> bool:
        """Attest one round, again with fresh data whenever no quorum forms, until it is settled.

        Whether the records of all steps were known.
        """
        rounds = [*self._windows(evidence.job.terms)[: window.number], window]
        attested: tuple[bytes, int, tuple[str, ...], bool] | None = None
        complete = False
        while len(self._settled()) <= window.number:
            missing = await evidence.fetch(rounds, self._peers())
            if missing and self._watch.now <= window.cutoff + PATIENCE_SECONDS:
                await self._watch.until_time(self._watch.now + 1)
                continue
            outcome = await evidence.judge()
            complete = outcome.steps == evidence.job.spec.steps
            self._tell(window, outcome)
            settlement = await self._settlement(evidence, rounds, outcome)
            told = (settlement.tree.root, settlement.tree.total, settlement.cheats, settlement.last)
            if told != attested and await self._attest(settlement):
                attested = told
            try:
                by = self._watch.now + REATTEST_SECONDS
                await self._watch.until(lambda: len(self._settled()) > window.number or None, "a quorum", by)
            except TooLate:
                fields = {"job": self._job_id, "round": window.number}
                self._report("no_quorum_yet", f"job {self._job_id}: round {window.number} waits for others", fields)
        return complete

    async def _attest(self, settlement: Settlement) -> bool:
        """Put the evidence in the store and attest; False when the round was settled meanwhile."""
        cid = await asyncio.to_thread(self._ipfs.put_node, settlement.document)
        tree, number = settlement.tree, settlement.round_number
        # An estimate is of no use: whether this attestation is the one that settles depends on what is mined before it.
        gas = _ATTEST_GAS + _BAN_GAS * len(settlement.cheats)
        call = self._client.training.call(
            "attest", self._job_id, number, tree.root, tree.total, settlement.cheats, settlement.last, str(cid), gas=gas
        )
        try:
            await asyncio.to_thread(self._sender.send, call)
        except Reverted as error:
            if error.error_name not in {"WrongRound", "NotRunning", "RootDisputed"}:
                raise
            return False
        fields = {"job": self._job_id, "round": number, "root": tree.root.hex(), "total_wei": tree.total}
        text = f"job {self._job_id}: round {number} attested" + (", the last one" if settlement.last else "")
        self._report("attested", text, {**fields, "cheats": list(settlement.cheats), "last": settlement.last})
        return True

    async def _settlement(self, evidence: Evidence, rounds: list[Window], outcome: Replay) -> Settlement:
        """What the last of these rounds is worth."""
        job, window, trainers = evidence.job, rounds[-1], self._roster()
        stakes, money = self._watch.all(*_STAKE_EVENTS), self._watch.all(*_MONEY_EVENTS)
        paid_rounds = -(-job.spec.steps // job.spec.round_steps) + EXTRA_PAID_ROUNDS
        work = work_of(outcome, trainers)
        complete = outcome.steps == job.spec.steps
        return settle(
            Terms(self._client.deployment.chain_id, self._job_id, job.terms.rate_per_sample, job.terms.audit_fee),
            window.number,
            work,
            [active_validators(stakes, each.cutoff) for each in rounds[:paid_rounds]],
            previous=await self._previous(window.number),
            cap=funded(money, self._job_id, window.cutoff),
            banned=list(trainers.banned.values()),
            last=complete
            and (not window.posts or not stragglers(outcome, work, job.spec.steps - job.spec.round_steps)),
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

    def _roster(self) -> Roster:
        registry = self._client.deployment.address("TrainingRegistry")
        events = self._watch.all(*_ROSTER_EVENTS)
        return roster(events, self._job_id, self._client.deployment.chain_id, registry)

    def _peers(self) -> dict[str, str]:
        """All who ever joined, with their wallets."""
        known = self._roster()
        return {str(peer): wallet for peer, wallet in [*known.trainers.items(), *known.banned.items()]}

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
        credited = {step: j.samples for step, j in mine.items() if j.verdict in PAID and j.samples}
        counts = outcome.counts(peer)
        work.append(Work(wallet, peer, credited, counts, counts.get(Verdict.CONTRADICTED, 0) > 0))
    return work


def stragglers(outcome: Replay, work: list[Work], since: int) -> set[str]:
    """Honest peers whose work of the steps from `since` on is recorded, but not posted yet."""
    cheats = {entry.peer for entry in work if entry.cheat}
    return {
        peer
        for (step, peer), judgement in outcome.judgements.items()
        if step >= since and judgement.samples and judgement.verdict is Verdict.UNAVAILABLE and peer not in cheats
    }
