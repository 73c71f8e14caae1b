"""Water-filling against brute force: the shares add up, keep their limits and end as soon as possible."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.batching.estimator import CostModel
from hydra_node.batching.shares import ImpossibleShares, water_fill

costs = st.builds(
    CostModel,
    overhead=st.floats(0, 10) | st.integers(0, 5).map(float),
    per_sample=st.floats(1e-3, 10) | st.integers(1, 3).map(float),
)


def slowest(models: list[CostModel], shares: tuple[int, ...] | list[int]) -> float:
    return max(model.seconds(share) for model, share in zip(models, shares, strict=True) if share)


def allowed(total: int, caps: list[int], quantum: int) -> list[tuple[int, ...]]:
    rest = total % quantum
    return [
        shares
        for shares in itertools.product(*(range(min(cap, total) + 1) for cap in caps))
        if sum(shares) == total and sorted(share % quantum for share in shares) == [0] * (len(shares) - 1) + [rest]
    ]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(costs, st.integers(0, 9)), min_size=1, max_size=4),
    st.integers(1, 10),
    st.integers(1, 4),
)
def test_no_other_shares_end_sooner(workers: list[tuple[CostModel, int]], total: int, quantum: int) -> None:
    models, caps = [model for model, _ in workers], [cap for _, cap in workers]
    choices = allowed(total, caps, quantum)
    if not choices:
        with pytest.raises(ImpossibleShares):
            water_fill(total, models, caps, quantum)
        return
    shares = water_fill(total, models, caps, quantum)
    assert tuple(shares) in choices
    assert slowest(models, shares) == min(slowest(models, choice) for choice in choices)


@settings(max_examples=100, deadline=None)
@given(st.lists(costs, min_size=1, max_size=12), st.integers(1, 100_000))
def test_a_large_batch_is_shared_to_the_last_sample(models: list[CostModel], total: int) -> None:
    shares = water_fill(total, models)
    assert sum(shares) == total
    assert min(shares) >= 0
    level = slowest(models, shares)
    for model, share in zip(models, shares, strict=True):
        assert model.seconds(share + 1) >= level, "one more sample elsewhere would have ended sooner"


def test_equal_workers_differ_by_one_and_the_earlier_ones_take_more() -> None:
    assert water_fill(11, [CostModel(0.1, 0.01)] * 3) == [4, 4, 3]


def test_a_machine_at_a_third_of_the_speed_takes_a_third_of_the_samples() -> None:
    models = [CostModel(0.0, 0.001)] * 3 + [CostModel(0.0, 0.003)]
    assert water_fill(100, models) == [30, 30, 30, 10]


@pytest.mark.parametrize("total", [0, -1])
def test_an_empty_batch_is_refused(total: int) -> None:
    with pytest.raises(ImpossibleShares):
        water_fill(total, [CostModel(0.0, 1.0)])


@pytest.mark.parametrize("cost", [CostModel(float("nan"), 1.0), CostModel(0.0, 0.0), CostModel(0.0, float("inf"))])
def test_a_cost_that_is_none_is_refused(cost: CostModel) -> None:
    with pytest.raises(ImpossibleShares, match="not a cost"):
        water_fill(4, [cost, CostModel(0.0, 1.0)])
