"""Trainers as real processes on a real chain: they end alike, survive a kill, are paid, are put out for cheating."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from trainer_world import FIRST_TRAINER, HYDRA, PENALTY, STAKE, TrainerProcess, World, is_, wallet

from hydra_node.chain.enums import Role
from hydra_node.storage.cid import Cid
from hydra_node.training.baseline import train_single
from hydra_node.training.evaluate import read_checkpoint
from hydra_node.training.job import load
from hydra_node.training.journal import MAX_SEGMENT, SegmentDocument, read_segment
from hydra_node.training.presets import digits_spec
from hydra_node.training.spec import TrainingSpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOWHERE = "bafyreiepcdjchzpfvsajpm4jiw5f6arhth52ojpxj2onzyzsqttzbqu5t4"
A, B, C = FIRST_TRAINER, FIRST_TRAINER + 1, FIRST_TRAINER + 2


def job_spec(world: World, steps: int) -> TrainingSpec:
    spec = digits_spec(world.add_dataset(), seed=4, steps=steps, round_steps=20)
    return spec.model_copy(update={"global_batch": 60})


def posted(world: World, job: int) -> dict[str, list[SegmentDocument]]:
    """Every segment on chain, fetched by the sponsor's host, by trainer."""
    client = world.client(0)
    found: dict[str, list[SegmentDocument]] = {}
    for event in client.events.poll(0):
        if event.name == "RecordPosted" and event.args["jobId"] == job:
            data = world.host.ipfs.cat(Cid.parse(event.args["cid"]), MAX_SEGMENT)
            found.setdefault(event.args["trainer"], []).append(read_segment(data, event.args["digest"]))
    return found


def at(step: int) -> object:
    return lambda event: event["event"] == "step" and event["step"] >= step


async def trained(trainers: list[TrainerProcess]) -> list[str]:
    return [(await trainer.hear(is_("trained"), 150))["digest"] for trainer in trainers]


async def test_trainers_end_alike_are_paid_and_match_one_process(tmp_path: Path) -> None:
    async with World.start(tmp_path) as world:
        spec = await asyncio.to_thread(job_spec, world, 40)
        trainers = [await world.train(account) for account in (A, B, C)]
        for trainer in trainers:
            await trainer.hear(is_("waiting"))
        job = await asyncio.to_thread(world.open_job, spec)
        digests = await trained(trainers)
        assert len(set(digests)) == 1, "members ended different"
        for trainer in trainers:
            await trainer.hear(is_("awaiting_settlement"))

        opened = next(e for e in world.client(0).events.poll(0) if e.name == "JobOpened" and e.args["jobId"] == job)
        for account in (A, B, C):
            kept = world.store(account).pins()
            assert {Cid.parse(opened.args["specCid"]), Cid.parse(spec.dataset)} <= set(kept), "only the sponsor has it"

        segments = await asyncio.to_thread(posted, world, job)
        assert {wallet(account).address for account in (A, B, C)} == set(segments)
        models = {segment.checkpoint for shown in segments.values() for segment in shown if segment.checkpoint}
        assert len(models) == 1
        model = await asyncio.to_thread(world.host.ipfs.cat, Cid.parse(models.pop()))
        loaded = await asyncio.to_thread(load, world.client(0), world.host.ipfs, job)
        alone = await asyncio.to_thread(train_single, spec, loaded.samples, loaded.samples)
        together = read_checkpoint(spec, model)
        # Not closer: AdamW divides by the root of squares, so that the last bits of tiny gradients grow.
        assert np.linalg.norm(together - alone.parameters) <= 2e-2 * np.linalg.norm(alone.parameters)

        await asyncio.to_thread(world.settle, job, {A: 3 * HYDRA, B: 2 * HYDRA, C: HYDRA})
        for trainer, wei in zip(trainers, (3 * HYDRA, 2 * HYDRA, HYDRA), strict=True):
            done = await trainer.hear(is_("done"))
            assert (done["steps"], done["claimed"]) == (40, wei)
            assert await trainer.end() == 0


async def test_a_killed_trainer_comes_back_and_posts_what_it_had_left(tmp_path: Path) -> None:
    async with World.start(tmp_path) as world:
        spec = await asyncio.to_thread(job_spec, world, 400)
        # Slow enough that the killed one is back before the end.
        trainers = [await world.train(account, cpu_limit=0.1) for account in (A, B, C)]
        for trainer in trainers:
            await trainer.hear(is_("waiting"))
        job = await asyncio.to_thread(world.open_job, spec)
        await trainers[2].hear(at(30))  # type: ignore[arg-type]  # a predicate
        trainers[2].process.kill()
        await trainers[2].end()
        last = trainers[2].steps()[-1]["step"]
        back = await world.train(C)
        first = (await back.hear(is_("step"), 120))["step"]
        assert first > last, "the training started anew"
        assert len(set(await trained([trainers[0], trainers[1], back]))) == 1
        await back.hear(is_("awaiting_settlement"))

        mine = (await asyncio.to_thread(posted, world, job))[wallet(C).address]
        steps = [entry.step for segment in mine for entry in segment.entries]
        assert steps == sorted(set(steps)), "a step was posted twice"
        assert set(range(last + 1)) <= set(steps), "what the killed process had done was lost"
        assert max(steps) == 399


async def test_a_banned_trainer_is_put_out_and_the_others_go_on(tmp_path: Path) -> None:
    async with World.start(tmp_path) as world:
        spec = await asyncio.to_thread(job_spec, world, 300)
        trainers = [await world.train(account, cpu_limit=0.1) for account in (A, B)]
        cheat = await world.train(C, adversary="sign-flip@5")
        for trainer in (*trainers, cheat):
            await trainer.hear(is_("waiting"))
        job = await asyncio.to_thread(world.open_job, spec)
        await cheat.hear(at(10))  # type: ignore[arg-type]  # a predicate
        await asyncio.to_thread(world.settle, job, {}, cheats=(C,), last=False)
        await cheat.hear(is_("banned"), 30)
        assert len(set(await trained(trainers))) == 1
        assert trainers[0].steps()[-1]["peers"] == 2
        await asyncio.to_thread(world.settle, job, {A: HYDRA})
        assert (await cheat.hear(is_("failed")))["error"] == "Banned"
        assert await cheat.end() == 2
        assert world.client(0).stakes.stake_of(Role.TRAINER, wallet(C).address) == STAKE - PENALTY


async def test_a_newer_job_that_nobody_serves_keeps_no_trainer_away(tmp_path: Path) -> None:
    async with World.start(tmp_path) as world:
        spec = await asyncio.to_thread(job_spec, world, 40)
        job = await asyncio.to_thread(world.open_job, spec)
        dead = await asyncio.to_thread(world.open_job, spec, NOWHERE)
        trainers = [await world.train(account) for account in (A, B)]
        for trainer in trainers:
            assert (await trainer.hear(is_("passed_over"), 60))["job"] == dead
        assert [(await trainer.hear(is_("joined")))["job"] for trainer in trainers] == [job, job]
        await trained(trainers)
        assert not any(world.client(0).training.trainers(dead))


async def test_a_job_that_is_over_takes_no_trainer(tmp_path: Path) -> None:
    async with World.start(tmp_path) as world:
        spec = await asyncio.to_thread(job_spec, world, 40)
        job = await asyncio.to_thread(world.open_job, spec)
        await asyncio.to_thread(world.settle, job, {})
        trainer = await world.train(A, job=job)
        failed = await trainer.hear(is_("failed"))
        assert failed["error"] == "CannotEnlist"
        assert not world.client(0).training.trainers(job)


async def test_a_trainer_that_is_told_to_stop_leaves_and_the_others_go_on_at_once(tmp_path: Path) -> None:
    async with World.start(tmp_path) as world:
        spec = await asyncio.to_thread(job_spec, world, 120)
        trainers = [await world.train(account, cpu_limit=0.1) for account in (A, B, C)]
        for trainer in trainers:
            await trainer.hear(is_("waiting"))
        await asyncio.to_thread(world.open_job, spec)
        await trainers[2].hear(at(10))  # type: ignore[arg-type]  # a predicate
        trainers[2].process.terminate()
        await trainers[2].end(20)
        assert not (tmp_path / f"trainer-{C}" / "errors.log").read_text().count("was never retrieved")
        assert len(set(await trained(trainers[:2]))) == 1
        assert trainers[0].steps()[-1]["peers"] == 2
