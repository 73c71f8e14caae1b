"""The demo's job learns digits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hydra_node.training import samples
from hydra_node.training.baseline import train_single
from hydra_node.training.presets import digits_spec


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_nine_hundred_digits_are_enough(seed: int) -> None:
    digits = load_digits()
    places = np.random.default_rng(seed).permutation(len(digits.target))
    spec = digits_spec("x", seed=seed, scale=1 / 16)
    train, test = places[:900], places[900:]
    result = train_single(
        spec,
        samples.for_spec(spec, digits.images[train], digits.target[train]),
        samples.for_spec(spec, digits.images[test], digits.target[test]),
    )
    assert result.test_accuracy >= 0.95
    assert result.losses[-1] < 0.05 < result.losses[0]
