"""What Slither finds in the contracts, besides what a comment beside the code explains; exit status 1 if anything.

    python scripts/slither.py

Mocks and OpenZeppelin's contracts are left out. Slither compiles with Forge, into folders of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".home"
BUILD = ROOT / "build" / "slither"


def main() -> int:
    """Slither's exit status: 0 without a finding of any impact."""
    forge = next((ROOT / "node_modules" / "@foundry-rs").glob("forge-*/bin"), None)
    if forge is None:
        raise SystemExit("forge is not installed; run: make test-forge")
    environment = {
        **os.environ,
        "HOME": str(HOME),
        "PATH": f"{forge}{os.pathsep}{os.environ['PATH']}",
        "FOUNDRY_SOLC": str(HOME / ".solcx" / "solc-v0.8.28"),
        "FOUNDRY_OUT": str(BUILD / "out"),
        "FOUNDRY_CACHE_PATH": str(BUILD / "cache"),
        "FOUNDRY_DYNAMIC_TEST_LINKING": "false",
        "FOUNDRY_DISABLE_NIGHTLY_WARNING": "1",
    }
    command = [str(ROOT / ".venv-slither" / "bin" / "slither"), ".", "--compile-force-framework", "foundry"]
    command += ["--foundry-out-directory", str((BUILD / "out").relative_to(ROOT)), "--fail-low"]
    command += ["--filter-paths", "node_modules|contracts/mocks|tests"]
    command += ["--exclude-informational", "--exclude-optimization"]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
