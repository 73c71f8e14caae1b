"""Processes that stay when the command that started them has ended, found again by number and time of start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from hydra_node.errors import HydraError

STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05


class ProcessStuck(HydraError):
    """A process does not end."""


def started_at(pid: int) -> str | None:
    """When a live process began: with its number it names one process, as the number alone may be another's by now."""
    if Path("/proc/self").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]  # state; start time in ticks since the machine booted
    ps = subprocess.run(  # noqa: S603  fixed program, the only argument is a number
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
    )
    return ps.stdout.strip() or None


def end_process(pid: int, started: str) -> None:
    """Ask the process that began at `started` to end; kill it if it does not. Raises ProcessStuck."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if started_at(pid) != started:
                return
            time.sleep(_POLL_SECONDS)
    raise ProcessStuck(f"process {pid} does not end", remedy="end it by hand")
