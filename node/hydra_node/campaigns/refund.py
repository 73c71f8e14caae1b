"""Ending a job and taking back what it did not spend."""

from __future__ import annotations

import asyncio

from hydra_node.campaigns.claims import ACTIVATION_TIMEOUT
from hydra_node.chain.amounts import format_hydra
from hydra_node.chain.clock import chain_time, moment, wait_until
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind, State
from hydra_node.chain.reverts import Reverted
from hydra_node.errors import HydraError

ENDED = (State.SETTLED, State.REFUNDED)


class NotRefundable(HydraError):
    """The job's money is still promised to those who work for it."""


async def refund(client: ChainClient, job: int) -> int:
    """Take back what the job did not spend, once nobody can dispute its result; the wei, 0 when nothing is left.

    Raises NotRefundable, ChainTimeNotReached.
    """
    await finish(client, job)
    found = await asyncio.to_thread(client.escrow.job, job)
    if found.state not in ENDED and await asyncio.to_thread(chain_time, client.rpc) < found.exit_time:
        raise NotRefundable(
            f"job {job} is {found.state.name.lower()}",
            expected="a job that is over",
            remedy=f"what it does not spend can be refunded then, or after {moment(found.exit_time)} in any case",
        )
    if not await asyncio.to_thread(client.escrow.available, job):
        return 0
    receipt = await asyncio.to_thread(client.escrow.refund, job)
    return int(receipt.event("Refunded").args["amount"])


async def finish(client: ChainClient, job: int) -> None:
    """End a job whose last result can no longer be disputed; wait until it cannot. Others are left as they are."""
    found = await asyncio.to_thread(client.escrow.job, job)
    if found.state != State.CHALLENGE:
        return
    _root, _total, active_at = await asyncio.to_thread(client.rewards.current, job)
    await wait_until(client.rpc, active_at, ACTIVATION_TIMEOUT)
    source = client.quality if found.kind == Kind.CAMPAIGN else client.training
    try:
        await asyncio.to_thread(source.finish, job)
    except Reverted:
        # Anybody may end it, and somebody just did.
        if (await asyncio.to_thread(client.escrow.job, job)).state not in ENDED:
            raise


def refunded(job: int, amount: int) -> str:
    """The sentence about a refund."""
    return f"job {job}: {format_hydra(amount)} refunded" if amount else f"job {job}: nothing is left to refund"
