"""The arrows between packages run one way (docs/architecture.md)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "chain": {"errors"},
    "storage": {"errors"},
    "batching": {"errors"},
    "p2p": {"errors", "storage"},
    "collective": {"errors", "storage", "p2p", "batching"},
    "campaigns": {"errors", "storage", "p2p", "chain"},
    "training": {"errors", "storage", "p2p", "chain", "collective", "batching"},
}
TOP = {"__main__", "cli", "commands", "devnet", "dashboard"}


def imported_modules(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules.add(node.module or "")
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def package_of(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].removesuffix(".py")


def test_arrows_inside_hydra_node_run_one_way() -> None:
    root = ROOT / "node" / "hydra_node"
    wrong = []
    for path in sorted(root.rglob("*.py")):
        package = package_of(path, root)
        if package in TOP or package == "__init__":
            continue
        assert package in ALLOWED, f"{package} is not in the architecture"
        for module in imported_modules(path):
            parts = module.split(".")
            if parts[0] == "hydra_validator":
                wrong.append(f"{path.relative_to(root)} imports {module}")
            elif parts[0] == "hydra_node" and len(parts) > 1:
                target = parts[1]
                if target != package and target not in ALLOWED[package]:
                    wrong.append(f"{path.relative_to(root)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_nothing_below_the_command_line_imports_the_validator() -> None:
    root = ROOT / "node" / "hydra_node"
    wrong = [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*.py"))
        if any(module.split(".")[0] == "hydra_validator" for module in imported_modules(path))
    ]
    assert not wrong


def test_the_guard_sees_a_wrong_arrow(tmp_path: Path) -> None:
    source = tmp_path / "bad.py"
    source.write_text("def f():\n    from hydra_node.training import spec\n    return spec\n")
    assert "hydra_node.training" in imported_modules(source)
