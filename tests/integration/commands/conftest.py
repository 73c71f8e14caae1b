"""A devnet of the test's own, and a way to run the commands as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
PASSWORD = "correct horse"


def run_in(home: Path, *arguments: str, password: str | None = PASSWORD) -> subprocess.CompletedProcess[str]:
    """Run `hydra-node` with its state in `home`; its status and what it printed."""
    environment = {**os.environ, "HYDRA_HOME": str(home), "COLUMNS": "400"}
    environment.pop("HYDRA_PASSWORD_FILE", None)
    if password is not None:
        environment["HYDRA_PASSWORD"] = password
    return subprocess.run(
        [sys.executable, "-m", "hydra_node", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """HYDRA_HOME with a running devnet and a funded wallet `me`."""
    folder = tmp_path_factory.mktemp("home")
    try:
        up = run_in(folder, "devnet", "up", "--port", "0")
        assert up.returncode == 0, up.stderr
        assert run_in(folder, "wallet", "new", "me").returncode == 0
        assert run_in(folder, "devnet", "fund", "me").returncode == 0
        yield folder
    finally:
        run_in(folder, "devnet", "down")


@pytest.fixture
def hydra(home: Path) -> Command:
    """`hydra-node` on the running devnet."""
    return lambda *arguments, **keywords: run_in(home, *arguments, **keywords)
