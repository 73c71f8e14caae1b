"""What a validator needs to score a campaign, fetched from chain and store within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from hydra_node.campaigns.policy import MAX_POLICY_BYTES, CampaignPolicy
from hydra_node.chain.events import Event
from hydra_node.errors import HydraError
from hydra_node.storage import items
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError, TooLarge
from hydra_node.storage.ipfs import IpfsClient
from hydra_validator.scoring.report import Payload
from hydra_validator.scoring.score import MAX_REFERENCE, Submission
from hydra_validator.watch import Watch, position

UNAVAILABLE = "payload-unavailable"
MALFORMED = "payload-malformed"
TOO_LARGE = "payload-too-large"
ROOT_DIFFERS = "items-root-differs"
COUNT_DIFFERS = "item-count-differs"
TOO_MANY = "too-many-items"
LICENCE = "licence-not-accepted"
CONSENT = "consent-differs"

_ITEM_OVERHEAD = 64  # bytes of a packed item beyond its features
_PAYLOAD_OVERHEAD = 64 * 1024
_AT_ONCE = 4  # payloads fetched at the same time: bounds memory


class NoSpecification(HydraError):
    """A job that the chain does not know, or whose document is not in the store."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything `score_campaign` takes, and what each submission revealed."""

    policy: CampaignPolicy
    reference: tuple[items.Item, ...]
    submissions: tuple[Submission, ...]
    payloads: Mapping[int, Payload]


def revealed(watch: Watch, job_id: int, opened: Event) -> list[Event]:
    """The reveals that count in the round opened by `opened`, in the order of their commits.

    Revealed before the round was opened and not revoked by then: later events would make validators differ.
    """

    def before(event: Event) -> bool:
        return position(event) < position(opened)

    place = {
        event.args["submissionId"]: position(event)
        for event in watch.find("Committed", "SubmissionRegistry", jobId=job_id)
    }
    revoked = {e.args["submissionId"] for e in watch.find("Revoked", "SubmissionRegistry", jobId=job_id) if before(e)}
    reveals = [
        event
        for event in watch.find("Revealed", "SubmissionRegistry", jobId=job_id)
        if before(event) and event.args["submissionId"] not in revoked
    ]
    return sorted(reveals, key=lambda event: place[event.args["submissionId"]])


async def fetch_policy(watch: Watch, ipfs: IpfsClient, job_id: int) -> CampaignPolicy:
    """The campaign's policy, checked against the hash on chain. Raises NoSpecification, BadPolicy, StorageError."""
    opened = watch.first("JobOpened", "JobEscrow", jobId=job_id)
    if opened is None:
        raise NoSpecification(f"job {job_id} was never opened on this chain")
    data = await asyncio.to_thread(ipfs.cat, Cid.parse(str(opened.args["specCid"])), MAX_POLICY_BYTES)
    return CampaignPolicy.from_bytes(data, digest=bytes(opened.args["specHash"]))


async def gather(
    watch: Watch, ipfs: IpfsClient, job_id: int, opened: Event, *, max_items: int, timeout: float
) -> Gathered:
    """Policy, reference and payloads of a campaign; payloads that cannot be had within `timeout` s in all are faults.

    Policy and reference are needed by everybody: their absence raises, and the caller tries again.
    """
    policy = await fetch_policy(watch, ipfs, job_id)
    packed = await asyncio.to_thread(ipfs.cat, Cid.parse(policy.reference), _limit(policy, MAX_REFERENCE))
    reference = items.unpack(packed, schema=policy.item_schema).items
    reveals = revealed(watch, job_id, opened)
    deadline = time.monotonic() + timeout
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(event: Event) -> Submission:
        submission_id, contributor = int(event.args["submissionId"]), str(event.args["contributor"]).lower()
        found: tuple[items.Item, ...] = ()
        fault = _refusal(policy, event, max_items)
        if not fault:
            async with gate:
                found, fault = await _fetch(ipfs, policy, event, deadline - time.monotonic())
        return Submission(submission_id, contributor, found, fault)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(event)) for event in reveals]
    return Gathered(
        policy,
        reference,
        tuple(task.result() for task in tasks),
        {int(e.args["submissionId"]): Payload(bytes(e.args["itemsRoot"]), str(e.args["cid"])) for e in reveals},
    )


def _refusal(policy: CampaignPolicy, event: Event, max_items: int) -> str:
    """Why a submission is not even fetched, or ""."""
    if not 0 < int(event.args["itemCount"]) <= min(max_items, policy.max_items):
        return TOO_MANY
    if bytes(event.args["licenceHash"]) not in {hashlib.sha256(text.encode()).digest() for text in policy.licences}:
        return LICENCE
    if bytes(event.args["consentHash"]) != hashlib.sha256(policy.consent.encode()).digest():
        return CONSENT
    return ""


async def _fetch(
    ipfs: IpfsClient, policy: CampaignPolicy, event: Event, timeout: float
) -> tuple[tuple[items.Item, ...], str]:
    """(items, "") or ((), why not)."""
    if timeout <= 0:
        return (), UNAVAILABLE
    count = int(event.args["itemCount"])
    try:
        cid = Cid.parse(str(event.args["cid"]))
        packed = await asyncio.to_thread(ipfs.cat, cid, _limit(policy, count), timeout=timeout)
    except TooLarge:
        return (), TOO_LARGE
    except StorageError:
        return (), UNAVAILABLE
    found, fault = await asyncio.to_thread(_open, policy, event, packed)
    if not fault:
        # Kept and served: the dataset is made of it, and its contributor may be gone by then.
        await asyncio.to_thread(ipfs.pin, cid)
    return found, fault


def _open(policy: CampaignPolicy, event: Event, packed: bytes) -> tuple[tuple[items.Item, ...], str]:
    try:
        # Items are refused one by one when they are scored: one bad item costs nobody the others.
        found = items.unpack(packed, schema=policy.item_schema, check_items=False).items
    except StorageError:
        return (), MALFORMED
    if len(found) != int(event.args["itemCount"]):
        return (), COUNT_DIFFERS
    if items.root([items.item_hash(item) for item in found]) != bytes(event.args["itemsRoot"]):
        return (), ROOT_DIFFERS
    return found, ""


def _limit(policy: CampaignPolicy, count: int) -> int:
    size = count * (items.item_bytes(policy.item_schema) + _ITEM_OVERHEAD) + _PAYLOAD_OVERHEAD
    return min(size, items.MAX_PAYLOAD_BYTES)
