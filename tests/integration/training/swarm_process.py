"""A member of a swarm as a process of its own, without a chain: python swarm_process.py OPTIONS.json."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits

from hydra_node.collective.driver import Collective
from hydra_node.collective.options import Options
from hydra_node.p2p.host import Host
from hydra_node.training.metrics import facts
from hydra_node.training.samples import for_spec
from hydra_node.training.spec import parse
from hydra_node.training.workload import Manner, StepReport, TrainingWorkload


def report(kind: str, **values: Any) -> None:
    sys.stdout.write(json.dumps({"event": kind, **values}) + "\n")
    sys.stdout.flush()


def observe(step: StepReport) -> None:
    report("step", **facts(step))


def save(workload: TrainingWorkload, path: Path) -> None:
    path.write_bytes(workload.training.parameters.tobytes())


async def main(options: dict[str, Any]) -> None:
    spec = parse(options["spec"].encode())
    digits = load_digits()
    samples = for_spec(spec, digits.images[: options["count"]], digits.target[: options["count"]])
    swarm = hashlib.sha256(options["swarm"].encode()).digest()
    async with Host.start(Path(options["folder"]), bootstrap=options["bootstrap"]) as host:
        manner = Manner(options.get("cpu_limit", 1.0))
        with TrainingWorkload(spec, samples, host.peer_id, manner=manner, observer=observe) as workload:
            members = Options(min_members=options["members"], clip_slack=spec.clip, floor=60.0, silence=60.0)
            await Collective(host.node, host.identity, swarm, workload, members).run(spec.steps)
            parameters = hashlib.sha256(workload.training.parameters.tobytes()).hexdigest()
            ledger = workload.training.ledger
            report(
                "trained",
                digest=workload.training.digest().hex(),
                parameters=parameters,
                cursor=ledger.cursor,
                counted=ledger.counted(),
                credited=ledger.credited,
                me=host.peer_id,
            )
            save(workload, Path(options["folder"], "parameters.f4"))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
