"""The demo stopped at bad moments: nothing of it stays behind, and it runs again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

MOMENTS = [
    ("contributors commit", signal.SIGINT, 130),
    ("trainers train", signal.SIGTERM, 130),
    ("contributors reveal", signal.SIGKILL, -signal.SIGKILL),
]
END_SECONDS = 60.0  # one may be asking a chain that is gone, for half a minute


def of_workspace(workspace: Path) -> list[int]:
    """The processes whose command line names the workspace, or that were started by such a one."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.pid != os.getpid() and any(str(workspace) in part for part in process.info["cmdline"] or []):
            found.append(process.pid)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("stage", "number", "status"), MOMENTS, ids=["ctrl-c", "terminated", "killed"])
def test_an_interrupted_demo_leaves_nothing_behind(
    tmp_path: Path, stage: str, number: signal.Signals, status: int
) -> None:
    out = tmp_path / "demo-report.json"
    command = [sys.executable, "-m", "hydra_node", "demo", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        try:
            assert demo.stdout is not None
            assert any(stage in line for line in demo.stdout), "the demo ended before the stage"
            assert len(of_workspace(tmp_path)) > 3
            demo.send_signal(number)
            assert demo.wait(60) == status
        finally:
            with contextlib.suppress(ProcessLookupError):
                demo.kill()
    if number == signal.SIGKILL:
        # It could not wait for its children: they are told by the kernel and end by themselves.
        left = [psutil.Process(pid) for pid in of_workspace(tmp_path)]
        psutil.wait_procs(left, timeout=END_SECONDS)
    assert of_workspace(tmp_path) == []
    assert not out.exists()
