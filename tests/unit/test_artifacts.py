"""What ships in the package is what the contracts compile to, and the deployment plan fits it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ARTIFACTS = ROOT / "node" / "hydra_node" / "chain" / "artifacts"
PLAN = json.loads((ARTIFACTS / "plan.json").read_text())


def node() -> str | None:
    """The Node of the project's environment, else the path's."""
    own = ROOT / ".venv" / "bin" / "node"
    return str(own) if own.exists() else shutil.which("node")


def artifact(name: str) -> Any:
    return json.loads((ARTIFACTS / f"{name}.json").read_text())


@pytest.mark.skipif(node() is None, reason="there is no Node on this machine")
def test_the_shipped_artifacts_are_what_the_sources_compile_to(tmp_path: Path) -> None:
    command = [str(node()), str(ROOT / "scripts" / "compile.js"), "--out", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stderr
    compiled = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_bytes() for path in ARTIFACTS.glob("*.json") if path.name != "plan.json"}
    assert compiled.keys() == shipped.keys()
    assert [name for name in compiled if compiled[name] != shipped[name]] == [], "run `make contracts`"


@pytest.mark.parametrize("step", PLAN["deployments"], ids=lambda step: step["contract"])
def test_the_plan_gives_every_constructor_its_arguments(step: dict[str, Any]) -> None:
    constructor = next(entry for entry in artifact(step["contract"])["abi"] if entry["type"] == "constructor")
    kinds = [parameter["type"] == "address" for parameter in constructor["inputs"]]
    addresses = [
        "address" in argument or argument["parameter"] in {"admin", "guardian", "treasury"} for argument in step["args"]
    ]
    assert addresses == kinds


def test_the_plan_names_only_what_exists_and_in_order() -> None:
    deployed: list[str] = []
    for step in PLAN["deployments"]:
        for argument in step["args"]:
            assert argument.get("address", deployed[0] if deployed else None) in {*deployed, None}
            assert argument.get("parameter", "admin") in PLAN["parameters"]
        deployed.append(step["contract"])
    for grant in PLAN["grants"]:
        names = {entry.get("name") for entry in artifact(grant["contract"])["abi"]}
        assert grant["role"] in names
        assert grant["to"] in deployed
    ownerless = {"HydraToken", "DisputeManager", "ViewArbiter"}
    assert set(PLAN["renounce"]) == set(deployed) - ownerless
