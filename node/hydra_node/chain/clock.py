"""Chain time: the newest block's timestamp, the only clock that a deadline on the chain is compared with."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from hydra_node.chain.rpc import Rpc
from hydra_node.errors import HydraError

POLL_SECONDS = 0.2


class ChainTimeNotReached(HydraError):
    """The chain's clock did not reach a time within the wait."""


def chain_time(rpc: Rpc) -> int:
    """The newest block's timestamp, in seconds."""
    return int(rpc.request("eth_getBlockByNumber", "latest", False)["timestamp"], 16)


async def wait_until(rpc: Rpc, timestamp: int, timeout: float) -> int:
    """Wait until chain time is at least `timestamp`, at most `timeout` seconds; the chain time then.

    A chain that mines only on demand stands still meanwhile. May be cancelled. Raises `ChainTimeNotReached`.
    """
    deadline = time.monotonic() + timeout
    while (now := await asyncio.to_thread(chain_time, rpc)) < timestamp:
        if time.monotonic() >= deadline:
            raise ChainTimeNotReached(
                f"chain time stands at {now} after {timeout:g} s of waiting",
                expected=f"{timestamp}, {timestamp - now} s later",
                remedy="check that the chain makes blocks",
            )
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
    return now


def moment(timestamp: int) -> str:
    """Chain time for people: "2026-12-01 09:30:00 UTC"."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
