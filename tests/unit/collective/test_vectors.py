"""Sums, digests, shards and clip factors."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.collective import vectors


@given(st.integers(1, 300_000), st.integers(1, 40))
def test_shards_cover_a_vector_once_and_in_order(size: int, count: int) -> None:
    peers = tuple(f"p{place}" for place in range(count))
    layout = list(vectors.shards(size, peers).values())
    assert layout[0][0] == 0 and layout[-1][1] == size
    assert all(one[1] == two[0] for one, two in pairwise(layout))
    chunk = vectors.chunk_length(size)
    assert max(stop - start for start, stop in layout) <= (size // chunk // count + 2) * chunk


def test_a_digest_is_that_of_length_and_chunk_hashes() -> None:
    vector = np.arange(3000, dtype="<f4")
    raw = vector.tobytes()
    chunks = [hashlib.sha256(raw[at : at + 4096]).digest() for at in range(0, len(raw), 4096)]
    wanted = hashlib.sha256(b"hydra-vector/1" + (3000).to_bytes(8, "big") + b"".join(chunks)).digest()
    assert vectors.vector_digest(vector) == wanted


def test_digests_of_a_shard_are_a_slice_of_the_vector_s() -> None:
    vector = np.random.default_rng(1).standard_normal(200_000).astype("<f4")
    chunk = vectors.chunk_length(len(vector))
    whole = vectors.chunk_digests(vector, chunk)
    found: list[bytes] = []
    for start, stop in vectors.shards(len(vector), ("a", "b", "c")).values():
        found += vectors.chunk_digests(vector[start:stop], chunk)
    assert tuple(found) == whole


@given(st.lists(st.integers(0, 100), min_size=1, max_size=9), st.integers(0, 2**32))
def test_the_mean_is_the_float64_one(samples: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal(50).astype("<f4") for _ in samples]
    got = vectors.weighted_mean(parts, samples, [1.0] * len(samples))
    total = sum(samples)
    want = sum((p.astype(float) * n for p, n in zip(parts, samples, strict=True)), np.zeros(50)) / (total or 1)
    assert np.allclose(got, want, rtol=1e-6, atol=1e-7)


def test_honest_contributions_are_not_clipped() -> None:
    rng = np.random.default_rng(3)
    signal = rng.standard_normal(1000)
    for _ in range(50):
        samples = [int(count) for count in rng.integers(1, 200, 6)]
        norms = [float(np.linalg.norm(signal + rng.standard_normal(1000) * 3 / np.sqrt(n))) for n in samples]
        assert vectors.clip_factors(norms, samples, 4.0) == (1.0,) * 6


def test_a_huge_contribution_is_cut_to_its_radius() -> None:
    factors = vectors.clip_factors([1.0, 1.0, 1e9, 1.0], [16, 16, 16, 16], 4.0)
    assert factors == (1.0, 1.0, pytest.approx(4.0 * 2.0 / 1e9), 1.0)


def test_a_tiny_minority_cannot_clip_the_honest() -> None:
    assert vectors.clip_factors([0.0, 1.0, 1.1, 1.2], [8, 8, 8, 8], 4.0) == (1.0,) * 4


def test_no_finite_looking_sum_hides_what_is_not_finite() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        part = np.ones(10, dtype="<f4")
        part[3] = bad
        assert not np.isfinite(vectors.squared_norm(part))
    assert np.isfinite(vectors.squared_norm(np.full(10, np.finfo("<f4").max, dtype="<f4")))
