"""The sponsor's agent: open a campaign, turn its scored submissions into a dataset, open a training job on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hydra_node.campaigns.claims import evidence_of
from hydra_node.campaigns.policy import CampaignPolicy, ItemSchema
from hydra_node.campaigns.refund import refund, refunded
from hydra_node.campaigns.scored import ScoredSubmission, Scores, read_scores
from hydra_node.campaigns.terms import EXIT_SECONDS, check_campaign, check_training, windows
from hydra_node.chain import actions
from hydra_node.chain.bindings.structs import CampaignTerms, TrainingTerms
from hydra_node.chain.clock import chain_time
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind, State
from hydra_node.chain.event_store import POLL_SECONDS, EventStore, NotSeenOnChain
from hydra_node.chain.events import Event
from hydra_node.chain.rewards import RewardTree
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.storage import dataset, items, tables
from hydra_node.storage.cid import Cid

Reporter = Callable[[str, str, dict[str, Any]], None]
GRACE_SECONDS = 120.0


class CampaignFailed(HydraError):
    """A campaign ended without an accepted dataset."""


class OpeningFailed(HydraError):
    """A reward is in escrow, but what it is for could not be opened."""


def read_reference(path: Path, schema: ItemSchema) -> bytes:
    """The sponsor's clean reference set, packed like a submission. Raises UnreadableFile, which names the file."""
    own = items.Schema.of(schema)
    return items.pack(own, items.from_table(own, tables.read_file(path), path))


class Sponsor:
    """What one sponsor does with its wallet and its node."""

    def __init__(self, host: Host, client: ChainClient, report: Reporter) -> None:
        self._host = host
        self._client = client
        self._report = report
        self._history = client.history

    async def add(self, data: bytes) -> Cid:
        """Put bytes into the sponsor's store, from where others fetch them."""
        return await asyncio.to_thread(self._host.ipfs.add, data)

    async def open_campaign(self, policy: CampaignPolicy, reward: int, terms: CampaignTerms) -> int:
        """Escrow `reward` wei and open the campaign; its number. Contributors may commit from now on.

        Raises BadTerms, BadArgument before any money moves.
        """
        client = self._client
        await asyncio.to_thread(check_campaign, client, terms, reward)
        job = await self._escrow(Kind.CAMPAIGN, policy.digest(), policy.to_bytes(), reward, windows(terms))
        with self._escrowed(job, "campaign"):
            await asyncio.to_thread(client.submissions.open_campaign, job, terms)
        fields = {"campaign": job, "reward_wei": reward, "reference": policy.reference}
        self._report("campaign_created", f"campaign {job} is open", fields)
        return job

    async def open_job(
        self, spec: bytes, spec_hash: bytes, reward: int, terms: TrainingTerms, samples_per_step: int
    ) -> int:
        """Escrow `reward` wei and open the training job of `spec`; its number.

        Raises BadTerms, BadArgument before any money moves.
        """
        client = self._client
        await asyncio.to_thread(check_training, client, terms, reward, terms.steps * samples_per_step)
        job = await self._escrow(Kind.TRAINING, spec_hash, spec, reward, 0)
        with self._escrowed(job, "job"):
            await asyncio.to_thread(client.training.open_training, job, terms)
        self._report("job_created", f"training job {job} is open", {"job": job, "reward_wei": reward})
        return job

    async def dataset_of(self, campaign: int) -> Cid:
        """Wait until the campaign is scored; the CID of the manifest of what was accepted.

        Raises CampaignFailed when the validators did not agree, or nothing was accepted.
        """
        final = await self._final(campaign)
        if final.name == "Failed":
            raise CampaignFailed(f"campaign {campaign}: the validators did not agree", remedy=_refund_hint(campaign))
        document = await asyncio.to_thread(self._host.ipfs.get_node, Cid.parse(evidence_of(self._history, final)))
        RewardTree.from_document(campaign, document, bytes(final.args["root"]))
        manifest = await self._manifest(campaign, read_scores(document))
        cid = await asyncio.to_thread(dataset.save, self._host.ipfs, manifest)
        # Reading it back fetches every payload, so that this node can serve the whole of it.
        count = len(await asyncio.to_thread(dataset.load, self._host.ipfs, cid))
        fields = {"campaign": campaign, "cid": str(cid), "items": count}
        self._report("dataset", f"dataset {cid}: {count} items", fields)
        return cid

    async def settled(self, job: int, timeout: float) -> State:
        """Wait until a training job has its last result, which may be disputed yet, or is given up; its state."""
        wanted = (State.CHALLENGE, State.REFUNDED)
        event = await self._history.wait_for(
            lambda h: [e for e in h.find("StateChanged", jobId=job) if e.args["state"] in wanted],
            f"the settlement of job {job}",
            timeout,
        )
        return State(event.args["state"])

    async def refund(self, job: int) -> int:
        """Take back what the job did not spend, once nobody can dispute its result; the wei. Raises NotRefundable."""
        amount = await refund(self._client, job)
        self._report("refunded", refunded(job, amount), {"job": job, "amount_wei": amount})
        return amount

    async def _escrow(self, kind: Kind, spec_hash: bytes, spec: bytes, reward: int, seconds: int) -> int:
        client = self._client
        cid = await self.add(spec)
        exit_time = await asyncio.to_thread(chain_time, client.rpc) + seconds + EXIT_SECONDS
        return await asyncio.to_thread(
            partial(
                actions.open_job,
                client,
                kind,
                spec_hash=spec_hash,
                spec_cid=str(cid),
                amount=reward,
                exit_time=exit_time,
            )
        )

    @contextmanager
    def _escrowed(self, job: int, noun: str) -> Iterator[None]:
        """What fails in here leaves money in escrow: say so, and how to get it back."""
        try:
            yield
        except HydraError as error:
            remedy = f"its reward is in escrow; take it back in time with: hydra-node {noun} refund {job}"
            raise OpeningFailed(f"{noun} {job} was not opened: {error}", remedy=remedy) from error

    async def _final(self, campaign: int) -> Event:
        """The event that ended the scoring. Raises CampaignFailed when it cannot come any more."""
        found = await asyncio.to_thread(self._client.submissions.campaign, campaign)
        await self._first_reveal(campaign, found.reveal_end)
        left = max(0, found.reveal_end - await asyncio.to_thread(chain_time, self._client.rpc))
        scoring = found.terms.score_commit_seconds + found.terms.score_reveal_seconds
        try:
            # Twice: a round that fails is drawn again once.
            patience = left + 2 * (scoring + GRACE_SECONDS)
            return await self._history.wait_for(lambda h: _final(h, campaign), "the scoring", patience)
        except NotSeenOnChain:
            raise CampaignFailed(
                f"campaign {campaign}: no validators have scored it", remedy=_refund_hint(campaign)
            ) from None

    async def _first_reveal(self, campaign: int, reveal_end: int) -> None:
        while True:
            late = await asyncio.to_thread(chain_time, self._client.rpc) > reveal_end
            await asyncio.to_thread(self._history.refresh)
            if self._history.find("Revealed", "SubmissionRegistry", jobId=campaign):
                return
            if late:
                raise CampaignFailed(f"campaign {campaign}: nobody submitted data", remedy=_refund_hint(campaign))
            await asyncio.sleep(POLL_SECONDS)

    async def _manifest(self, campaign: int, scores: Scores) -> dataset.Manifest:
        revealed = {
            int(event.args["submissionId"]): event
            for event in self._history.find("Revealed", "SubmissionRegistry", jobId=campaign)
        }
        opened = self._history.find("JobOpened", jobId=campaign)[0]
        policy = CampaignPolicy.from_bytes(
            await asyncio.to_thread(self._host.ipfs.cat, Cid.parse(str(opened.args["specCid"])), 1 << 20),
            digest=bytes(opened.args["specHash"]),
        )
        entries = tuple(
            _entry(submission, revealed[submission.id]) for submission in scores.submissions if submission.accepted
        )
        if not entries:
            raise CampaignFailed(f"campaign {campaign}: nothing was accepted", remedy=_refund_hint(campaign))
        return dataset.Manifest(
            schema=items.Schema.of(policy.item_schema),
            licence=" OR ".join(policy.licences),
            rule=scores.rule,
            entries=entries,
        )


def _refund_hint(campaign: int) -> str:
    return f"take back what it did not spend with: hydra-node campaign refund {campaign}"


def _final(history: EventStore, campaign: int) -> list[Event]:
    return history.find("Tallied", jobId=campaign) + history.find("Failed", "QualityRounds", jobId=campaign)


def _entry(submission: ScoredSubmission, event: Event) -> dataset.Entry:
    return dataset.Entry(
        submission=submission.id,
        contributor=str(event.args["contributor"]),
        payload=Cid.parse(str(event.args["cid"])),
        licence_hash=bytes(event.args["licenceHash"]),
        consent_hash=bytes(event.args["consentHash"]),
        accepted=submission.accepted,
        scores=tuple(submission.buckets[index] for index in submission.accepted),
    )
