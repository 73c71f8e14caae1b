"""How much does an item add to the reference? Its distance to it, up to what is usual there.

The measure looks at the reference alone, so the order of arrival does not decide what an item earns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from hydra_validator.scoring.neighbours import nearest, root
from hydra_validator.scoring.rows import Integers, Rows
from hydra_validator.scoring.rule import RULE, Rule


@dataclass(frozen=True, slots=True)
class Novelty:
    """The fitted signal; `usual` is the median nearest-neighbour distance in the reference, in grid steps."""

    reference: Rows
    usual: int
    buckets: int

    @classmethod
    def fit(cls, reference: Rows, rule: Rule = RULE) -> Self:
        gaps = np.sort(nearest(reference, reference, 1, leave_one_out=True).squared[:, 0])
        return cls(reference, max(1, int(root(gaps)[len(gaps) // 2])), rule.buckets)

    def measure(self, rows: Rows) -> Integers:
        """0 (already there) .. buckets (as far as a new item of the reference would be, or further)."""
        gap = root(nearest(rows, self.reference, 1).squared[:, 0])
        return np.minimum(self.buckets, gap * self.buckets // self.usual)
