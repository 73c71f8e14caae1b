"""The constants of the scoring rule, in one place, so that a report can name the rule it followed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """Every constant that decides an item's fate. Fractions are (numerator, denominator).

    The values were chosen on scikit-learn's digits over several random splits and hold for all of them; none
    depends on a campaign. docs/scoring.md says what each does and what it costs honest data.
    """

    name: str = "hydra-score-1"
    grid: int = 255  # integer steps in one unit of the schema's feature scale
    clip: int = 16  # features beyond this many scales are clipped, so that every integer stays small
    neighbours: int = 5  # of the kNN distance and of the label vote
    trees: int = 100
    folds: int = 5  # the forest that scores a reference item has not seen it
    tail: tuple[int, int] = (1, 100)  # share of the reference that the averaged rank would reject
    knn_tail: tuple[int, int] = (1, 50)  # share of the reference that the kNN distance alone would reject
    near_quantile: tuple[int, int] = (5, 100)  # of the reference's nearest-neighbour distances ...
    near_divisor: int = 2  # ... of which this part is the near-duplicate radius
    label_votes: int = 2  # of `neighbours`, that an item's label needs
    trust: tuple[int, int] = (4, 5)  # of the reference's own agreement, that a submission needs to vote
    buckets: int = 64  # the best score of an item


RULE = Rule()
