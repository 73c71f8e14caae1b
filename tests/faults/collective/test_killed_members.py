"""Real processes on real sockets: whoever is killed, nobody starts again from step 0 and all end alike."""

import asyncio
import signal
import statistics
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from swarm_world import STEPS, Swarm, check_alike, swarm_in


@pytest.fixture
async def swarm(tmp_path: Path) -> AsyncIterator[Swarm]:
    async with swarm_in(tmp_path) as world:
        yield world


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


async def test_nobody_stalls_or_swells_while_a_member_catches_up(swarm: Swarm) -> None:
    steps, seconds = 300, 0.02
    members = {}
    for place in range(4):
        member = await swarm.start(f"m{place}", steps=steps, seconds=seconds)
        members[(await member.until("up"))["peer"]] = (f"m{place}", member)
    seen = await next(iter(members.values()))[1].until("step", 20)
    name, victim = members.pop(next(peer for peer in members if peer != seen["leader"]))
    await victim.kill()
    survivors = [member for _, member in members.values()]
    await asyncio.gather(*(survivor.until("step", 160) for survivor in survivors))
    back = await swarm.start(name, steps=steps, seconds=seconds)
    done = await asyncio.gather(*(member.until("done") for member in (*survivors, back)))
    check_alike(done, steps)
    for survivor in survivors:
        told = [said for said in survivor.said if said["event"] == "step" and said["step"] > 160]
        # whoever is late beyond a deadline is left out
        assert all(said["contributors"] == said["members"] for said in told)
        assert {said["members"] for said in told} == {3, 4}
        milliseconds = [said["ms"] for said in told]
        assert max(milliseconds) < max(1500.0, 10 * statistics.median(milliseconds))
    assert max(said["peak_mb"] for said in done) < 160, done
