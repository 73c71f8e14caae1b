"""Run Forge with the compiler and the home that scripts/brownie_home.py makes: no network, nothing in the user's home.

    python scripts/forge.py test
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".home"


def main() -> int:
    """Forge's exit status."""
    found = list((ROOT / "node_modules" / "@foundry-rs").glob("forge-*/bin/forge*"))
    if not found:
        raise SystemExit("forge is not installed; run: make test-contracts")
    compiler = HOME / ".solcx" / "solc-v0.8.28"
    environment = {**os.environ, "HOME": str(HOME), "FOUNDRY_DISABLE_NIGHTLY_WARNING": "1"}
    command = [str(found[0]), *sys.argv[1:], "--use", str(compiler)]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
