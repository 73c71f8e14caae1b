"""How many blocks above a transaction make it final."""

from __future__ import annotations

# Chains of one machine: whoever runs them decides, and nobody else makes blocks.
LOCAL_CHAINS = frozenset({1337, 31337})
# Public chains that are known to replace blocks no deeper than this, and everything else.
DEPTHS = {1: 64, 10: 64, 8453: 64, 42161: 64, 11155111: 64, 137: 128}
DEFAULT_DEPTH = 32


def finality_depth(chain_id: int) -> int:
    """Blocks above one until nothing replaces it, by the chain's id; zero for the chains of one machine."""
    return 0 if chain_id in LOCAL_CHAINS else DEPTHS.get(chain_id, DEFAULT_DEPTH)
