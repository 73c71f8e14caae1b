"""Whether Forge's tests notice when a contract is wrong: seeded mutants, each of which some test must fail.

    python scripts/mutants.py [CONTRACT ...] [--count 50] [--seed 1] [--write docs/mutants.md]

A mutant changes one place: a comparison, an operator, a condition, a statement or modifier left out. Those that do not compile
are replaced by others. Survivors that behave as the original does are explained in `EQUIVALENT`, and still count as
survivors. Exit status 1 when fewer than 90 % of a contract's mutants are noticed.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
PLACES = ROOT / "build" / "mutants"
COPIED = ("contracts", "tests/forge", "foundry.toml")
CONTRACTS = ("StakeManager", "JobEscrow", "QualityRounds", "RewardsDistributor")
BAR = 0.9
WORKERS = 2
TIMEOUT = 300.0

SWAPS = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ",
    " && ": " || ", " || ": " && ", " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ",
    " += ": " -= ", " -= ": " += ", "++": "--", "Math.min(": "Math.max(", "true": "false", "false": "true",
    "(!": "(", " ? ": " == false ? ",
}  # fmt: skip
CONDITION = re.compile(r"\bif \((.*?)\)(?= (?:revert|return|continue|\{|[a-z_]+[.(\[]| *$)|$)")
MODIFIER = re.compile(r"\s(?:onlyRole\([A-Z_]+\)|whenNotPaused|nonReentrant)")
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
STATEMENT = re.compile(r"^\s+(?!return|revert|using|import|error|event|uint|int|bytes|address|mapping|bool|State |Leader |Kind )[\w(][^;]*;$")

# Why a survivor is the same contract in other words: (contract, the line without its margin, what it became).
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "QualityRounds",
        "function openRound(uint256 jobId) external nonReentrant returns (uint256 roundId) {",
        "function openRound(uint256 jobId) external returns (uint256 roundId) {",
    ): "nothing that it calls calls back: the guard is for the day that something does",
    (
        "QualityRounds",
        "Leader memory leader = Leader({root: record.root, total: record.total, backing: 0, weight: 0});",
        "Leader memory leader = Leader({root: record.root, total: record.total, backing: 1, weight: 0});",
    ): "the backing is not looked at where a result is overturned",
    (
        "QualityRounds",
        "} else if (lead > vote.weight) {",
        "} else if (lead >= vote.weight) {",
    ): "at a tie either candidate may stay, with a lead of zero: a majority is found all the same",
}


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    STILLBORN = "stillborn"


@dataclass(frozen=True)
class Mutant:
    """One changed line of a contract; `line` counts from zero."""

    contract: str
    line: int
    before: str
    after: str

    @property
    def reason(self) -> str | None:
        """Why it may survive, where that is known."""
        return EQUIVALENT.get((self.contract, self.before.strip(), self.after.strip()))


def main() -> int:
    """Try the mutants of each contract; 1 when the tests miss too many."""
    parser = argparse.ArgumentParser(description="Whether Forge's tests notice mutants of the contracts.")
    parser.add_argument("contracts", nargs="*", default=CONTRACTS)
    parser.add_argument("--count", type=int, default=50, help="mutants of each contract (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=None, help="write the table and the survivors to this file")
    options = parser.parse_args()
    places = prepare()
    report: list[str] = []
    low = False
    for contract in options.contracts:
        chosen = list(mutants(contract))
        random.Random(f"{options.seed} {contract}").shuffle(chosen)
        killed, survivors = trial(chosen, options.count, places)
        tried = killed + len(survivors)
        low |= killed < BAR * tried
        report += describe(contract, killed, tried, survivors)
        print("\n".join(describe(contract, killed, tried, survivors)), flush=True)
    if options.write is not None:
        options.write.write_text(HEADER + "\n".join(report) + "\n", encoding="utf-8")
    return 1 if low else 0


HEADER = """\
# Mutants of the contracts

Written by `make mutants`: up to 50 sampled mutants a contract, each a changed place that some Forge test must notice.

"""


def describe(contract: str, killed: int, tried: int, survivors: list[Mutant]) -> list[str]:
    """A contract's figure, and its survivors with the reasons."""
    lines = [f"## {contract}: {killed} of {tried} noticed", ""]
    for mutant in survivors:
        lines += [f"- `{mutant.before.strip()}`", f"  became `{mutant.after.strip() or '(gone)'}`: "]
        lines[-1] += mutant.reason or "not explained yet"
    return [*lines, ""] if survivors else lines


def trial(chosen: list[Mutant], count: int, places: Queue[Path]) -> tuple[int, list[Mutant]]:
    """Try mutants until `count` of them compiled."""
    killed, survivors, position = 0, [], 0
    with ThreadPoolExecutor(WORKERS) as pool:
        while position < len(chosen) and killed + len(survivors) < count:
            batch = chosen[position : position + count - killed - len(survivors)]
            position += len(batch)
            for mutant, verdict in zip(batch, pool.map(lambda each: attempt(each, places), batch), strict=True):
                killed += verdict is Verdict.KILLED
                if verdict is Verdict.SURVIVED:
                    survivors.append(mutant)
                    print(f"  survived: {mutant.contract}:{mutant.line + 1} {mutant.after.strip() or '(gone)'}", flush=True)
    return killed, sorted(survivors, key=lambda each: each.line)


def mutants(contract: str) -> Iterator[Mutant]:
    """Every mutant of a contract."""
    lines = (ROOT / "contracts" / f"{contract}.sol").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("    ") or line.strip().startswith(("//", "*", "event ", "error ")) or " constant " in line:
            continue
        for after in dict.fromkeys(changes(line)):
            if after != line:
                yield Mutant(contract, number, line, after)


def changes(line: str) -> Iterator[str]:
    """What may become of one line."""
    for old, new in SWAPS.items():
        for found in re.finditer(re.escape(old), line):
            yield line[: found.start()] + new + line[found.end() :]
    for found in CONDITION.finditer(line):
        for fixed in ("true", "false"):
            yield line[: found.start(1)] + fixed + line[found.end(1) :]
    for found in MODIFIER.finditer(line):
        yield line[: found.start()] + line[found.end() :]
    for found in NUMBER.finditer(line):
        yield line[: found.start()] + str(int(found.group()) + 1) + line[found.end() :]
    if STATEMENT.match(line) and line.count("(") == line.count(")"):
        yield ""


def prepare() -> Queue[Path]:
    """A copy of the sources for each worker, with everything compiled once."""
    places: Queue[Path] = Queue()
    for number in range(WORKERS):
        place = PLACES / str(number)
        for name in COPIED:
            source, target = ROOT / name, place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)
        modules = place / "node_modules"
        if not modules.is_symlink():
            modules.symlink_to(ROOT / "node_modules")
        if run(place) is not Verdict.SURVIVED:
            raise SystemExit("the tests fail without a mutant; see: make test-forge")
        places.put(place)
    return places


def attempt(mutant: Mutant, places: Queue[Path]) -> Verdict:
    """Try one mutant in a place of its own."""
    place = places.get()
    path = place / "contracts" / f"{mutant.contract}.sol"
    original = path.read_text(encoding="utf-8")
    lines = original.splitlines()
    lines[mutant.line] = mutant.after
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return run(place)
    finally:
        path.write_text(original, encoding="utf-8")
        places.put(place)


def run(place: Path) -> Verdict:
    """What Forge's tests say. A test that never ends has noticed, too."""
    command = [sys.executable, str(ROOT / "scripts" / "forge.py"), "test", "--root", str(place), "--fail-fast"]
    command += ["--no-match-contract", "Invariants"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return Verdict.KILLED
    if done.returncode == 0:
        return Verdict.SURVIVED
    return Verdict.KILLED if "[FAIL" in done.stdout else Verdict.STILLBORN


if __name__ == "__main__":
    sys.exit(main())
