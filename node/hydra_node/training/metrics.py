"""What a person and a program see of a training while it runs."""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hydra_node.training.workload import StepReport


def facts(report: StepReport) -> dict[str, Any]:
    """A step as plain values; `samples_per_s` counts the whole swarm's."""
    return {
        "step": report.step,
        "loss": None if report.loss is None else round(report.loss, 5),
        "share": report.shares.get(report.me, 0),
        "peers": len(report.shares),
        "contributors": len(report.contributors),
        "samples": report.samples,
        "samples_per_s": round(report.samples / max(report.seconds, 1e-6), 1),
        "digest": report.digest.hex(),
    }


class MetricsFile:
    """JSON lines, one a step, appended to a file; a restart goes on below."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, report: StepReport) -> None:
        """Adds one step."""
        self._file.write(json.dumps({"time": round(time.time(), 3), **facts(report)}) + "\n")
        self._file.flush()
