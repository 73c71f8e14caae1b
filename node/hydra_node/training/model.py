"""The model that a finished job leaves: the checkpoint that its trainers posted with their last segment."""

import asyncio
from collections import Counter

from hydra_node.chain.contracts import ChainClient
from hydra_node.errors import HydraError
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import StorageError
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.journal import MAX_SEGMENT, BadJournal, read_segment

MAX_CHECKPOINT = 1 << 30


class NoModel(HydraError):
    """A job that has no model, or none that its trainers agree on."""


async def final_checkpoint(client: ChainClient, ipfs: IpfsClient, job_id: int) -> tuple[Cid, bytes]:
    """The checkpoint (safetensors) that more than half of the trainers who posted one agree on, and its CID.

    Every honest trainer ends with the same bytes. Those who were banned have no say. Raises NoModel, StorageError.
    """
    history = client.history
    await asyncio.to_thread(history.refresh)
    named: dict[str, str] = {}
    for event in history.find("RecordPosted", jobId=job_id):
        trainer = str(event.args["trainer"])
        try:
            data = await asyncio.to_thread(ipfs.cat, Cid.parse(str(event.args["cid"])), MAX_SEGMENT)
            checkpoint = read_segment(data, bytes(event.args["digest"])).checkpoint
        except (StorageError, BadJournal):
            continue
        if checkpoint and not await asyncio.to_thread(client.training.is_banned, job_id, trainer):
            named[trainer] = checkpoint
    if not named:
        raise NoModel(
            f"no trainer has posted the model of job {job_id}",
            expected="a job that is trained to its end, and a peer that serves it",
            remedy=f"see: hydra-node job show {job_id}",
        )
    cid, votes = Counter(named.values()).most_common(1)[0]
    if 2 * votes <= len(named):
        raise NoModel(f"the trainers of job {job_id} name {len(set(named.values()))} different models")
    return Cid.parse(cid), await asyncio.to_thread(ipfs.cat, Cid.parse(cid), MAX_CHECKPOINT)
