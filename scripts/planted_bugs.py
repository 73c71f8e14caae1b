"""Whether the invariants would notice: each planted bug must make Forge's long walk fail.

    python scripts/planted_bugs.py [CONTRACT]

Copies contracts and tests below build/planted, breaks one line at a time, and runs the walk that visits every state. Exit
status 1 if a bug goes unnoticed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLANTED = ROOT / "build" / "planted"
NEVER_SEEN = "[FAIL: NeverSeen"
COPIED = ("contracts", "tests/forge", "foundry.toml")


@dataclass(frozen=True)
class Bug:
    """A line of a contract, and what it becomes."""

    contract: str
    line: str
    broken: str


BUGS = (
    Bug("JobEscrow", "uint128(paid + amount));", "uint128(paid));"),
    Bug("JobEscrow", "account.refunded += uint128(amount);", ""),
    Bug("StakeManager", "account.thawing = 0;", ""),
    Bug("StakeManager", "account.thawing -= uint96(fromThawing);", ""),
    Bug("StakeManager", "_setTotal(role, totalStaked(role) - fromActive);", ""),
    Bug("SubmissionRegistry", "if (state == SubmissionState.Revealed) return;", ""),
    Bug("SubmissionRegistry", "entry.state = SubmissionState.Expired;", ""),
    Bug("QualityRounds", "escrow.release(jobId, remaining - leader.total);", ""),
    Bug("TrainingRegistry", "if (total > before) escrow.reserve(jobId, total - before);", "escrow.reserve(jobId, total);"),
    Bug("TrainingRegistry", "escrow.release(jobId, distributor.revoke(jobId));", "distributor.revoke(jobId);"),
    Bug("RewardsDistributor", "rewards.claimed = uint96(sum);", ""),
    Bug("DisputeManager", "_pay(disputeId, winner, bond + rest);", "_pay(disputeId, winner, bond);"),
    Bug("DisputeManager", "if (d.defender != address(0)) _pay(disputeId, d.defender, bond);", ""),
)


def main() -> int:
    """Plant every bug in turn; 1 if one goes unnoticed."""
    prepare(None)
    if "[PASS]" not in walk():
        raise SystemExit("the walk fails without a planted bug; see: make invariants")
    unnoticed = 0
    chosen = [bug for bug in BUGS if sys.argv[1:] in ([], [bug.contract])]
    for bug in chosen:
        prepare(bug)
        output = walk()
        # Not because the broken contracts led the walk elsewhere: an assertion about the books must fail.
        noticed = "panic: assertion failed" in output
        if not noticed and "[PASS]" not in output and NEVER_SEEN not in output:
            sys.stderr.write(output)
            raise SystemExit(f"forge did not run the walk for {bug}")
        unnoticed += not noticed
        print(f"{'noticed  ' if noticed else 'UNNOTICED'}  {bug.contract}: {bug.line}  ->  {bug.broken or '(gone)'}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} planted bugs noticed")
    return 1 if unnoticed else 0


def prepare(bug: Bug | None) -> None:
    """A copy of the sources, with the bug in it."""
    for name in COPIED:
        source, target = ROOT / name, PLANTED / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    modules = PLANTED / "node_modules"
    if not modules.is_symlink():
        modules.symlink_to(ROOT / "node_modules")
    if bug is None:
        return
    path = PLANTED / "contracts" / f"{bug.contract}.sol"
    text = path.read_text(encoding="utf-8")
    if text.count(bug.line) != 1:
        raise SystemExit(f"{bug.contract}.sol has {text.count(bug.line)} lines like {bug.line!r}: mend the list")
    path.write_text(text.replace(bug.line, bug.broken), encoding="utf-8")


def walk() -> str:
    """What Forge says of the walk."""
    command = [sys.executable, str(ROOT / "scripts" / "forge.py"), "test", "--root", str(PLANTED), "--match-test", "reach"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
