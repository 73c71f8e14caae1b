"""Gradients, state and the exactness of shares."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.training import models, samples
from hydra_node.training.compute import BadVector, FlatModel, gradient
from hydra_node.training.evaluate import accuracy, checkpoint, read_checkpoint
from hydra_node.training.order import SampleOrder
from hydra_node.training.presets import digits_spec
from hydra_node.training.spec import CnnSpec, MlpSpec, TrainingSpec, parameter_count
from hydra_node.training.state import BadState, TrainState

SPEC = digits_spec("x", seed=3, scale=1 / 16)
MLP = SPEC.model_copy(update={"model": MlpSpec(family="mlp", hidden=(32, 16))})
BIG = SPEC.model_copy(update={"shape": (1, 28, 28), "model": CnnSpec(family="cnn", channels=(8, 16, 16), hidden=(32,))})


def some(spec: TrainingSpec, count: int) -> samples.Samples:
    random = np.random.default_rng(count)
    return samples.for_spec(spec, random.uniform(0, 16, (count, *spec.shape)), random.integers(0, 10, count))


@pytest.mark.parametrize("spec", [SPEC, MLP, BIG])
def test_models_take_their_shape_and_have_the_counted_parameters(spec: TrainingSpec) -> None:
    model = FlatModel(models.build(spec))
    assert model.size == parameter_count(spec)
    assert model.module(torch.from_numpy(some(spec, 5).features)).shape == (5, 10)


def test_the_start_depends_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = FlatModel(models.build(SPEC)).vector()
    torch.manual_seed(2)
    assert (FlatModel(models.build(SPEC)).vector() == first).all()
    other = SPEC.model_copy(update={"seed": 4})
    assert (FlatModel(models.build(other)).vector() != first).mean() > 0.9


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_the_weighted_mean_of_any_shares_is_the_gradient_of_the_batch(shares: list[int]) -> None:
    order, data = SampleOrder(5, 150), some(SPEC, 150)
    model = FlatModel(models.build(SPEC))
    parameters = model.vector()
    whole = gradient(model, parameters, data.take(order.indices(0, sum(shares))))
    mean, start = np.zeros(model.size), 0
    for share in shares:
        part = gradient(model, parameters, data.take(order.indices(start, start + share)))
        mean += part.vector.astype(np.float64) * share / sum(shares)
        start += share
    assert np.linalg.norm(mean - whole.vector) <= 1e-6 * np.linalg.norm(whole.vector)


def test_chunks_do_not_change_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = FlatModel(models.build(SPEC)), some(SPEC, 100)
    whole = gradient(model, model.vector(), data)
    monkeypatch.setattr("hydra_node.training.compute.CHUNK", 7)
    parts = gradient(model, model.vector(), data)
    # Only the order of float32 sums may differ, and that differs by processor: as a vector, not number by number.
    assert np.linalg.norm(parts.vector - whole.vector) <= 1e-6 * np.linalg.norm(whole.vector)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)


def test_no_samples_have_no_gradient() -> None:
    model = FlatModel(models.build(SPEC))
    nothing = some(SPEC, 4).take(np.zeros(0, np.int64))
    assert not gradient(model, model.vector(), nothing).vector.any()


def test_a_vector_of_another_model_is_refused() -> None:
    with pytest.raises(BadVector):
        FlatModel(models.build(SPEC)).load(np.zeros(3, np.float32))


def trained() -> TrainState:
    state = TrainState.start(SPEC)
    planned = state.ledger.plan({"a": 100, "b": 28})
    vector = FlatModel(models.build(SPEC)).gradient(some(SPEC, 20)).vector
    state.apply(vector, state.ledger.after(planned, {"a"}, 128))
    return state


def test_a_state_survives_its_bytes() -> None:
    state = trained()
    again = TrainState.from_bytes(SPEC, state.to_bytes())
    assert (again.step, again.ledger) == (state.step, state.ledger)
    assert again.digest() == state.digest()
    assert again.to_bytes() == state.to_bytes()
    vector = np.ones_like(state.parameters)
    for one in (state, again):
        one.apply(vector, one.ledger)
    assert again.digest() == state.digest()


def test_a_digest_sees_every_part() -> None:
    digests = {TrainState.start(SPEC).digest(), trained().digest()}
    for change in ("parameters", "optimiser", "step", "ledger"):
        state = trained()
        if change == "parameters":
            state.parameters[7] += 1
        elif change == "optimiser":
            next(iter(state.optimiser.slots.values()))[7] += 1
        elif change == "step":
            state.step += 1
        else:
            state.ledger = state.ledger.closed()
        digests.add(state.digest())
    assert len(digests) == 6


@pytest.mark.parametrize("damage", ["empty", "torn", "other model", "no header"])
def test_bytes_that_are_no_state_of_this_job_are_refused(damage: str) -> None:
    from safetensors.numpy import save

    data = {
        "empty": b"",
        "torn": trained().to_bytes()[:-9],
        "other model": TrainState.start(MLP).to_bytes(),
        "no header": save({"parameters": np.zeros(3, np.float32)}),
    }[damage]
    with pytest.raises(BadState):
        TrainState.from_bytes(SPEC, data)


def test_a_checkpoint_is_the_same_bytes_and_loads_again() -> None:
    parameters = trained().parameters
    data = checkpoint(SPEC, parameters, 1)
    assert data == checkpoint(SPEC, parameters, 1)
    assert (read_checkpoint(SPEC, data) == parameters).all()
    with pytest.raises(BadState):
        read_checkpoint(MLP, data)


def test_accuracy_counts_the_right_ones() -> None:
    data = some(SPEC, 50)
    parameters = np.zeros(parameter_count(SPEC), np.float32)
    assert accuracy(SPEC, parameters, data) == pytest.approx((data.labels == 0).mean())


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (np.zeros((0, 8, 8)), np.zeros(0, int)),
        (np.zeros((2, 8, 8)), np.zeros(3, int)),
        (np.zeros((2, 7, 8)), np.zeros(2, int)),
        (np.full((2, 8, 8), np.nan), np.zeros(2, int)),
        (np.zeros((2, 8, 8)), np.array([0, 10])),
        (np.zeros((2, 8, 8)), np.array([-1, 0])),
    ],
)
def test_samples_that_do_not_fit_the_job_are_refused(features: np.ndarray, labels: np.ndarray) -> None:
    with pytest.raises(samples.BadSamples):
        samples.for_spec(SPEC, features, labels)
