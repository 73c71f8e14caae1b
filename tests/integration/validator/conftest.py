"""The trained swarm of the unit tests serves the integration tests too, and so does the comparison of books."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "validator"))
sys.path.insert(0, str(Path(__file__).parents[1] / "chain"))
