"""A swarm of workloads trains as one process does, whoever is missing, late or false."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from training_swarm import committed, one_step

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective import record as records
from hydra_node.training import samples
from hydra_node.training.adversary import Adversary, UnknownCheat
from hydra_node.training.baseline import train_single
from hydra_node.training.journal import Journal
from hydra_node.training.ledger import BadPlan
from hydra_node.training.presets import digits_spec
from hydra_node.training.spec import MlpSpec
from hydra_node.training.state import BadState
from hydra_node.training.workload import BadLimit, Manner, OutOfStep, StepReport, TrainingWorkload

SPEC = digits_spec("x", seed=6, steps=12, scale=1 / 16).model_copy(
    update={"model": MlpSpec(family="mlp", hidden=(16,)), "global_batch": 60}
)
DIGITS = load_digits()
SAMPLES = samples.for_spec(SPEC, DIGITS.images[:400], DIGITS.target[:400])
TEST = samples.for_spec(SPEC, DIGITS.images[1000:], DIGITS.target[1000:])

Make = Callable[..., TrainingWorkload]


@pytest.fixture
def make() -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda me, **more: stack.enter_context(TrainingWorkload(SPEC, SAMPLES, me, **more))


async def test_a_swarm_with_unequal_shares_ends_where_one_process_does(make: Make) -> None:
    peers = {name: make(name) for name in "abc"}
    told: dict[str, Telemetry] = {}
    for step in range(SPEC.steps):
        # What the leader hears decides the shares: one machine says that it needs four times as long.
        speeds = {"a": 1.0, "b": 1.0, "c": 4.0}
        told = {name: Telemetry(20, 0.02 * speed, 0.0) for name, speed in speeds.items()} if told else told
        digests = await one_step(step, peers, told)
        assert len(digests) == 1, "members differ"
    alone = train_single(SPEC, SAMPLES, TEST)
    together = peers["a"].training.parameters
    assert np.linalg.norm(together - alone.parameters) <= 1e-4 * np.linalg.norm(alone.parameters)
    ledger = peers["a"].training.ledger
    assert ledger.counted() == ((0, SPEC.steps * SPEC.global_batch),)
    assert ledger.credited["c"] < ledger.credited["a"] / 2


async def test_what_a_dead_member_left_is_trained_by_the_others(make: Make) -> None:
    peers = {name: make(name) for name in "abc"}
    told: dict[str, Telemetry] = {}
    await one_step(0, peers, told, missing="c")
    assert [(retry.start, retry.stop, retry.peer) for retry in peers["a"].training.ledger.retries] == [(40, 60, "c")]
    del peers["c"]
    for step in range(1, 4):
        assert len(await one_step(step, peers, told)) == 1
    ledger = peers["a"].training.ledger
    assert not ledger.retries
    assert not ledger.skipped
    assert ledger.counted() == ((0, ledger.cursor),)


async def test_a_returning_member_goes_on_from_anothers_state(make: Make) -> None:
    peers = {name: make(name) for name in "ab"}
    told: dict[str, Telemetry] = {}
    for step in range(3):
        await one_step(step, peers, told)
    newcomer = make("c")
    step, state = await peers["a"].state()
    assert await newcomer.restore(step, state) == peers["a"].training.digest()
    peers["c"] = newcomer
    assert len(await one_step(3, peers, told)) == 1


async def test_a_false_or_foreign_state_is_refused_and_changes_nothing(make: Make) -> None:
    one, other = make("a"), make("b")
    await one_step(0, {"a": one}, {})
    before = other.training.digest()
    _, state = await one.state()
    for step, data in ((1, state[:-5]), (1, b"nonsense"), (7, state)):
        with pytest.raises(BadState):
            await other.restore(step, data)
    assert other.training.digest() == before


async def test_a_journal_holds_what_an_auditor_needs(make: Make, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        peers = {"a": make("a", journal=journal), "b": make("b")}
        told: dict[str, Telemetry] = {}
        for step in range(3):
            await one_step(step, peers, told, missing="a" if step == 1 else "")
        entries = list(journal.entries(0, 2))
    assert [entry.step for entry in entries] == [0, 1, 2]
    assert entries[1].contribution == b""
    assert entries[0].post_digest == entries[1].pre_digest
    assert entries[2].post_digest == peers["a"].training.digest()
    record = records.decode(entries[0].record)
    assert isinstance(record, records.StepRecord)
    parameters = TrainingWorkload(SPEC, SAMPLES, "auditor")
    repeated = await parameters.contribute(0, record.ranges["a"])
    sent = np.frombuffer(entries[0].contribution, np.float32)
    np.testing.assert_allclose(repeated.vector, sent, atol=1e-6)


async def test_positions_that_are_not_due_are_not_trained_on(make: Make) -> None:
    workload = make("a")
    for ranges in (((60, 70),), ((-1, 3),), ((5, 5),)):
        with pytest.raises(BadPlan):
            await workload.contribute(0, ranges)
    await one_step(0, {"a": workload}, {})
    with pytest.raises(BadPlan):
        await workload.contribute(1, ((0, 10),))


async def test_no_ranges_are_a_zero_contribution(make: Make) -> None:
    contribution = await make("a").contribute(0, ())
    assert contribution.samples == 0
    assert not contribution.vector.any()


async def test_steps_come_in_order_and_once(make: Make) -> None:
    workload = make("a")
    with pytest.raises(OutOfStep):
        await workload.contribute(1, ((0, 10),))
    ranges = workload.plan(0, ("a",), {})
    step = committed(0, ("a",), ranges, {"a": await workload.contribute(0, ranges["a"])}, "a")
    await workload.apply(step)
    with pytest.raises(OutOfStep):
        await workload.apply(step)


async def test_a_false_gradient_points_the_other_way(make: Make) -> None:
    honest, false = make("a"), make("b", manner=Manner(adversary=Adversary.parse("sign-flip@1")))
    before = [await workload.contribute(0, ((0, 30),)) for workload in (honest, false)]
    assert (before[0].vector == before[1].vector).all()
    await one_step(0, {"a": honest, "b": false}, {})
    after = [await workload.contribute(1, ((60, 90),)) for workload in (honest, false)]
    assert (after[0].vector == -after[1].vector).all()


def test_a_limited_member_rests_so_that_it_is_busy_for_its_part_of_the_time() -> None:
    assert Manner(cpu_limit=1 / 3).pause_after(2.0) == pytest.approx(4.0)
    assert Manner(cpu_limit=0.5).pause_after(2.0) == pytest.approx(2.0)
    assert Manner().pause_after(2.0) == 0.0


async def test_rest_counts_as_time_that_a_share_takes(make: Make) -> None:
    busy = await make("a").contribute(0, ((0, 60),))
    limited = await make("b", manner=Manner(cpu_limit=0.01)).contribute(0, ((0, 60),))
    assert limited.telemetry.compute_seconds > busy.telemetry.compute_seconds
    assert limited.telemetry.samples == 60


async def test_each_step_is_reported(make: Make) -> None:
    reports: list[StepReport] = []
    peers = {"a": make("a", observer=reports.append), "b": make("b")}
    await one_step(0, peers, {}, missing="b")
    report = reports[0]
    assert (report.step, report.shares, report.contributors, report.samples) == (0, {"a": 30, "b": 30}, ("a",), 30)
    assert report.loss is not None
    assert report.digest == peers["b"].training.digest()


async def test_a_cancelled_step_ends_whole(make: Make, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        workload = make("a", journal=journal)
        ranges = workload.plan(0, ("a",), {})
        step = committed(0, ("a",), ranges, {"a": await workload.contribute(0, ranges["a"])}, "a")
        task = asyncio.ensure_future(workload.apply(step))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        workload.__exit__(None, None, None)
        assert journal.last == workload.training.step - 1, "journal and state tell different stories"


@pytest.mark.parametrize("limit", [0.0, -1.0, 1.1, float("nan")])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(BadLimit):
        Manner(cpu_limit=limit)


@pytest.mark.parametrize("text", ["", "sign-flip", "sign-flip@-1", "noise@3"])
def test_an_unknown_way_of_cheating_is_refused(text: str) -> None:
    with pytest.raises(UnknownCheat, match="sign-flip@STEP"):
        Adversary.parse(text)


def test_plans_do_not_depend_on_hearsay_alone(make: Make) -> None:
    lies: dict[str, Any] = {"a": Telemetry(5, float("nan")), "b": Telemetry(2**40, 1e-300), "c": Telemetry(-3, 1.0)}
    planned = make("a").plan(0, ("a", "b", "c"), lies)
    assert sum(stop - start for ranges in planned.values() for start, stop in ranges) == SPEC.global_batch
