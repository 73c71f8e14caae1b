"""Deploying with brownie instead of our own client: what `--chain ganache` does.

Needs a checkout with its `.venv-contracts` and `node_modules`, which `make demo CHAIN=ganache` installs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hydra_node.chain.rpc import Rpc
from hydra_node.devnet.deploy import Parameters
from hydra_node.errors import HydraError

TIMEOUT = 300.0


class BrownieMissing(HydraError):
    """brownie, or the checkout with the contracts, is not here."""


class BrownieFailed(HydraError):
    """brownie ended with an error."""


def deploy(rpc_url: str, deployment: Path, parameters: Parameters, workspace: Path) -> None:
    """Have brownie run `scripts/deploy.py`, which writes `deployment`. Raises BrownieMissing, BrownieFailed."""
    root = _checkout()
    home = workspace / "brownie-home"
    chain_id = Rpc(rpc_url).chain_id
    file = workspace / "deployment-parameters.json"
    wanted = {
        "supply": parameters.supply,
        "thawSeconds": parameters.thaw_seconds,
        "activationSeconds": parameters.activation_seconds,
        "disputeBond": parameters.dispute_bond,
        "disputeSeconds": parameters.dispute_seconds,
        "takeoverBond": parameters.takeover_bond,
        "takeoverSeconds": parameters.takeover_seconds,
    }
    file.write_text(json.dumps(wanted), encoding="utf-8")
    environment = {**os.environ, "HOME": str(home.resolve())}
    prepare = [sys.executable, str(root / "scripts" / "brownie_home.py"), "--home", str(home.resolve())]
    _run([*prepare, "--url", rpc_url, "--chain-id", str(chain_id)], root, dict(os.environ))
    command = [str(root / ".venv-contracts" / "bin" / "brownie"), "run", "scripts/deploy.py", "main"]
    _run([*command, str(file.resolve()), str(deployment.resolve()), "--network", "hydra"], root, environment)


def _checkout() -> Path:
    for root in (Path.cwd(), *Path.cwd().parents, Path(__file__).parents[3]):
        if (root / "scripts" / "deploy.py").exists() and (root / ".venv-contracts" / "bin" / "brownie").exists():
            return root
    raise BrownieMissing(
        "brownie is not installed beside the contracts", remedy="in a checkout of Hydra, run: make demo CHAIN=ganache"
    )


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603  fixed programs of the checkout, no shell
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise BrownieFailed(f"{Path(command[0]).name} did not end in {TIMEOUT:.0f} s") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise BrownieFailed(f"{Path(command[0]).name} failed: {lines[-1] if lines else 'it said nothing'}")
