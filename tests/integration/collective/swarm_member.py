"""One process of a small swarm: a least-squares model in numpy, trained by `Collective`; events as JSON lines.

python swarm_member.py KEYFILE BOOTSTRAP|- STEPS MIN_MEMBERS SECONDS_A_STEP
"""

import asyncio
import hashlib
import json
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective.driver import Collective
from hydra_node.collective.options import Options
from hydra_node.collective.record import Ranges
from hydra_node.collective.vectors import Vector
from hydra_node.collective.workload import CommittedStep, Contribution
from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.identity import Identity
from hydra_node.p2p.node import PeerNode

SIZE = 10_000
BATCH = 64


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class LeastSquares:
    """Learns a fixed vector; sample i is a noisy look at it."""

    def __init__(self, seconds: float) -> None:
        self.step = 0
        self.seconds = seconds
        self.parameters: Vector = np.zeros(SIZE, dtype="<f4")
        self.target = np.random.default_rng(0).standard_normal(SIZE).astype("<f4")
        self.last = time.perf_counter()

    def plan(self, step: int, members: tuple[str, ...], telemetry: Mapping[str, Telemetry]) -> dict[str, Ranges]:
        cuts = [step * BATCH + BATCH * place // len(members) for place in range(len(members) + 1)]
        return {peer: ((cuts[i], cuts[i + 1]),) for i, peer in enumerate(members)}

    async def contribute(self, step: int, ranges: Ranges) -> Contribution:
        assert step == self.step
        await asyncio.sleep(self.seconds)
        samples = sum(stop - start for start, stop in ranges)
        gradient = self.parameters - self.target
        for start, stop in ranges:
            gradient = gradient + np.random.default_rng([start, stop]).standard_normal(SIZE).astype("<f4")
        return Contribution(gradient.astype("<f4"), samples, Telemetry(samples, self.seconds))

    async def apply(self, committed: CommittedStep) -> bytes:
        assert committed.step == self.step
        await asyncio.sleep(self.seconds / 2)
        self.parameters = self.parameters - np.float32(0.1) * committed.vector
        self.step += 1
        now = time.perf_counter()
        say(
            event="step",
            step=committed.step,
            ms=1000 * (now - self.last),
            members=len(committed.record.members),
            contributors=len(committed.record.contributors),
            leader=committed.record.members[0],
            clipped=any(factor != 1.0 for factor in committed.record.clip_factors),
        )
        self.last = now
        return self.digest()

    def digest(self) -> bytes:
        return hashlib.sha256(self.step.to_bytes(8, "big") + self.parameters.tobytes()).digest()

    async def state(self) -> tuple[int, bytes]:
        return self.step, self.parameters.tobytes()

    async def restore(self, step: int, state: bytes) -> bytes:
        self.step = step
        self.parameters = np.frombuffer(state, dtype="<f4").copy()
        say(event="restored", step=step)
        return self.digest()


async def main() -> None:
    key, bootstrap, steps, members, seconds = sys.argv[1:]
    identity = Identity.load_or_create(Path(key))
    entry = [] if bootstrap == "-" else [PeerAddress.parse(bootstrap)]
    async with PeerNode.start(identity, "127.0.0.1", 0, entry) as node:
        say(event="up", address=str(node.address), peer=node.peer_id)
        if int(steps) == 0:
            await asyncio.Event().wait()
        workload = LeastSquares(float(seconds))
        collective = Collective(node, identity, b"integration", workload, Options(min_members=int(members)))
        await collective.run(int(steps))
        used = {"peak_mb": peak_mb(), "cpu": time.process_time()}
        say(event="done", step=workload.step, digest=workload.digest().hex(), **used)


if __name__ == "__main__":
    asyncio.run(main())
