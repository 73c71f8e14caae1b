"""The order of samples is a permutation an epoch, readable anywhere, alike for everybody."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.training.order import BadPosition, SampleOrder


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(1, 3000), st.integers(0, 5))
def test_every_epoch_holds_every_sample_once(seed: int, size: int, epoch: int) -> None:
    indices = SampleOrder(seed, size).indices(epoch * size, (epoch + 1) * size)
    assert sorted(indices.tolist()) == list(range(size))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 200), st.integers(0, 90))
def test_a_range_is_its_positions(size: int, start: int, length: int) -> None:
    order = SampleOrder(7, size)
    indices = order.indices(start, start + length)
    assert indices.tolist() == [order[p][1] for p in range(start, start + length)]
    assert order[start][0] == start // size


def test_epochs_and_seeds_differ() -> None:
    order = SampleOrder(1, 1000)
    first, second, other = order.indices(0, 1000), order.indices(1000, 2000), SampleOrder(2, 1000).indices(0, 1000)
    assert (first != second).mean() > 0.95
    assert (first != other).mean() > 0.95


def test_places_look_random() -> None:
    size = 10_000
    indices = SampleOrder(3, size).indices(0, size)
    assert abs(np.corrcoef(np.arange(size), indices)[0, 1]) < 0.05
    assert abs(indices[: size // 10].mean() / size - 0.5) < 0.03


def test_a_billion_samples_cost_no_memory() -> None:
    order = SampleOrder(5, 10**9)
    indices = order.indices(7 * 10**9 - 2, 7 * 10**9 + 2)
    assert len(set(indices.tolist())) == 4
    assert indices.min() >= 0
    assert indices.max() < 10**9


def test_the_order_never_changes_between_versions() -> None:
    assert SampleOrder(42, 10).indices(0, 20).tolist() == [8, 2, 9, 5, 7, 4, 3, 6, 1, 0, 8, 3, 1, 7, 9, 5, 0, 6, 4, 2]


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2)])
def test_no_range_is_refused(start: int, stop: int) -> None:
    with pytest.raises(BadPosition):
        SampleOrder(1, 10).indices(start, stop)


def test_no_samples_have_no_order() -> None:
    with pytest.raises(BadPosition):
        SampleOrder(1, 0)
