"""Who takes part in the demo, and with which data: scikit-learn's digits, cut by a seed.

Everything a participant is given is a file in its own folder; nothing else is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

SIDE = 8
LEVELS = 16
CLASSES = 10
TEST_ITEMS = 360
REFERENCE_ITEMS = 240
HONEST_ITEMS = 420
DISHONEST_ITEMS = 150
NOISE_ITEMS = 120
COPY_SIGMA = 0.02


@dataclass(frozen=True, slots=True)
class Part:
    """Images as uint8 [n, 8, 8] in 0..16, labels int64 [n]."""

    images: Pixels
    labels: Labels

    def save(self, path: Path) -> None:
        np.savez(path, X=self.images, y=self.labels)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The sponsor's test and reference sets and what each contributor submits, in the order of submission."""

    test: Part
    reference: Part
    contributors: dict[str, Part]


def digits_scenario(seed: int) -> Scenario:
    """Cut the 1,797 digits into disjoint parts and make the dishonest ones from them.

    `honest-a`, `honest-b`: disjoint samples of all ten digits. `noise`: uniform random pixels and labels.
    `flipper`: real digits with every label moved to another class. `copier`: items of `honest-a` with Gaussian
    noise of sigma 0.02 of the range.
    """
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(bunch.target))
    images = bunch.images[order].astype(np.uint8)
    labels = bunch.target[order].astype(np.int64)
    sizes = [TEST_ITEMS, REFERENCE_ITEMS, HONEST_ITEMS, HONEST_ITEMS, DISHONEST_ITEMS]
    borders = np.cumsum(sizes)
    test, reference, honest_a, honest_b, flipped = (
        Part(images[end - size : end], labels[end - size : end]) for size, end in zip(sizes, borders, strict=True)
    )
    return Scenario(
        test=test,
        reference=reference,
        contributors={
            "honest-a": honest_a,
            "honest-b": honest_b,
            "noise": _noise(rng),
            "flipper": Part(flipped.images, (flipped.labels + rng.integers(1, CLASSES, DISHONEST_ITEMS)) % CLASSES),
            "copier": _copy(rng, honest_a),
        },
    )


def _noise(rng: np.random.Generator) -> Part:
    images = rng.integers(0, LEVELS + 1, (NOISE_ITEMS, SIDE, SIDE)).astype(np.uint8)
    return Part(images, rng.integers(0, CLASSES, NOISE_ITEMS).astype(np.int64))


def _copy(rng: np.random.Generator, victim: Part) -> Part:
    chosen = rng.choice(len(victim.labels), DISHONEST_ITEMS, replace=False)
    noisy = victim.images[chosen] + rng.normal(0, COPY_SIGMA * LEVELS, (DISHONEST_ITEMS, SIDE, SIDE))
    return Part(np.clip(np.rint(noisy), 0, LEVELS).astype(np.uint8), victim.labels[chosen])
