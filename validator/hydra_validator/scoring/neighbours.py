"""Exact nearest neighbours among rows of integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_validator.scoring.rows import Integers, Rows

_CHUNK = 256  # query rows at once: bounds memory at chunk x candidates
FAR = np.iinfo(np.int64).max >> 8  # beyond every distance between rows, and 2^8 of them still sum


@dataclass(frozen=True, slots=True)
class Nearest:
    """For each query its `k` nearest candidates, nearest first; squared distances in grid steps."""

    squared: Integers  # (n, k)
    index: Integers  # (n, k)


def squared_distances(a: NDArray[np.int16], b: NDArray[np.int16]) -> Integers:
    """(n, m) squared Euclidean distances.

    The products run in float64, where integers below 2^53 are exact in any order of summation, so a BLAS may
    do what it likes. With |x| <= 4080 that holds up to a hundred million features.
    """
    x, y = a.astype(np.float64), b.astype(np.float64)
    product = x @ y.T
    squares = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1)[None, :]
    squared: Integers = (squares - 2.0 * product).astype(np.int64)
    return squared


def chunked_distances(a: NDArray[np.int16], b: NDArray[np.int16]) -> Iterator[tuple[int, Integers]]:
    """(first row, distances of a chunk of `a` to all of `b`), chunk by chunk."""
    for start in range(0, len(a), _CHUNK):
        yield start, squared_distances(a[start : start + _CHUNK], b)


def nearest(queries: Rows, candidates: Rows, k: int, *, leave_one_out: bool = False) -> Nearest:
    """The `k` nearest candidates of each query, ties by content hash.

    With `leave_one_out` the queries are the candidates and no row is its own neighbour. Where fewer than `k`
    candidates exist, the rest has distance FAR and index -1.
    """
    squared = np.full((len(queries), k), FAR, dtype=np.int64)
    index = np.full((len(queries), k), -1, dtype=np.int64)
    found = min(k, len(candidates) - leave_one_out)
    if found <= 0:
        return Nearest(squared, index)
    by_hash = np.argsort(candidates.order, kind="stable")
    features = candidates.features[by_hash]
    place = np.argsort(by_hash, kind="stable")
    for start, distances in chunked_distances(queries.features, features):
        if leave_one_out:
            here = np.arange(len(distances))
            distances[here, place[start + here]] = FAR
        best = np.argsort(distances, axis=1, kind="stable")[:, :found]
        stop = start + len(distances)
        squared[start:stop, :found] = np.take_along_axis(distances, best, axis=1)
        index[start:stop, :found] = by_hash[best]
    return Nearest(squared, index)


def root(squared: Integers, steps: int = 1) -> Integers:
    """floor(steps x sqrt(squared)) exactly, for results below 2^26."""
    return np.floor(np.sqrt(squared.astype(np.float64) * (steps * steps))).astype(np.int64)
