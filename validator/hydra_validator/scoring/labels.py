"""Is an item's label what its neighbours say?

The neighbours of an item are the reference and the items of *other* submissions that agree with the reference
almost as often as the reference agrees with itself. So no submission vouches for itself, one that flips labels
has no voice, and copies (left out before) give no voice twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from hydra_validator.scoring.neighbours import Nearest, nearest
from hydra_validator.scoring.rows import Integers, Mask, Rows, join
from hydra_validator.scoring.rule import RULE, Rule

LABEL_MISMATCH = "label-mismatch"


@dataclass(frozen=True, slots=True)
class Labels:
    """The fitted signal; `agreement` = (agreeing, all) items of the reference, each left out once."""

    reference: Rows
    rule: Rule
    agreement: tuple[int, int]

    @classmethod
    def fit(cls, reference: Rows, rule: Rule = RULE) -> Self:
        found = nearest(reference, reference, rule.neighbours, leave_one_out=True)
        agreeing = _votes(reference, reference, found) >= rule.label_votes
        return cls(reference, rule, (int(agreeing.sum()), len(reference)))

    def trusted(self, rows: Rows, owner: Integers, original: Mask) -> set[int]:
        """The submissions whose original items agree with the reference well enough to vote."""
        found = nearest(rows, self.reference, self.rule.neighbours)
        agreeing = _votes(rows, self.reference, found) >= self.rule.label_votes
        trusted = set()
        for submission in np.unique(owner[original]).tolist():
            mine = original & (owner == submission)
            ours, total = self.agreement
            have = int(agreeing[mine].sum()) * self.rule.trust[1] * total
            need = int(mine.sum()) * self.rule.trust[0] * ours
            if have >= need:
                trusted.add(submission)
        return trusted

    def votes(self, rows: Rows, owner: Integers, original: Mask) -> Integers:
        """For each row, how many of its `neighbours` nearest voters bear its label."""
        trusted = self.trusted(rows, owner, original)
        speaks = original & np.isin(owner, sorted(trusted))
        votes = np.zeros(len(rows), dtype=np.int64)
        for submission in np.unique(owner).tolist():
            mine = owner == submission
            voters = join(self.reference, rows.take(speaks & ~mine))
            judged = rows.take(mine)
            votes[mine] = _votes(judged, voters, nearest(judged, voters, self.rule.neighbours))
        return votes


def _votes(rows: Rows, voters: Rows, found: Nearest) -> Integers:
    same = voters.labels[found.index] == rows.labels[:, None]
    votes: Integers = (same & (found.index >= 0)).sum(axis=1)
    return votes
