"""A worker's cost as a line: seconds = overhead + seconds per sample x samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hydra_node.batching.telemetry import Telemetry

Floats = npt.NDArray[np.float64]

WINDOW = 60
"""Observations that are looked at; older ones are forgotten altogether."""

_FORGETTING = 0.93
_HUBER = 1.5
_REWEIGHTINGS = 8
_RIDGE = 1e-3
_MIN_PER_SAMPLE = 1e-9
_MAX_PER_SAMPLE = 1e4
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True)
class CostModel:
    """Predicted time of a share: `overhead` seconds plus `per_sample` seconds for each sample."""

    overhead: float
    per_sample: float

    def seconds(self, samples: int) -> float:
        """Predicted seconds for a share of `samples`."""
        return self.overhead + self.per_sample * samples


def fit(history: Sequence[Telemetry]) -> CostModel | None:
    """Fits the newest `WINDOW` usable observations, newest last; None when there are none.

    Weighted least squares with exponential forgetting; Huber weights on the relative residuals keep a
    single hiccup from moving the line. A machine whose share has settled shows only one point of its line:
    a small ridge on the overhead then makes the line go through the origin, which is what proportional
    sharing assumes. Both coefficients come back finite, the overhead never negative and the cost of a
    sample never zero.
    """
    usable = [seen for seen in history if seen.usable()][-WINDOW:]
    if not usable:
        return None
    samples = np.array([seen.samples for seen in usable], dtype=np.float64)
    seconds = np.array([seen.compute_seconds for seen in usable], dtype=np.float64)
    age = np.arange(len(usable) - 1, -1, -1, dtype=np.float64)
    forgetting = np.power(_FORGETTING, age)

    overhead, slope = 0.0, _weighted_median(seconds / samples, forgetting)
    for _ in range(_REWEIGHTINGS):
        predicted = np.maximum(overhead + slope * samples, _MIN_PER_SAMPLE)
        residuals = (seconds - predicted) / predicted
        spread = max(_MAD_TO_SIGMA * _weighted_median(np.abs(residuals), forgetting), 1e-3)
        robust = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(residuals), 1e-12))
        overhead, slope = _line(samples, seconds, forgetting * robust / predicted**2)
    return CostModel(overhead, min(max(slope, _MIN_PER_SAMPLE), _MAX_PER_SAMPLE))


def _line(samples: Floats, seconds: Floats, weights: Floats) -> tuple[float, float]:
    """Weighted least squares of a line with a ridge on its height at zero, both coefficients >= 0."""
    weights = weights / weights.sum()
    x = samples / samples.max()
    xx, xy = float(weights @ (x * x)), float(weights @ (x * seconds))
    sx, sy = float(weights @ x), float(weights @ seconds)
    determinant = (1.0 + _RIDGE) * xx - sx * sx
    overhead = (xx * sy - sx * xy) / determinant
    slope = ((1.0 + _RIDGE) * xy - sx * sy) / determinant
    if overhead < 0.0:
        overhead, slope = 0.0, xy / xx
    elif slope <= 0.0:
        overhead, slope = 0.0, sy / sx
    return overhead, slope / float(samples.max())


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][int(np.searchsorted(reached, reached[-1] / 2))])
