"""The contributor's agent: commit to the data, reveal it, serve it until it is scored, claim the reward.

What it needs to reveal is on disk before the commit is sent, so a submission goes on from wherever it was
interrupted; running the same command again continues it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_node.campaigns.claims import claim_job, evidence_of
from hydra_node.campaigns.policy import MAX_POLICY_BYTES, CampaignPolicy
from hydra_node.campaigns.scored import read_scores
from hydra_node.chain.actions import commit_submission
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind
from hydra_node.chain.event_store import EventStore
from hydra_node.chain.events import Event
from hydra_node.chain.secrets import SecretStore
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.storage import items, tables
from hydra_node.storage.cid import Cid

Reporter = Callable[[str, str, dict[str, Any]], None]
GRACE_SECONDS = 60.0


class NotAcceptedHere(HydraError):
    """Data or a licence that the campaign does not take."""


class NoSuchCampaign(HydraError):
    """A job number that is no campaign on this chain."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission ready to be committed: its packed bytes and what will be revealed of them."""

    payload: bytes
    items_root: bytes
    item_count: int
    licence_hash: bytes
    consent_hash: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a submission ended: what the validators' report says of it, and what was paid for it (wei)."""

    accepted: int
    items: int
    amount: int
    reason: str


async def fetch_policy(client: ChainClient, host: Host, history: EventStore, campaign: int) -> CampaignPolicy:
    """The campaign's policy from the store, checked against the hash on chain. Raises NoSuchCampaign, BadPolicy."""
    await asyncio.to_thread(history.refresh)
    opened = history.find("JobOpened", jobId=campaign)
    if not opened or opened[0].args["kind"] != Kind.CAMPAIGN:
        raise NoSuchCampaign(f"there is no campaign {campaign} here", remedy="see: hydra-node campaign list")
    cid = Cid.parse(str(opened[0].args["specCid"]))
    data = await asyncio.to_thread(host.ipfs.cat, cid, MAX_POLICY_BYTES)
    return CampaignPolicy.from_bytes(data, digest=bytes(opened[0].args["specHash"]))


def prepare(policy: CampaignPolicy, path: Path, licence: str) -> Prepared:
    """Read and pack the items of a file. Raises NotAcceptedHere, and storage's errors for unreadable files."""
    if licence not in policy.licences:
        raise NotAcceptedHere(
            f"the campaign does not take data under {licence!r}", expected=f"one of {', '.join(policy.licences)}"
        )
    schema = items.Schema.of(policy.item_schema)
    found = items.from_table(schema, tables.read_file(path), path)
    if len(found) > policy.max_items:
        raise NotAcceptedHere(f"{path} has {len(found)} items", expected=f"at most {policy.max_items}")
    hashes = [items.item_hash(item) for item in found]
    return Prepared(
        payload=items.pack(schema, found),
        items_root=items.root(hashes),
        item_count=len(found),
        licence_hash=hashlib.sha256(licence.encode()).digest(),
        consent_hash=hashlib.sha256(policy.consent.encode()).digest(),
    )


class Submitter:
    """One submission of one contributor to one campaign."""

    def __init__(self, host: Host, client: ChainClient, secrets: SecretStore, campaign: int, report: Reporter) -> None:
        self._host = host
        self._client = client
        self._secrets = secrets
        self._campaign = campaign
        self._report = report
        self._history = client.history

    async def policy(self) -> CampaignPolicy:
        return await fetch_policy(self._client, self._host, self._history, self._campaign)

    async def submit(self, prepared: Prepared) -> int:
        """Store the data, commit to it and reveal it when the time has come; the submission's number."""
        cid = await asyncio.to_thread(self._host.ipfs.add, prepared.payload)
        secret = await asyncio.to_thread(self._remember, prepared, str(cid))
        submission = await self._commit(prepared, str(cid), secret)
        await self._reveal(submission, prepared, str(cid), secret)
        return submission

    async def outcome(self, submission: int) -> Outcome:
        """Serve the data until the round is final; what became of the submission."""
        final = await self._history.wait_for(self._final, "the end of the scoring round", await self._patience())
        if final.name == "Failed":
            return Outcome(0, 0, 0, "the scoring round failed: the validators did not agree")
        document = await asyncio.to_thread(self._host.ipfs.get_node, Cid.parse(evidence_of(self._history, final)))
        entry = read_scores(document).of(submission)
        outcome = Outcome(len(entry.accepted), len(entry.buckets), entry.amount, entry.fault)
        self._report(
            "scored",
            f"{outcome.accepted} of {outcome.items} items accepted" + (f": {entry.fault}" if entry.fault else ""),
            {
                "submission": submission,
                "accepted": outcome.accepted,
                "items": outcome.items,
                "amount_wei": outcome.amount,
            },
        )
        return outcome

    async def claim(self) -> int:
        """Claim what the campaign gives this account; the wei that were paid."""
        tallied = self._history.find("Tallied", jobId=self._campaign)
        if not tallied:
            return 0
        cid = evidence_of(self._history, tallied[-1])
        return await claim_job(self._client, self._host.ipfs, self._campaign, cid)

    def _remember(self, prepared: Prepared, cid: str) -> bytes:
        key = f"job-{self._campaign}-{prepared.items_root.hex()[:16]}"
        known = self._secrets.get(key)
        if known is None:
            known = {"salt": SecretStore.new_salt(), "cid": cid, "items_root": prepared.items_root}
            self._secrets.put(key, known)
        salt = known["salt"]
        assert isinstance(salt, bytes)
        return salt

    async def _commit(self, prepared: Prepared, cid: str, salt: bytes) -> int:
        client, address = self._client, self._client.address
        commitment = await asyncio.to_thread(
            client.submissions.commitment_of, self._campaign, address, *self._revealed(prepared, cid), salt
        )
        await asyncio.to_thread(self._history.refresh)
        mine = self._history.find("Committed", "SubmissionRegistry", jobId=self._campaign, commitment=commitment)
        if mine:
            submission = int(mine[0].args["submissionId"])
            fields = {"submission": submission, "cid": cid, "items": prepared.item_count}
            self._report("resumed", f"submission {submission} goes on where it stopped", fields)
            return submission
        submission = await asyncio.to_thread(commit_submission, client, self._campaign, commitment)
        text = f"submission {submission} committed: {prepared.item_count} items"
        self._report("committed", text, {"submission": submission, "cid": cid, "items": prepared.item_count})
        return submission

    async def _reveal(self, submission: int, prepared: Prepared, cid: str, salt: bytes) -> None:
        client = self._client
        if self._history.find("Revealed", "SubmissionRegistry", submissionId=submission):
            return
        campaign = await asyncio.to_thread(client.submissions.campaign, self._campaign)
        await self._chain_time(campaign.commit_end)
        revealed = self._revealed(prepared, cid)
        await asyncio.to_thread(client.submissions.reveal, submission, *revealed, salt, key=f"reveal-{submission}")
        self._report("revealed", f"submission {submission} revealed as {cid}", {"submission": submission, "cid": cid})

    @staticmethod
    def _revealed(prepared: Prepared, cid: str) -> tuple[bytes, int, str, bytes, bytes]:
        return (prepared.items_root, prepared.item_count, cid, prepared.licence_hash, prepared.consent_hash)

    def _final(self, history: EventStore) -> list[Event]:
        job = self._campaign
        return history.find("Tallied", jobId=job) + history.find("Failed", "QualityRounds", jobId=job)

    async def _patience(self) -> float:
        terms = (await asyncio.to_thread(self._client.submissions.campaign, self._campaign)).terms
        windows = terms.reveal_seconds + terms.score_commit_seconds + terms.score_reveal_seconds
        return float(terms.commit_seconds + windows) + GRACE_SECONDS

    async def _chain_time(self, timestamp: int) -> None:
        from hydra_node.chain.clock import chain_time, wait_until

        remaining = timestamp - await asyncio.to_thread(chain_time, self._client.rpc)
        await wait_until(self._client.rpc, timestamp, max(0, remaining) + GRACE_SECONDS)
