"""Swarms of real processes on real sockets, for tests."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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


@contextlib.asynccontextmanager
async def swarm_in(folder: Path) -> AsyncIterator[Swarm]:
    """A swarm to which members can be added; afterwards nobody of it is left."""
    world = Swarm(folder)
    try:
        entry = await world.start("bootstrap", steps=0)
        world.bootstrap = (await entry.until("up"))["address"]
        yield world
    finally:
        for process in world.running:
            with contextlib.suppress(ProcessLookupError):
                process.process.kill()
            await process.process.wait()


def check_alike(done: list[dict[str, Any]], steps: int = STEPS) -> None:
    """Whether all came to the end, and to the same state."""
    assert all(said["step"] == steps for said in done)
    assert len({said["digest"] for said in done}) == 1
