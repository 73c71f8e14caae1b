"""The supervisor with real processes: what it starts, it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from hydra_node.devnet.supervisor import ParticipantFailed, Supervisor

SAYS = 'import json, sys; print(json.dumps({"event": "hello", "n": 7}), flush=True); sys.stdin.read()\n'
STUBBORN = (
    "import signal, time, json\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    'print(json.dumps({"event": "deaf"}), flush=True)\n'
    "while True: time.sleep(60)\n"
)
CHILD = (
    "import signal, time, json, os\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print(json.dumps({'event': 'child', 'pid': os.getpid()}), flush=True)\n"
    "while True: time.sleep(60)\n"
)
PARENT = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {CHILD!r}])\n"
LASTING = "import time\nprint('not json', flush=True)\ntime.sleep(600)\n"
FAILS = "import sys; sys.stderr.write('the cause of it\\n'); sys.exit(3)\n"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def test_events_are_kept_and_the_ones_before_the_question_count(tmp_path: Path) -> None:
    heard: list[str] = []
    supervisor = Supervisor(tmp_path, lambda name, event: heard.append(f"{name}:{event['event']}"))
    async with supervisor.running():
        speaker = await supervisor.start("speaker", python(SAYS))
        for _ in range(2):
            event = await speaker.wait_for(lambda e: e.get("event") == "hello", "a greeting", 30)
            assert event["n"] == 7
        assert await speaker.wait_end(30) == 0
    assert heard == ["speaker:hello"]


async def test_nothing_is_left_behind_even_if_it_ignores_the_request(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    async with supervisor.running():
        deaf = await supervisor.start("deaf", python(STUBBORN))
        await deaf.wait_for(lambda e: e.get("event") == "deaf", "its word", 30)
        assert deaf.process is not None
        pid = deaf.process.pid
        assert alive(pid)
    assert not alive(pid)


@pytest.mark.parametrize("parent_code", [PARENT, PARENT + "time.sleep(600)\n"], ids=["parent-ended", "parent-runs"])
async def test_children_of_a_participant_end_with_it(tmp_path: Path, parent_code: str) -> None:
    supervisor = Supervisor(tmp_path)
    async with supervisor.running():
        parent = await supervisor.start("parent", python(parent_code))
        child = int((await parent.wait_for(lambda e: e.get("event") == "child", "its child", 30))["pid"])
        assert alive(child)
    assert not alive(child)


async def test_a_killed_participant_starts_again_with_the_same_command(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    async with supervisor.running():
        first = await supervisor.start("lasting", python(LASTING))
        assert first.process is not None
        before = first.process.pid
        await supervisor.kill("lasting")
        again = await supervisor.restart("lasting")
        assert again.process is not None
        assert again.process.pid != before
        assert again.starts == 2


async def test_an_end_before_the_word_is_named_with_its_cause(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    async with supervisor.running():
        failing = await supervisor.start("failing", python(FAILS))
        with pytest.raises(ParticipantFailed, match=r"failing ended.*before a word.*the cause of it"):
            await failing.wait_for(lambda _e: True, "a word", 30)


async def test_a_word_that_does_not_come_in_time_is_named(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    async with supervisor.running():
        silent = await supervisor.start("silent", python(LASTING))
        with pytest.raises(ParticipantFailed, match="silent did not get to a word"):
            await silent.wait_for(lambda _e: True, "a word", 0.2)


TELLS_MEMORY = Path(f"/proc/{os.getpid()}/smaps_rollup").exists()


@pytest.mark.skipif(not TELLS_MEMORY, reason="this system does not tell proportional memory")
async def test_the_memory_of_the_processes_is_counted(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    async with supervisor.running():
        speaker = await supervisor.start("speaker", python(SAYS))
        await speaker.wait_end(30)
        assert supervisor._memory_now() > 10_000_000
