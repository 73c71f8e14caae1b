"""Whose item is it? A near-duplicate cluster belongs to its earliest commit.

Two items are near duplicates when they are closer than a radius that the reference itself calibrates: half of
a low quantile of its nearest-neighbour distances, so items that are merely alike are not touched. Rows come in
chain order (block, transaction index, position), which nobody can grind, unlike a hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from hydra_validator.scoring.neighbours import chunked_distances, nearest
from hydra_validator.scoring.rows import Mask, Rows
from hydra_validator.scoring.rule import RULE, Rule

EXACT_DUPLICATE = "exact-duplicate"
NEAR_DUPLICATE = "near-duplicate"


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The calibrated signal; `radius_squared` in squared grid steps."""

    reference: Rows
    radius_squared: int

    @classmethod
    def fit(cls, reference: Rows, rule: Rule = RULE) -> Self:
        gaps = np.sort(nearest(reference, reference, 1, leave_one_out=True).squared[:, 0])
        gap = int(gaps[len(gaps) * rule.near_quantile[0] // rule.near_quantile[1]])
        return cls(reference, gap // rule.near_divisor**2)

    def rejects(self, rows: Rows) -> tuple[Mask, Mask]:
        """(duplicates, those of them at distance 0) of an earlier row or of the reference."""
        gap = np.full(len(rows), np.iinfo(np.int64).max, dtype=np.int64)
        for start, distances in chunked_distances(rows.features, self.reference.features):
            gap[start : start + len(distances)] = distances.min(axis=1)
        for start, distances in chunked_distances(rows.features, rows.features):
            row = np.arange(start, start + len(distances))[:, None]
            distances[np.arange(len(rows))[None, :] >= row] = np.iinfo(np.int64).max
            gap[start : start + len(distances)] = np.minimum(gap[start : start + len(distances)], distances.min(axis=1))
        return gap <= self.radius_squared, gap == 0
