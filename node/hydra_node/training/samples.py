"""Labelled samples in memory, checked against what the job expects."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from hydra_node.errors import HydraError
from hydra_node.training.order import Indices
from hydra_node.training.spec import TrainingSpec


class BadSamples(HydraError):
    """The samples are not the ones that the training spec describes."""


@dataclass(frozen=True, slots=True)
class Samples:
    """`features` float32 of (count, *shape), `labels` int64 of (count,)."""

    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Indices) -> Self:
        """The samples at `indices`, in that order."""
        return type(self)(self.features[indices], self.labels[indices])


def for_spec(
    spec: TrainingSpec, features: npt.NDArray[np.floating] | npt.NDArray[np.integer], labels: npt.NDArray[np.integer]
) -> Samples:
    """Shapes, scales and checks raw arrays for the spec's model."""
    count = len(labels)
    if count == 0 or len(features) != count:
        raise BadSamples(
            f"{len(features)} features and {count} labels", expected="as many labels as features, at least one"
        )
    per_sample = int(np.prod(features.shape[1:]))
    if per_sample != int(np.prod(spec.shape)):
        raise BadSamples(
            f"a sample has {per_sample} numbers", expected=f"{int(np.prod(spec.shape))} of shape {spec.shape}"
        )
    scaled = np.asarray(features, dtype=np.float32).reshape(count, *spec.shape) * np.float32(spec.scale)
    if not np.isfinite(scaled).all():
        raise BadSamples("the features hold numbers that are not finite")
    if labels.min() < 0 or labels.max() >= spec.classes:
        raise BadSamples(f"labels run from {labels.min()} to {labels.max()}", expected=f"0 to {spec.classes - 1}")
    return Samples(scaled, np.asarray(labels, dtype=np.int64))
