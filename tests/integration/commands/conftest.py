"""A devnet of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands_world import Command, run_in


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
