"""How a sum is divided."""

from __future__ import annotations

from collections.abc import Sequence


def split(reward: int, weights: Sequence[int]) -> list[int]:
    """floor(reward x weight / all weights) each: in proportion, and rounding favours the contract.

    >>> split(100, [1, 1, 1])
    [33, 33, 33]
    """
    total = sum(weights)
    return [reward * weight // total if total else 0 for weight in weights]
