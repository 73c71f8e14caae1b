"""The packages import what pyproject.toml asks for: nothing comes along by luck, nothing is asked for in vain."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEVER_IMPORTED = {"coincurve"}
"""Found by eth-keys, which signs far slower without it."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(source: str) -> set[str]:
    """The top-level names of the modules that a source imports, anywhere in it."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules.add(node.module)
    return {module.partition(".")[0] for module in modules}


def test_every_imported_library_is_declared_and_every_declared_one_imported() -> None:
    declared = {
        canonical(re.split(r"[\[<>=!~; ]", requirement)[0])
        for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    }
    sources = [path for root in ("node", "validator") for path in (ROOT / root).rglob("*.py")]
    modules = {module for path in sources for module in imported(path.read_text(encoding="utf-8"))}
    modules -= {*sys.stdlib_module_names, "hydra_node", "hydra_validator"}
    known = packages_distributions()
    used = {module: {canonical(name) for name in known.get(module, [module])} for module in modules}
    assert {module: names for module, names in used.items() if not names & declared} == {}
    assert declared - {name for names in used.values() for name in names} - NEVER_IMPORTED == set()


def test_an_import_inside_a_function_counts() -> None:
    assert imported("def f():\n    import eth_abi.abi\n    from rlp import encode\n") == {"eth_abi", "rlp"}
