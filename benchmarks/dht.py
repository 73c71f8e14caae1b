"""How long a batch of eight DHT operations takes among sixteen peers, each with a socket and a table of its own.

    python -m benchmarks.dht [--peers 16] [--rounds 15] [--dead 0] [--json PATH]

Contenders are `hydra` and, if it is installed, `hivemind`; they alternate round by round. With `--dead N` the last
N peers are stopped without a word before the measured rounds begin.
"""

import argparse
import asyncio
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from hydra_node.p2p.identity import Identity
from hydra_node.p2p.node import PeerNode

BATCH = 8
TTL = 600.0
PATIENCE = 60.0


class Contender(Protocol):
    """One DHT implementation, running."""

    name: str

    async def store(self, number: int) -> None:
        """Store one batch under keys of its own."""

    async def get(self, number: int) -> int:
        """Read the batch back through other peers; how many values came."""


class Hydra:
    """Our DHT: all peers in one process, on real sockets."""

    name = "hydra"

    def __init__(self, nodes: list[PeerNode]) -> None:
        self._nodes = nodes

    @classmethod
    async def start(cls, stack: AsyncExitStack, peers: int, dead: int) -> "Hydra":
        """Start the peers, let them meet, silence `dead` of them."""
        nodes = [await stack.enter_async_context(PeerNode.start(Identity.generate()))]
        doomed: list[AsyncExitStack] = []
        for number in range(1, peers):
            own = AsyncExitStack() if number >= peers - dead else stack
            if own is not stack:
                await stack.enter_async_context(own)
                doomed.append(own)
            assert nodes[0].address is not None
            nodes.append(
                await own.enter_async_context(PeerNode.start(Identity.generate(), bootstrap=[nodes[0].address]))
            )
        await joined(nodes)
        for own in doomed:
            await own.aclose()
        return cls(nodes[: peers - dead])

    async def store(self, number: int) -> None:
        writer = self._nodes[number % len(self._nodes)]
        await asyncio.gather(*(writer.dht.publish(f"bench/{number}/{n}", b"v" * 100, TTL) for n in range(BATCH)))

    async def get(self, number: int) -> int:
        reader = self._nodes[(number + len(self._nodes) // 2) % len(self._nodes)]
        found = await asyncio.gather(*(reader.dht.find(f"bench/{number}/{n}") for n in range(BATCH)))
        return sum(bool(records) for records in found)


async def joined(nodes: list[PeerNode]) -> None:
    """Wait until every node knows as many others as hold a record."""
    enough = min(len(nodes) - 1, 8)
    async with asyncio.timeout(PATIENCE):
        while True:
            if all(len(node.dht.contacts) >= enough for node in nodes):
                return
            await asyncio.sleep(0.05)


class Hivemind:
    """hivemind's DHT: each peer is a process with a go-libp2p daemon beside it."""

    name = "hivemind"

    def __init__(self, module: Any, nodes: list[Any]) -> None:
        self._module = module
        self._nodes = nodes

    @classmethod
    async def start(cls, stack: AsyncExitStack, peers: int, dead: int) -> "Hivemind | None":
        """Start the peers; None if hivemind is not installed."""
        try:
            module = importlib.import_module("hivemind")
        except ImportError:
            return None
        nodes: list[Any] = []
        for _ in range(peers):
            start = [str(address) for address in nodes[0].get_visible_maddrs()] if nodes else []
            node = await asyncio.to_thread(module.DHT, initial_peers=start, start=True)
            stack.callback(node.shutdown)
            nodes.append(node)
        for node in nodes[peers - dead :]:
            node.kill()
        return cls(module, nodes[: peers - dead])

    async def store(self, number: int) -> None:
        writer = self._nodes[number % len(self._nodes)]
        expires = self._module.utils.get_dht_time() + TTL
        stores = [writer.store(f"bench/{number}/{n}", b"v" * 100, expires, return_future=True) for n in range(BATCH)]
        await asyncio.to_thread(lambda: [future.result() for future in stores])

    async def get(self, number: int) -> int:
        reader = self._nodes[(number + len(self._nodes) // 2) % len(self._nodes)]
        gets = [reader.get(f"bench/{number}/{n}", latest=True, return_future=True) for n in range(BATCH)]
        return sum(value is not None for value in await asyncio.to_thread(lambda: [future.result() for future in gets]))


async def measure(peers: int, dead: int, rounds: int) -> dict[str, Any]:
    """Run the contenders in turn; the result in the form of all benchmarks."""
    times: dict[tuple[str, str], list[float]] = {}
    found: dict[str, int] = {}
    absent: list[str] = []
    async with AsyncExitStack() as stack:
        contenders: list[Contender] = [await Hydra.start(stack, peers, dead)]
        if (other := await Hivemind.start(stack, peers, dead)) is not None:
            contenders.append(other)
        else:
            absent.append("hivemind")
        for number in range(rounds):
            for contender in contenders:
                begun = time.perf_counter()
                await contender.store(number)
                stored = time.perf_counter()
                count = await contender.get(number)
                ended = time.perf_counter()
                times.setdefault((contender.name, "store"), []).append(stored - begun)
                times.setdefault((contender.name, "get"), []).append(ended - stored)
                found[contender.name] = found.get(contender.name, 0) + count
    return report(peers, dead, rounds, times, found=found, absent=absent)


def report(
    peers: int,
    dead: int,
    rounds: int,
    times: dict[tuple[str, str], list[float]],
    *,
    found: dict[str, int],
    absent: list[str],
) -> dict[str, Any]:
    """The measured times as rows."""
    suffix = f" {dead} dead" if dead else ""
    rows: list[dict[str, Any]] = [
        {"case": f"{peers} peers {operation}{suffix}", "contender": name, "metric": "time", "unit": "s"}
        | summary(taken)
        for (name, operation), taken in times.items()
    ]
    for name, count in found.items():
        share = summary([count / (rounds * BATCH)])
        rows.append(
            {"case": f"{peers} peers get{suffix}", "contender": name, "metric": "found", "unit": "share"} | share
        )
    packages = ["hydra-node", "kademlia", "msgspec", "hivemind"]
    return {
        "bench": "dht",
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "versions": {name: version(name) for name in packages},
        "absent": absent,
        "rows": rows,
    }


def summary(values: list[float]) -> dict[str, float]:
    """What a row says of its measurements."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values), "n": len(values)}


def version(package: str) -> str:
    """The installed version, or that it is absent."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dead", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = asyncio.run(measure(arguments.peers, arguments.dead, arguments.rounds))
    for row in result["rows"]:
        print(
            f"{row['case']:<24} {row['contender']:<10} {row['metric']:<6} "
            f"min {row['min']:.4f}  median {row['median']:.4f}  max {row['max']:.4f} {row['unit']}  n={row['n']}"
        )
    for name in result["absent"]:
        print(f"{name}: absent (not installed)")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
