"""Real processes on real sockets: whoever is killed, nobody starts again from step 0 and all end alike."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("swarm_member.py")
STEPS = 50
DEADLINE = 90.0


class Process:
    """A member in a process of its own, and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []

    async def until(self, wanted: str, step: int = 0) -> dict[str, Any]:
        """Reads on until an event of that kind (and at least that step) comes."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            while line := await self.process.stdout.readline():
                said = json.loads(line)
                self.said.append(said)
                if said["event"] == wanted and said.get("step", step) >= step:
                    return said
        raise AssertionError(f"the process ended without {wanted}: {self.said[-3:]}")

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    @property
    def steps(self) -> list[int]:
        return [said["step"] for said in self.said if said["event"] == "step"]


class Swarm:
    """Starts members; all of them are killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Process] = []
        self.bootstrap = "-"

    async def start(self, name: str, *, steps: int = STEPS, members: int = 4, seconds: float = 0.05) -> Process:
        arguments = (str(self.folder / name), self.bootstrap, str(steps), str(members), str(seconds))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.running.append(Process(process))
        return self.running[-1]


@pytest.fixture
async def swarm(tmp_path: Path) -> AsyncIterator[Swarm]:
    world = Swarm(tmp_path)
    try:
        entry = await world.start("bootstrap", steps=0)
        world.bootstrap = (await entry.until("up"))["address"]
        yield world
    finally:
        for process in world.running:
            with contextlib.suppress(ProcessLookupError):
                process.process.kill()
            await process.process.wait()


def check_alike(done: list[dict[str, Any]]) -> None:
    assert all(said["step"] == STEPS for said in done)
    assert len({said["digest"] for said in done}) == 1


async def test_four_members_end_with_the_same_state(swarm: Swarm) -> None:
    members = [await swarm.start(f"m{place}", seconds=0.0) for place in range(4)]
    check_alike(await asyncio.gather(*(member.until("done") for member in members)))
    steps = [said for member in members for said in member.said if said["event"] == "step"]
    assert not any(said["clipped"] for said in steps)


async def kill_one(swarm: Swarm, leader: bool) -> None:
    members = {}
    for place in range(4):
        member = await swarm.start(f"m{place}")
        members[(await member.until("up"))["peer"]] = (f"m{place}", member)
    seen = await next(iter(members.values()))[1].until("step", 10)
    victim = next(peer for peer in members if (peer == seen["leader"]) is leader)
    name, process = members.pop(victim)
    await process.kill()
    back = await swarm.start(name)
    survivors = [member for _, member in members.values()]
    check_alike(await asyncio.gather(*(member.until("done") for member in (*survivors, back))))
    assert all(survivor.steps == list(range(STEPS)) for survivor in survivors)


async def test_a_killed_member_comes_back_and_nobody_starts_again(swarm: Swarm) -> None:
    await kill_one(swarm, leader=False)


async def test_a_killed_leader_is_replaced_and_comes_back(swarm: Swarm) -> None:
    await kill_one(swarm, leader=True)


@pytest.mark.slow
async def test_a_stopped_leader_is_replaced_fenced_and_comes_back(swarm: Swarm) -> None:
    members = {}
    for place in range(4):
        member = await swarm.start(f"m{place}", seconds=0.2)
        members[(await member.until("up"))["peer"]] = member
    seen = await next(iter(members.values())).until("step", 5)
    stopped = members.pop(seen["leader"])
    stopped.process.send_signal(signal.SIGSTOP)
    survivors = list(members.values())
    await asyncio.gather(*(survivor.until("step", 15) for survivor in survivors))
    assert all(said["leader"] != seen["leader"] for said in survivors[0].said if said.get("step", 0) == 15)
    stopped.process.send_signal(signal.SIGCONT)
    check_alike(await asyncio.gather(*(member.until("done") for member in (*survivors, stopped))))
    assert all(survivor.steps == list(range(STEPS)) for survivor in survivors)
