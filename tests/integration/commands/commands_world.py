"""Running the commands as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., subprocess.CompletedProcess[str]]
PASSWORD = "correct horse"


def run_in(
    home: Path, *arguments: str, password: str | None = PASSWORD, columns: int = 400, timeout: float = 90
) -> subprocess.CompletedProcess[str]:
    """Run `hydra-node` with its state in `home`; its status and what it printed."""
    environment = {**os.environ, "HYDRA_HOME": str(home), "COLUMNS": str(columns)}
    environment.pop("HYDRA_PASSWORD_FILE", None)
    if password is not None:
        environment["HYDRA_PASSWORD"] = password
    return subprocess.run(
        [sys.executable, "-m", "hydra_node", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )
