"""Collective and training together, in three processes: exact, with shares that follow the speeds."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from trainer_world import TrainerProcess, is_, launch, stop

from hydra_node.p2p.host import Host
from hydra_node.training.baseline import train_single
from hydra_node.training.presets import digits_spec
from hydra_node.training.samples import for_spec

pytestmark = pytest.mark.timeout(180)

PROGRAM = Path(__file__).with_name("swarm_process.py")
COUNT = 400
SPEC = digits_spec("none", seed=8, steps=40, scale=1 / 16).model_copy(update={"global_batch": 90})


@contextlib.asynccontextmanager
async def swarm(folder: Path, *members: dict[str, Any]) -> AsyncIterator[list[TrainerProcess]]:
    async with Host.start(folder / "first") as host:
        processes = []
        try:
            for place, more in enumerate(members):
                own = folder / f"member-{place}"
                own.mkdir()
                options = {
                    "spec": SPEC.canonical_bytes().decode(),
                    "count": COUNT,
                    "swarm": "test",
                    "folder": str(own),
                    "bootstrap": [str(host.address)],
                    "members": len(members),
                    **more,
                }
                (own / "options.json").write_text(json.dumps(options))
                processes.append(await launch(PROGRAM, own))
            yield processes
        finally:
            await stop(processes)


async def test_three_processes_end_bit_identical_where_one_process_does(tmp_path: Path) -> None:
    async with swarm(tmp_path, {}, {}, {"cpu_limit": 0.25}) as processes:
        ends = [await process.hear(is_("trained")) for process in processes]
        for process in processes:
            assert await process.end() == 0
    assert len({end["parameters"] for end in ends}) == 1
    assert len({end["digest"] for end in ends}) == 1
    assert ends[0]["counted"] == [[0, SPEC.steps * SPEC.global_batch]]

    digits = load_digits()
    samples = for_spec(SPEC, digits.images[:COUNT], digits.target[:COUNT])
    alone = train_single(SPEC, samples, samples).parameters
    together = np.frombuffer((tmp_path / "member-0" / "parameters.f4").read_bytes(), np.float32)
    assert np.linalg.norm(together - alone) <= 2e-2 * np.linalg.norm(alone)

    credited = ends[0]["credited"]
    slow = credited[ends[2]["me"]]
    assert slow < 0.7 * min(credited[end["me"]] for end in ends[:2]), "the throttled machine did not get less"
