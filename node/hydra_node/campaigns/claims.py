"""Claiming what an account has earned: from the newest root of each job and the document behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydra_node.chain.clock import wait_until
from hydra_node.chain.event_store import EventStore
from hydra_node.chain.events import Event
from hydra_node.chain.rewards import NO_ROOT, BadRewards, RewardTree, claim
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient
    from hydra_node.storage.ipfs import IpfsClient

ACTIVATION_TIMEOUT = 600.0


def evidence_of(history: EventStore, tallied: Event) -> str:
    """The CID of the document behind a `Tallied`: the one that its first backer named."""
    result = {name: tallied.args[name] for name in ("roundId", "root", "total")}
    return str(history.find("Revealed", "QualityRounds", **result)[0].args["evidenceCid"])


def newest_documents(history: EventStore) -> dict[int, str]:
    """For each job, the CID of the document behind the newest root that was published for it."""
    scored = {int(event.args["jobId"]): evidence_of(history, event) for event in history.find("Tallied")}
    trained = {int(event.args["jobId"]): str(event.args["evidenceCid"]) for event in history.find("RoundSettled")}
    return scored | trained


async def reward_tree(client: ChainClient, ipfs: IpfsClient, job_id: int, cid: str) -> RewardTree | None:
    """The tree behind the job's current root, fetched and checked; None when nothing was published."""
    root, _total, _active_at = await asyncio.to_thread(client.rewards.current, job_id)
    if root == NO_ROOT:
        return None
    document = await asyncio.to_thread(ipfs.get_node, Cid.parse(cid))
    return RewardTree.from_document(job_id, document, root)


async def claim_job(client: ChainClient, ipfs: IpfsClient, job_id: int, cid: str) -> int:
    """Claim this account's part of one job once its root is active; the wei that were paid."""
    tree = await reward_tree(client, ipfs, job_id, cid)
    if tree is None:
        return 0
    _root, _total, active_at = await asyncio.to_thread(client.rewards.current, job_id)
    await wait_until(client.rpc, active_at, ACTIVATION_TIMEOUT)
    return await asyncio.to_thread(claim, client, tree, client.address)


async def claim_everything(client: ChainClient, ipfs: IpfsClient) -> dict[int, int]:
    """Claim in every job that has published a root; the wei paid, by job, without the zeros."""
    history = client.history
    await asyncio.to_thread(history.refresh)
    paid = {job: await claim_job(client, ipfs, job, cid) for job, cid in newest_documents(history).items()}
    return {job: amount for job, amount in paid.items() if amount}


@dataclass(frozen=True, slots=True)
class Claimable:
    """What an account can claim, in wei by job, and the jobs whose document no peer serves now."""

    amounts: Mapping[int, int]
    unreadable: tuple[int, ...]


async def claimable(client: ChainClient, ipfs: IpfsClient, account: str, documents: Mapping[int, str]) -> Claimable:
    """What the newest published documents give `account` beyond what it has claimed, active or not."""
    amounts, unreadable = {}, []
    for job, cid in documents.items():
        try:
            tree = await reward_tree(client, ipfs, job, cid)
        except (StorageError, BadRewards):
            unreadable.append(job)
            continue
        reward = tree.reward_of(account) if tree else None
        if reward is not None:
            claimed = await asyncio.to_thread(client.rewards.claimed, job, account)
            amounts[job] = max(0, reward.cumulative - claimed)
    return Claimable(amounts, tuple(unreadable))
