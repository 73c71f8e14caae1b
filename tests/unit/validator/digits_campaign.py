"""A campaign on scikit-learn's digits with honest and dishonest contributors, split anew by each seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

from hydra_node.campaigns.policy import ItemSchema
from hydra_node.storage.items import Item
from hydra_validator.scoring.score import Submission

SCHEMA = ItemSchema(dtype="u1", shape=(8, 8), scale=16.0, classes=10)


@dataclass(frozen=True, slots=True)
class Cast:
    reference: tuple[Item, ...]
    submissions: tuple[Submission, ...]  # honest, honest, noise, copier, flipper
    flipped: np.ndarray  # of the flipper's items, those with a wrong label


def items(pixels: np.ndarray, labels: np.ndarray) -> tuple[Item, ...]:
    rows = np.clip(np.rint(pixels), 0, 16).astype(np.uint8)
    return tuple(Item(row.tobytes(), int(label)) for row, label in zip(rows, labels, strict=True))


def digits() -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = load_digits(return_X_y=True)
    return pixels.astype(np.int64), labels.astype(np.int64)


def cast(seed: int, *, flip_share: float = 1.0, noise: str = "uniform", flipper_first: bool = False) -> Cast:
    rng = np.random.default_rng(seed)
    x, y = digits()
    reference, first, second, flipper = np.split(rng.permutation(len(x))[: 240 + 420 + 420 + 150], [240, 660, 1080])
    marginal = np.stack([rng.choice(column, 120) for column in x[reference].T], axis=1)
    garbage = rng.integers(0, 17, (120, 64)) if noise == "uniform" else marginal
    copies = first[:150]
    flipped = rng.random(150) < flip_share
    shift = np.where(flipped, rng.integers(1, 10, 150), 0)
    entries = [
        Submission(1, "0x" + "11" * 20, items(x[first], y[first])),
        Submission(2, "0x" + "22" * 20, items(x[second], y[second])),
        Submission(3, "0x" + "33" * 20, items(garbage, rng.integers(0, 10, 120))),
        Submission(4, "0x" + "44" * 20, items(x[copies] + rng.normal(0, 0.02 * 16, (150, 64)), y[copies])),
        Submission(5, "0x" + "55" * 20, items(x[flipper], (y[flipper] + shift) % 10)),
    ]
    if flipper_first:
        entries.insert(0, entries.pop())
    return Cast(items(x[reference], y[reference]), tuple(entries), flipped)
