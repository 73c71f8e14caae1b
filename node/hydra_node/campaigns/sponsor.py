"""The sponsor's agent: open a campaign, turn its scored submissions into a dataset, open a training job on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra_node.campaigns.claims import ACTIVATION_TIMEOUT
from hydra_node.campaigns.policy import CampaignPolicy, ItemSchema
from hydra_node.campaigns.scored import ScoredSubmission, Scores, read_scores
from hydra_node.chain.bindings.structs import CampaignTerms, TrainingTerms
from hydra_node.chain.clock import chain_time, wait_until
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind, State
from hydra_node.chain.events import Event
from hydra_node.chain.history import History, evidence_of
from hydra_node.chain.rewards import RewardTree
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.storage import dataset, items, tables
from hydra_node.storage.cid import Cid

Reporter = Callable[[str, str, dict[str, Any]], None]
EXIT_SECONDS = 7 * 24 * 3600
GRACE_SECONDS = 120.0


class CampaignFailed(HydraError):
    """A campaign ended without an accepted dataset."""


def read_reference(path: Path, schema: ItemSchema) -> bytes:
    """The sponsor's clean reference set, packed like a submission. Raises UnreadableFile, MalformedSubmission."""
    table = tables.read_file(path)
    own = items.Schema.of(schema)
    return items.pack(own, items.from_arrays(own, table.features, table.labels))


class Sponsor:
    """What one sponsor does with its wallet and its node."""

    def __init__(self, host: Host, client: ChainClient, report: Reporter) -> None:
        self._host = host
        self._client = client
        self._report = report
        self._history = History(client.events)

    async def add(self, data: bytes) -> Cid:
        """Put bytes into the sponsor's store, from where others fetch them."""
        return await asyncio.to_thread(self._host.ipfs.add, data)

    async def open_campaign(self, policy: CampaignPolicy, reward: int, terms: CampaignTerms) -> int:
        """Escrow `reward` wei and open the campaign; its number. Contributors may commit from now on."""
        client = self._client
        job = await self._escrow(Kind.CAMPAIGN, policy.digest(), policy.to_bytes(), reward)
        await asyncio.to_thread(client.submissions.open_campaign, job, terms)
        fields = {"campaign": job, "reward_wei": reward, "reference": policy.reference}
        self._report("campaign_created", f"campaign {job} is open", fields)
        return job

    async def open_job(self, spec: bytes, spec_hash: bytes, reward: int, terms: TrainingTerms) -> int:
        """Escrow `reward` wei and open the training job of `spec`; its number."""
        job = await self._escrow(Kind.TRAINING, spec_hash, spec, reward)
        await asyncio.to_thread(self._client.training.open_training, job, terms)
        self._report("job_created", f"training job {job} is open", {"job": job, "reward_wei": reward})
        return job

    async def dataset_of(self, campaign: int) -> Cid:
        """Wait until the campaign is scored; the CID of the manifest of what was accepted.

        Raises CampaignFailed when the validators did not agree, or nothing was accepted.
        """
        patience = await self._campaign_seconds(campaign)
        final = await self._history.wait_for(lambda h: _final(h, campaign), "the end of the scoring round", patience)
        if final.name == "Failed":
            raise CampaignFailed(
                f"campaign {campaign}: the validators did not agree", remedy="the reward can be refunded"
            )
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
        """Take back what the job did not spend, once nobody can dispute its result; the wei."""
        await self._finish(job)
        available = await asyncio.to_thread(self._client.escrow.available, job)
        if not available:
            return 0
        receipt = await asyncio.to_thread(self._client.escrow.refund, job)
        amount = int(receipt.event("Refunded").args["amount"])
        self._report("refunded", f"job {job}: {amount} wei refunded", {"job": job, "amount_wei": amount})
        return amount

    async def _finish(self, job: int) -> None:
        client = self._client
        found = await asyncio.to_thread(client.escrow.job, job)
        if found.state != State.CHALLENGE:
            return
        _root, _total, active_at = await asyncio.to_thread(client.rewards.current, job)
        await asyncio.to_thread(wait_until, client.rpc, active_at, ACTIVATION_TIMEOUT)
        source = client.quality if found.kind == Kind.CAMPAIGN else client.training
        await asyncio.to_thread(source.finish, job)

    async def _escrow(self, kind: Kind, spec_hash: bytes, spec: bytes, reward: int) -> int:
        client = self._client
        cid = await self.add(spec)
        exit_time = await asyncio.to_thread(chain_time, client.rpc) + EXIT_SECONDS
        await asyncio.to_thread(client.token.approve, client.escrow.address, reward)
        receipt = await asyncio.to_thread(client.escrow.open, kind, spec_hash, str(cid), reward, exit_time)
        return int(receipt.event("JobOpened").args["jobId"])

    async def _campaign_seconds(self, campaign: int) -> float:
        terms = (await asyncio.to_thread(self._client.submissions.campaign, campaign)).terms
        windows = terms.commit_seconds + terms.reveal_seconds + terms.score_commit_seconds + terms.score_reveal_seconds
        return float(windows) + GRACE_SECONDS

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
            raise CampaignFailed(f"campaign {campaign}: nothing was accepted", remedy="the reward can be refunded")
        return dataset.Manifest(
            schema=items.Schema.of(policy.item_schema),
            licence=" OR ".join(policy.licences),
            rule=scores.rule,
            entries=entries,
        )


def _final(history: History, campaign: int) -> list[Event]:
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
