"""Run Forge with the compiler and the home that scripts/brownie_home.py makes: no network, nothing in the user's home.

    python scripts/forge.py test
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".home"


def main() -> NoReturn:
    """Become Forge."""
    found = list((ROOT / "node_modules" / "@foundry-rs").glob("forge-*/bin/forge*"))
    if not found:
        raise SystemExit("forge is not installed; run: make test-contracts")
    compiler = HOME / ".solcx" / "solc-v0.8.28"
    environment = {**os.environ, "HOME": str(HOME), "FOUNDRY_DISABLE_NIGHTLY_WARNING": "1"}
    command = [str(found[0]), *sys.argv[1:], "--use", str(compiler)]
    os.chdir(ROOT)
    # In place of this process: whoever stops it stops Forge.
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()
