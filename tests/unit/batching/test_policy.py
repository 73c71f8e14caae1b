"""Shares follow what was measured, and no account of a worker can break them."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.batching.estimator import fit
from hydra_node.batching.policy import UnknownPolicy, policy
from hydra_node.batching.telemetry import Telemetry

anything = st.builds(
    Telemetry,
    samples=st.integers(-(2**70), 2**70),
    compute_seconds=st.floats(),
    wait_seconds=st.floats(),
)


def observed(overhead: float, per_sample: float, sizes: list[int]) -> list[Telemetry]:
    return [Telemetry(size, overhead + per_sample * size, 0.0) for size in sizes]


def test_a_line_is_found_again() -> None:
    model = fit(observed(0.02, 0.003, [10, 20, 40, 30, 25, 60, 10, 50]))
    assert model is not None
    assert model.overhead == pytest.approx(0.02, rel=0.05)
    assert model.per_sample == pytest.approx(0.003, rel=0.05)


def test_one_hiccup_hardly_moves_the_line() -> None:
    history = observed(0.0, 0.001, [10, 20, 40, 30, 25, 60, 10, 50, 20, 30])
    history.append(Telemetry(20, 3.0))
    model = fit(history)
    assert model is not None
    assert model.seconds(40) == pytest.approx(0.04, rel=0.15)


def test_a_machine_that_slows_down_for_good_is_believed() -> None:
    model = fit(observed(0.0, 0.001, [30] * 60) + observed(0.0, 0.004, [30] * 30))
    assert model is not None
    assert model.seconds(30) == pytest.approx(0.12, rel=0.1)


def test_a_settled_share_means_proportional_cost() -> None:
    model = fit(observed(0.0, 0.002, [32] * 10))
    assert model is not None
    assert model.seconds(64) == pytest.approx(0.128, rel=0.02)


@settings(max_examples=200, deadline=None)
@given(st.lists(anything, max_size=20))
def test_a_fit_of_anything_is_finite(history: list[Telemetry]) -> None:
    model = fit(history)
    if model is None:
        assert not any(seen.usable() for seen in history)
        return
    assert math.isfinite(model.overhead) and model.overhead >= 0
    assert math.isfinite(model.per_sample) and model.per_sample > 0


@pytest.mark.parametrize("name", ["equal", "throughput", "waterfill"])
@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(1, 4096),
    histories=st.lists(st.lists(anything, max_size=8), min_size=1, max_size=8),
)
def test_every_policy_shares_the_whole_batch_whatever_it_is_told(
    name: str, total: int, histories: list[list[Telemetry]]
) -> None:
    members = [f"peer{place}" for place in range(len(histories))]
    shares = policy(name)(total, members, dict(zip(members, histories, strict=True)))
    assert list(shares) == members
    assert sum(shares.values()) == total
    assert min(shares.values()) >= (1 if total >= len(members) else 0)


@pytest.mark.parametrize("name", ["throughput", "waterfill"])
def test_a_throttled_machine_gets_a_smaller_share(name: str) -> None:
    history = {peer: observed(0.001, 0.001, [30, 32, 34]) for peer in "abc"}
    history["d"] = observed(0.001, 0.003, [30, 32, 34])
    shares = policy(name)(128, ["a", "b", "c", "d"], history)
    assert shares["d"] < 0.45 * shares["a"]


def test_a_newcomer_counts_as_the_median() -> None:
    history = {"a": observed(0.0, 0.001, [30] * 5), "b": observed(0.0, 0.001, [30] * 5)}
    assert policy("waterfill")(90, ["a", "b", "new"], history) == {"a": 30, "b": 30, "new": 30}


def test_telemetry_travels_as_msgpack() -> None:
    seen = Telemetry(3, 0.25, 0.5)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=Telemetry) == seen


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(UnknownPolicy, match="equal, throughput, waterfill"):
        policy("luck")
