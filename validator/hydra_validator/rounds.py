"""The scoring agent: from a campaign's opening to the tally of its round.

Every step looks at the chain first, so the agent may be restarted at any point. What a reveal needs is on disk
before the commit is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from hydra_node.chain.bindings.structs import Campaign
from hydra_node.chain.enums import RoundState
from hydra_node.chain.events import Event
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.rewards import RewardTree
from hydra_node.chain.secrets import SecretStore, Value
from hydra_node.errors import HydraError
from hydra_node.storage.ipfs import IpfsClient
from hydra_validator.gather import gather
from hydra_validator.scoring.report import Document, Round, build
from hydra_validator.scoring.score import score_campaign, seed_of
from hydra_validator.watch import Report, TooLate, Watch

FETCH_SHARE = 0.4  # of the commit window, for payloads to arrive; the rest is for scoring and committing
RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 30.0
COPY_COMMITMENT = "copy-commitment"


@dataclass(frozen=True, slots=True)
class Vote:
    """What a validator commits to, and later shows."""

    root: bytes
    total: int
    evidence: str
    salt: bytes


class ScoringAgent:
    """Scores the campaigns of one deployment for one validator."""

    def __init__(
        self,
        watch: Watch,
        ipfs: IpfsClient,
        secrets: SecretStore,
        report: Report,
        *,
        campaigns: Collection[int] = (),
        adversary: str = "",
    ) -> None:
        self._watch = watch
        self._client = watch.client
        self._ipfs = ipfs
        self._secrets = secrets
        self._report = report
        self._only = frozenset(campaigns)
        self._copies = adversary == COPY_COMMITMENT

    async def run(self) -> None:
        """Follow every campaign (or those asked for) until cancelled; a failure in one never stops another."""
        seen: set[int] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                job = await self._watch.until(lambda: self._unseen(seen), "a campaign")
                seen.add(job)
                group.create_task(self._follow(job), name=f"campaign {job}")

    def _unseen(self, seen: set[int]) -> int | None:
        for event in self._watch.find("CampaignOpened", "SubmissionRegistry"):
            job = int(event.args["jobId"])
            if job not in seen and (not self._only or job in self._only):
                return job
        return None

    async def _follow(self, job: int) -> None:
        pause = RETRY_SECONDS
        while True:
            try:
                return await self.score(job)
            except HydraError as error:
                self._report("scoring_failed", str(error), {"job": job})
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    async def score(self, job: int) -> None:
        """Take one campaign to its end, from wherever it stands."""
        if self._is_over(job):
            return
        campaign = await asyncio.to_thread(self._client.submissions.campaign, job)
        # A first round without a result is followed by a second one, with another committee.
        while not self._is_over(job):
            opened = await self._opened(job, campaign)
            if opened is None:
                return
            await self._take_part(job, campaign, opened)

    async def _take_part(self, job: int, campaign: Campaign, opened: Event) -> None:
        round_id = int(opened.args["roundId"])
        try:
            if self._client.address.lower() not in _lower(opened.args["committee"]):
                self._report("not_on_committee", f"campaign {job}: others score it", {"job": job, "round": round_id})
            elif self._copies:
                await self._copy(job, round_id, opened)
            else:
                await self._vote(job, campaign, round_id, opened)
        except TooLate as error:
            # The round must end all the same, and anybody may end it.
            self._report("scoring_missed", str(error), {"job": job, "round": round_id})
        await self._tally(job, round_id, opened)

    async def _opened(self, job: int, campaign: Campaign) -> Event | None:
        """The event that opened the job's newest round, unless that one has ended; draws its committee when nobody else
        does. None when nothing was revealed."""
        await self._watch.until_time(campaign.reveal_end)
        quality = self._client.quality

        def seek() -> Event | None:
            # Its block's hash seeds the scores: nobody starts on one that may still be replaced.
            rounds = self._watch.find("RoundOpened", "QualityRounds", final=True, jobId=job)
            return rounds[-1] if rounds and not self._has_ended(int(rounds[-1].args["roundId"])) else None

        while (event := seek()) is None:
            if self._is_over(job):
                return None
            if not await self._race(
                lambda: quality.open_round(job), "AlreadyOpened", "CampaignRunning", "DrawPending", "NoValidators"
            ):
                self._report("campaign_empty", f"campaign {job}: nothing was revealed", {"job": job})
                return None
            await asyncio.sleep(RETRY_SECONDS)
        return event

    async def _race(self, act: Callable[[], object], *lost: str) -> bool:
        """Send something that any validator may send. Errors in `lost` mean that another was faster, or that the
        newest block was not the one we saw; False when there is nothing to do at all."""
        try:
            await asyncio.to_thread(act)
        except Reverted as error:
            if error.error_name == "NothingRevealed":
                return False
            if error.error_name not in lost:
                raise
        return True

    async def _vote(self, job: int, campaign: Campaign, round_id: int, opened: Event) -> None:
        key = f"round-{round_id}"
        ballot = await asyncio.to_thread(self._client.quality.ballot, round_id, self._client.address)
        if ballot.revealed:
            return self._secrets.delete(key)
        vote = self._remembered(key)
        if vote is None:
            if ballot.commitment != bytes(32):
                raise TooLate(f"round {round_id} was committed to, but its secret is not on this disk")
            vote = await self._prepare(job, campaign, round_id, opened)
            record: dict[str, Value] = {
                "root": vote.root,
                "total": str(vote.total),
                "evidence": vote.evidence,
                "salt": vote.salt,
            }
            await asyncio.to_thread(self._secrets.put, key, record)
        if ballot.commitment == bytes(32):
            await self._commit(job, round_id, vote, int(opened.args["commitEnd"]))
        await self._reveal(job, round_id, vote, int(opened.args["revealEnd"]))
        return self._secrets.delete(key)

    async def _prepare(self, job: int, campaign: Campaign, round_id: int, opened: Event) -> Vote:
        document, tree = await self._evaluate(job, campaign, round_id, opened)
        cid = await asyncio.to_thread(self._ipfs.put_node, document)
        accepted = sum(1 for entry in document["submissions"] for bucket in entry["buckets"] if bucket)
        self._report(
            "scored",
            f"campaign {job}: {accepted} items accepted in {len(document['submissions'])} submissions",
            {"job": job, "round": round_id, "root": tree.root.hex(), "total_wei": tree.total, "report": str(cid)},
        )
        return Vote(tree.root, tree.total, str(cid), SecretStore.new_salt())

    async def _evaluate(
        self, job: int, campaign: Campaign, round_id: int, opened: Event
    ) -> tuple[Document, RewardTree]:
        self._in_time(int(opened.args["commitEnd"]), "scoring")
        gathered = await gather(
            self._watch,
            self._ipfs,
            job,
            opened,
            max_items=campaign.terms.max_items,
            timeout=FETCH_SHARE * campaign.terms.score_commit_seconds,
        )
        for entry in gathered.submissions:
            if entry.fault:
                fields = {"job": job, "submission": entry.submission_id, "reason": entry.fault}
                self._report("submission_refused", f"submission {entry.submission_id}: {entry.fault}", fields)
        about = Round(
            chain_id=self._client.deployment.chain_id,
            job_id=job,
            round_id=round_id,
            budget=await asyncio.to_thread(self._client.quality.budget, round_id),
            seed=opened.block_hash,
            reference=gathered.policy.reference,
        )
        score = await asyncio.to_thread(
            score_campaign,
            gathered.reference,
            gathered.submissions,
            gathered.policy.item_schema,
            seed=seed_of(opened.block_hash, job),
        )
        return build(about, gathered.payloads, score)

    async def _commit(self, job: int, round_id: int, vote: Vote, by: int) -> None:
        self._in_time(by, "the commitment")
        quality, me = self._client.quality, self._client.address
        commitment = await asyncio.to_thread(
            quality.commitment_of, round_id, me, vote.root, vote.total, vote.evidence, vote.salt
        )
        await asyncio.to_thread(quality.commit, round_id, commitment, key=f"round-{round_id}-commit")
        self._report("committed", f"campaign {job}: committed", {"job": job, "round": round_id})

    async def _reveal(self, job: int, round_id: int, vote: Vote, by: int) -> None:
        await self._until_state(round_id, RoundState.REVEAL, by)
        shown = vote.root, vote.total, vote.evidence, vote.salt
        await asyncio.to_thread(self._client.quality.reveal, round_id, *shown, key=f"round-{round_id}-reveal")
        self._report("revealed", f"campaign {job}: revealed", {"job": job, "round": round_id})

    async def _tally(self, job: int, round_id: int, opened: Event) -> None:
        """Tally as soon as it can be done, whoever does it first."""
        members, quality = len(opened.args["committee"]), self._client.quality

        def due() -> bool | None:
            shown = len(self._watch.find("Revealed", "QualityRounds", roundId=round_id))
            closed = self._watch.first("CommitsClosed", "QualityRounds", roundId=round_id) or opened
            late = self._watch.now >= int(closed.args["revealEnd"])
            return shown >= members or late or self._has_ended(round_id) or None

        await self._watch.until(due, "the reveals")
        while not self._has_ended(round_id):
            await self._race(lambda: quality.tally(round_id), "RoundNotOpen", "RevealsOpen")
            await asyncio.sleep(RETRY_SECONDS)
        passed = self._watch.first("Tallied", "QualityRounds", roundId=round_id) is not None
        outcome = "settled" if passed else "failed"
        self._report(f"round_{outcome}", f"campaign {job}: the round has {outcome}", {"job": job, "round": round_id})

    async def _copy(self, job: int, round_id: int, opened: Event) -> None:
        """The adversary of devnets: commit another's bytes, then find that they cannot be revealed."""
        me, quality = self._client.address.lower(), self._client.quality

        def others(name: str) -> Event | None:
            events = self._watch.find(name, "QualityRounds", roundId=round_id)
            return next((event for event in events if str(event.args["validator"]).lower() != me), None)

        committed = self._watch.find("Committed", "QualityRounds", roundId=round_id)
        if not any(str(event.args["validator"]).lower() == me for event in committed):
            victim = await self._watch.until(lambda: others("Committed"), "a commitment", int(opened.args["commitEnd"]))
            await asyncio.to_thread(quality.commit, round_id, bytes(victim.args["commitment"]))
            self._report("committed", f"campaign {job}: copied a commitment", {"job": job, "round": round_id})
        shown = await self._watch.until(lambda: others("Revealed"), "a reveal", int(opened.args["revealEnd"]))
        vote = (bytes(shown.args["root"]), int(shown.args["total"]), str(shown.args["evidenceCid"]))
        try:
            await asyncio.to_thread(quality.reveal, round_id, *vote, SecretStore.new_salt())
        except Reverted as error:
            self._report("reveal_refused", str(error), {"job": job, "round": round_id, "error": error.error_name})

    async def _until_state(self, round_id: int, state: RoundState, by: int) -> None:
        while (await asyncio.to_thread(self._client.quality.round, round_id)).state < state:
            self._in_time(by, f"the state {state.name}")
            await self._watch.until_time(self._watch.now + 1)

    def _in_time(self, by: int, what: str) -> None:
        if self._watch.now >= by:
            raise TooLate(f"chain time is {self._watch.now}: too late for {what}", expected=f"before {by}")

    def _is_over(self, job: int) -> bool:
        return any(self._watch.first(name, "QualityRounds", jobId=job) for name in ("Tallied", "Failed"))

    def _has_ended(self, round_id: int) -> bool:
        ends = ("Tallied", "Redrawing", "Failed")
        return any(self._watch.first(name, "QualityRounds", roundId=round_id) for name in ends)

    def _remembered(self, key: str) -> Vote | None:
        record = self._secrets.get(key)
        if record is None:
            return None
        root, total, evidence, salt = (record[name] for name in ("root", "total", "evidence", "salt"))
        assert isinstance(root, bytes) and isinstance(salt, bytes) and isinstance(evidence, str)
        return Vote(root, int(total), evidence, salt)


def _lower(addresses: Collection[str]) -> set[str]:
    return {address.lower() for address in addresses}
