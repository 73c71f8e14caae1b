"""How much of the contracts Forge's tests reach; exit status 1 below the bar.

    python scripts/coverage.py

Forge measures an unoptimised build; mocks and the tests themselves are left out, and so is the random walk.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "forge" / "coverage.lcov"
BAR = 95.0
# Names of lcov's records: found and hit.
KINDS = {"lines": ("LF", "LH"), "branches": ("BRF", "BRH")}


def main() -> int:
    """Measure, print a table, and compare with the bar."""
    measure()
    found = parse(REPORT.read_text(encoding="utf-8"))
    low = []
    for name, counts in sorted(found.items()):
        shares = {kind: percent(counts[hit], counts[total]) for kind, (total, hit) in KINDS.items()}
        print(f"{name:36}" + "".join(f"  {kind} {share:6.2f} %" for kind, share in shares.items()))
        low += [f"{name}: {kind} {share:.2f} %" for kind, share in shares.items() if share < BAR]
    if not found:
        raise SystemExit("forge reported no contract")
    for line in low:
        print(f"below {BAR:.0f} %: {line}", file=sys.stderr)
    return 1 if low else 0


def measure() -> None:
    """Have Forge write its report."""
    command = [sys.executable, str(ROOT / "scripts" / "forge.py"), "coverage", "--no-match-contract", "Invariants"]
    command += ["--no-match-coverage", "(tests|mocks)/", "--report", "lcov", "--report-file", str(REPORT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit("forge coverage failed")


def parse(report: str) -> dict[str, dict[str, int]]:
    """The counts of every file of an lcov report."""
    files: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = defaultdict(int)
    for line in report.splitlines():
        key, _, value = line.partition(":")
        if key == "SF":
            counts = files.setdefault(value, defaultdict(int))
        elif key in {name for pair in KINDS.values() for name in pair}:
            counts[key] += int(value)
    return files


def percent(hit: int, total: int) -> float:
    """A share; of nothing, everything."""
    return 100.0 * hit / total if total else 100.0


if __name__ == "__main__":
    sys.exit(main())
