"""Validators audit a real job on a real chain: honest work is paid to the wei, a cheat is banned, the job is settled.

The training itself runs in this process (its exchange over sockets has tests of its own); what trainers post, and all
that validators do with it, is real.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from books_check import assert_books_are_the_contracts
from training_round import Posted, Swarm, Vector
from validator_world import HYDRA, World, digits_files, eventually, running_world

from hydra_node.campaigns.claims import claim_everything
from hydra_node.chain import actions
from hydra_node.chain.bindings.structs import TrainingTerms
from hydra_node.chain.clock import chain_time, wait_until
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind, Role, State
from hydra_node.p2p.host import Host
from hydra_node.p2p.identity import Identity
from hydra_node.storage import dataset, items, tables
from hydra_node.training import enlist
from hydra_node.training.job import load, swarm_id
from hydra_node.training.spec import TrainingSpec, make

pytestmark = pytest.mark.timeout(240)
RATE, FEE, PENALTY = HYDRA // 100, 5 * HYDRA, 60 * HYDRA
TRAINERS = ("ann", "ben", "eve")
NAMES = ("sponsor", "validator-a", "validator-b", *TRAINERS)
SCHEMA = items.Schema("u1", (8, 8), 16.0, 10)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from running_world(tmp_path)


def publish_dataset(host: Host, file: Path) -> str:
    table = tables.read_file(file)
    found = items.from_arrays(SCHEMA, table.features, table.labels)
    payload = host.ipfs.add(items.pack(SCHEMA, found))
    entry = dataset.Entry(
        payload=payload, contributor="0x" + "00" * 20, submission=1, licence_hash=bytes(32), consent_hash=bytes(32),
        accepted=tuple(range(len(found))), scores=(1,) * len(found),
    )  # fmt: skip
    return str(
        dataset.save(host.ipfs, dataset.Manifest(schema=SCHEMA, licence="CC0-1.0", rule="test", entries=(entry,)))
    )


def open_job(client: ChainClient, host: Host, spec: TrainingSpec) -> int:
    document = spec.canonical_bytes()
    job_id = actions.open_job(
        client,
        Kind.TRAINING,
        spec_hash=spec.digest(),
        spec_cid=str(host.ipfs.add(document)),
        amount=500 * HYDRA,
        exit_time=chain_time(client.rpc) + 7 * 86_400,
    )
    terms = TrainingTerms(
        rate_per_sample=RATE, min_stake=100 * HYDRA, penalty=PENALTY, audit_fee=FEE, steps=spec.steps,
        round_steps=spec.round_steps, post_seconds=5,
    )  # fmt: skip
    client.training.open_training(job_id, terms)
    return job_id


def enlisted(client: ChainClient, identity: Identity, job_id: int) -> None:
    enlist.stake_up_to(client, 120 * HYDRA)
    enlist.bind_peer(client, identity)
    enlist.join(client, identity, job_id)


def post(client: ChainClient, host: Host, posted: Posted, job_id: int) -> None:
    segment = msgspec.structs.replace(posted.document, job=str(job_id))
    assert str(host.ipfs.add(posted.files.results)) == segment.results
    assert str(host.ipfs.add(posted.files.contributions)) == segment.contributions
    document = msgspec.msgpack.encode(segment, order="deterministic")
    cid = str(host.ipfs.add(document))
    client.training.post_record(job_id, segment.first, segment.last, hashlib.sha256(document).digest(), cid)


async def test_honest_trainers_are_paid_and_the_cheat_is_banned(world: World) -> None:
    world.fund(*NAMES)
    identities = [Identity.generate() for _ in TRAINERS]
    async with Host.start(world.folder / "host") as host:
        file = digits_files(world.folder)["honest"]
        sponsor = world.client("sponsor")
        clients = [world.client(name) for name in TRAINERS]
        spec = make(
            dataset=await asyncio.to_thread(publish_dataset, host, file), shape=(8, 8), classes=10,
            model={"family": "mlp", "hidden": (8,)}, optimiser={"name": "adamw", "lr": 0.01}, global_batch=24, steps=8,
            seed=3, round_steps=4, audit_rate=1.0,
        )  # fmt: skip
        validators = [world.validator(name, str(host.address)) for name in NAMES[1:3]]
        job_id = await asyncio.to_thread(open_job, sponsor, host, spec)
        await asyncio.gather(
            *(asyncio.to_thread(enlisted, c, i, job_id) for c, i in zip(clients, identities, strict=True))
        )
        for validator in validators:
            await validator.wait_for("staked")

        cheat = str(identities[2].peer_id)
        job = await asyncio.to_thread(load, sponsor, host.ipfs, job_id)
        registry = world.deployment.address("TrainingRegistry")

        def spoil(step: int, peer: str, vector: Vector) -> Vector:
            return np.negative(vector) if peer == cheat and step >= 2 else vector

        swarm = Swarm(spec, job.samples, identities, spoil, swarm_id(world.chain.chain_id, registry, job_id))
        swarm.train(4)
        history = sponsor.history

        def settled(number: int) -> bool:
            history.refresh()
            return len(history.find("RoundSettled", jobId=job_id)) > number

        async def round_of(members: list[int], first: int, last: int) -> None:
            await asyncio.gather(
                *(
                    asyncio.to_thread(post, clients[i], host, swarm.segment(swarm.peers[i], first, last), job_id)
                    for i in members
                )
            )

        await round_of([0, 1, 2], 0, 3)
        await eventually(lambda: settled(0), "the first settlement", 90, validators[0])
        banned = history.find("TrainerBanned", jobId=job_id)
        assert [str(event.args["trainer"]) for event in banned] == [clients[2].address]
        assert sponsor.stakes.stake_of(Role.TRAINER, clients[2].address) == 60 * HYDRA
        assert not history.find("RoundSettled", jobId=job_id)[0].args["last"]

        swarm.change_view((cheat,))
        swarm.train(4)
        validators[1].kill()
        validators[1].start()
        await round_of([0], 4, 7)
        posted = await asyncio.to_thread(chain_time, sponsor.rpc)
        await wait_until(sponsor.rpc, posted + 6, 60)
        await round_of([1], 4, 7)
        await eventually(lambda: settled(1), "the settlement of all steps", 90, validators[0])
        assert not history.find("RoundSettled", jobId=job_id)[1].args["last"], "the second one could still post"
        await eventually(lambda: settled(2), "the last settlement", 90, validators[0])
        assert history.find("RoundSettled", jobId=job_id)[2].args["last"]
        assert sponsor.escrow.job(job_id).state == State.CHALLENGE

        paid = [await claim_everything(client, host.ipfs) for client in clients]
        # Eight samples a step from each of three, then twelve from each of two.
        assert paid == [{job_id: RATE * (4 * 8 + 4 * 12)}] * 2 + [{}]
        fees = [await claim_everything(world.client(name), host.ipfs) for name in NAMES[1:3]]
        assert fees == [{job_id: 3 * FEE}] * 2
        assert [validator.stop() for validator in validators] == [130, 130]
        await asyncio.to_thread(assert_books_are_the_contracts, sponsor)
