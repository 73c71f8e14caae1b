"""The swarms of real processes are those of the integration tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "integration" / "collective"))
