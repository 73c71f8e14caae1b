"""How fast files go into and come out of the block store: `python -m benchmarks.storage [--json PATH] [--mb N]`.

`import` ends when the blocks are on the disk; `read` verifies every block. The contender `plain file` copies the same
bytes into one file with one fsync and reads them with one SHA-256: the floor on the same disk.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import BlockStore


def _hydra(directory: Path, data: bytes) -> tuple[float, float]:
    store = BlockStore(directory)
    started = time.perf_counter()
    with store.batch() as batch:
        root = unixfs.import_file(io.BytesIO(data), batch.put)
        batch.pin(root)
    written = time.perf_counter()
    size = sum(len(piece) for piece in unixfs.export_file(root, store.get))
    assert size == len(data)
    return written - started, time.perf_counter() - written


def _plain(directory: Path, data: bytes) -> tuple[float, float]:
    directory.mkdir()
    started = time.perf_counter()
    with (directory / "file").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    written = time.perf_counter()
    digest = hashlib.sha256()
    with (directory / "file").open("rb") as file:
        while piece := file.read(unixfs.CHUNK_BYTES):
            digest.update(piece)
    return written - started, time.perf_counter() - written


CONTENDERS: dict[str, Callable[[Path, bytes], tuple[float, float]]] = {"hydra": _hydra, "plain file": _plain}


def measure(megabytes: int, runs: int) -> list[dict[str, Any]]:
    """Rows of the report; contenders alternate, in directories of their own."""
    data = random.Random(0).randbytes(megabytes * 1_000_000)
    speeds: dict[tuple[str, str], list[float]] = {}
    for _ in range(runs):
        for name, contender in CONTENDERS.items():
            with tempfile.TemporaryDirectory() as directory:
                for case, seconds in zip(("import", "read"), contender(Path(directory) / "store", data), strict=True):
                    speeds.setdefault((case, name), []).append(len(data) / seconds)
    return [
        {
            "case": case,
            "contender": name,
            "metric": "bytes_per_s",
            "unit": "B/s",
            "min": min(found),
            "median": statistics.median(found),
            "max": max(found),
            "n": len(found),
        }
        for (case, name), found in sorted(speeds.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--mb", type=int, default=100, help="size of the file in megabytes")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    rows = measure(options.mb, options.runs)
    print(f"{'case':8} {'contender':12} {'min':>8} {'median':>8} {'max':>8}  MB/s")
    for row in rows:
        speeds = " ".join(f"{row[key] / 1e6:8.0f}" for key in ("min", "median", "max"))
        print(f"{row['case']:8} {row['contender']:12} {speeds}")
    if options.json is not None:
        report = {
            "bench": "storage",
            "machine": {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()},
            "versions": {"hydra-node": version("hydra-node"), "protobuf": version("protobuf")},
            "rows": rows,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
