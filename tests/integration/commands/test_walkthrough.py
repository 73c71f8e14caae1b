"""The lines of docs/walkthrough.md, run as they are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def lines_of(document: Path) -> str:
    return "\n".join(re.findall(r"```bash\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL))


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_the_walkthrough_works_as_written(tmp_path: Path) -> None:
    script = lines_of(ROOT / "docs" / "walkthrough.md")
    home = "$PWD/build/walkthrough"
    assert home in script and "devnet down" in script
    script = "set -eu\n" + script.replace(home, str(tmp_path / "home"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    walk = subprocess.Popen(
        ["bash", "-c", script],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = walk.communicate(timeout=420)
        assert walk.returncode == 0, said
    finally:
        if walk.poll() is None:
            os.killpg(walk.pid, signal.SIGKILL)
        subprocess.run(
            [str(ROOT / ".venv" / "bin" / "hydra-node"), "devnet", "down", "--dir", str(tmp_path / "home" / "devnet")],
            check=False,
            capture_output=True,
        )
    assert re.search(r"^\d+ of \d+ items accepted", said, re.MULTILINE)
    assert (tmp_path / "home" / "model.safetensors").stat().st_size > 1000
