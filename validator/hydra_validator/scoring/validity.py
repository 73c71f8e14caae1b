"""Does an item look like the reference? kNN distance and isolation forest, rank-averaged.

Each signal ranks an item against the reference's *own* scores, never against the other submissions: a batch of
noise would otherwise be normal within itself. The reference's scores are leave-one-out (kNN) or out-of-fold
(forest), so that an item and the reference are measured alike; this is the cross-conformal p-value of Vovk
(2015) without its division.

kNN distance: Ramaswamy, Rastogi, Shim (2000). Isolation forest: Liu, Ting, Zhou (2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from hydra_validator.scoring.neighbours import nearest, root
from hydra_validator.scoring.rows import Integers, Mask, Rows
from hydra_validator.scoring.rule import RULE, Rule

OUT_OF_DISTRIBUTION = "out-of-distribution"
_FOREST_STEPS = 1_000_000  # forest scores lie in (0, 1]; this rounding hides the last bits of a float sum


@dataclass(frozen=True, slots=True)
class Validity:
    """The fitted signal. Ranks count reference items at least as strange as the one judged."""

    reference: Rows
    rule: Rule
    knn_scores: Integers  # sorted, of the reference
    folds: tuple[tuple[IsolationForest, Integers], ...]  # forest, sorted scores of the items it has not seen
    threshold: int  # averaged (summed) rank below which an item is out
    knn_threshold: int  # kNN rank below which an item is out whatever the forest says

    @classmethod
    def fit(cls, reference: Rows, seed: int, rule: Rule = RULE) -> Self:
        knn = _knn_scores(reference, reference, rule, leave_one_out=True)
        fold_of = np.arange(len(reference)) % rule.folds
        forests, forest = [], np.zeros(len(reference), dtype=np.int64)
        for fold in range(rule.folds):
            unseen = fold_of == fold
            model = IsolationForest(n_estimators=rule.trees, random_state=seed + fold, n_jobs=1)
            model.fit(reference.features[~unseen].astype(np.float64))
            forest[unseen] = _forest_scores(model, reference.features[unseen])
            forests.append((model, np.sort(forest[unseen])))
        summed = np.sort(_rank(np.sort(knn), knn) + _rank(np.sort(forest), forest))
        knn_ranks = np.sort(_rank(np.sort(knn), knn))
        return cls(
            reference,
            rule,
            np.sort(knn),
            tuple(forests),
            int(summed[len(reference) * rule.tail[0] // rule.tail[1]]),
            int(knn_ranks[len(reference) * rule.knn_tail[0] // rule.knn_tail[1]]),
        )

    def rejects(self, rows: Rows) -> Mask:
        """Which rows are out of the reference's distribution."""
        if not len(rows):
            return np.zeros(0, dtype=np.bool_)
        knn = _rank(self.knn_scores, _knn_scores(rows, self.reference, self.rule))
        forest = np.zeros(len(rows), dtype=np.int64)
        for model, unseen in self.folds:
            forest += _rank(unseen, _forest_scores(model, rows.features))
        return (knn + forest < self.threshold) | (knn < self.knn_threshold)


def _rank(reference: Integers, scores: Integers) -> Integers:
    """How many of the sorted `reference` are at least as high as each score."""
    return len(reference) - np.searchsorted(reference, scores, side="left")


def _knn_scores(rows: Rows, reference: Rows, rule: Rule, *, leave_one_out: bool = False) -> Integers:
    found = nearest(rows, reference, rule.neighbours, leave_one_out=leave_one_out)
    scores: Integers = root(found.squared).sum(axis=1)
    return scores


def _forest_scores(model: IsolationForest, features: NDArray[np.int16]) -> Integers:
    scores = -model.score_samples(features.astype(np.float64))
    rounded: Integers = np.rint(scores * _FOREST_STEPS).astype(np.int64)
    return rounded
