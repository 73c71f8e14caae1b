"""Items as rows of exact integers.

Two honest validators must reach the same integers on different machines. So features are put on an integer
grid first, and everything after it (distances, ranks, votes) is integer arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_node.campaigns.policy import ItemSchema
from hydra_node.storage.items import Item, item_hash
from hydra_validator.scoring.rule import RULE, Rule

WRONG_SHAPE = "wrong-shape"
NOT_FINITE = "not-finite"
LABEL_OUT_OF_RANGE = "label-out-of-range"

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """`n` well-formed items of `d` features."""

    features: NDArray[np.int16]  # (n, d) grid steps
    labels: Integers  # (n,)
    order: Integers  # (n,) place of each row by content hash: breaks ties, and nobody chooses it cheaply

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, which: Mask | Integers) -> Rows:
        return Rows(self.features[which], self.labels[which], self.order[which])


@dataclass(frozen=True, slots=True)
class Decoded:
    """Every item of a list, well formed or not; `faults[i]` is "" or the reason why row `i` is all zeros."""

    features: NDArray[np.int16]
    labels: Integers
    hashes: tuple[bytes, ...]
    faults: tuple[str, ...]


def decode(items: Sequence[Item], schema: ItemSchema, rule: Rule = RULE) -> Decoded:
    """Check each item against the schema and put its features on the grid. Never raises on bad items."""
    width = math.prod(schema.shape)
    features = np.zeros((len(items), width), dtype=np.int16)
    labels = np.full(len(items), -1, dtype=np.int64)
    faults = []
    for i, item in enumerate(items):
        values, fault = _values(item, schema, width)
        faults.append(fault)
        if not fault:
            features[i] = _to_grid(values, schema.scale, rule)
            labels[i] = item.label
    return Decoded(features, labels, tuple(item_hash(item) for item in items), tuple(faults))


def stack(parts: Sequence[Decoded]) -> Rows:
    """All items of `parts` in order, with `order` taken over all of them."""
    hashes = [digest for part in parts for digest in part.hashes]
    order = np.empty(len(hashes), dtype=np.int64)
    order[sorted(range(len(hashes)), key=lambda i: (hashes[i], i))] = np.arange(len(hashes))
    return Rows(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        order,
    )


def join(first: Rows, second: Rows) -> Rows:
    """`first` before `second`, in tie-breaking too."""
    return Rows(
        np.concatenate([first.features, second.features]),
        np.concatenate([first.labels, second.labels]),
        np.concatenate([first.order, second.order + 1 + first.order.max(initial=-1)]),
    )


def _values(item: Item, schema: ItemSchema, width: int) -> tuple[NDArray[np.float64], str]:
    dtype = np.dtype("u1") if schema.dtype == "u1" else np.dtype("<f4")
    nothing = np.empty(0)
    if len(item.features) != width * dtype.itemsize:
        return nothing, WRONG_SHAPE
    values = np.frombuffer(item.features, dtype=dtype).astype(np.float64)
    if not np.isfinite(values).all():
        return nothing, NOT_FINITE
    if not 0 <= item.label < schema.classes:
        return nothing, LABEL_OUT_OF_RANGE
    return values, ""


def _to_grid(values: NDArray[np.float64], scale: float, rule: Rule) -> NDArray[np.int16]:
    limit = rule.grid * rule.clip
    # Division, multiplication and rint are exactly rounded by IEEE 754: the same on every machine.
    return np.clip(np.rint(values / scale * rule.grid), -limit, limit).astype(np.int16)
