"""Runs the processes of a development network and never leaves one behind.

Each participant is a child in a session of its own; what it prints on standard output is one JSON object a
line, which the supervisor keeps as events; standard error goes to a log file. The supervisor tells nobody anything: it
only starts, watches, kills and restarts, as the owner of the machine could.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hydra_node.errors import HydraError

Event = Mapping[str, Any]
MAX_LINE_BYTES = 1 << 20
STOP_SECONDS = 8.0
_GONE_SECONDS = 1.0


class ParticipantFailed(HydraError):
    """A process of the network ended, or did not say in time what it had to say."""


@dataclass(slots=True)
class Participant:
    """One supervised process: its command, what it has said, how often it was started again."""

    name: str
    command: tuple[str, ...]
    log: Path
    env: Mapping[str, str]
    process: asyncio.subprocess.Process | None = None
    events: list[Event] = field(default_factory=list)
    starts: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _reader: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def exit_status(self) -> int | None:
        return None if self.process is None else self.process.returncode

    def last(self, kind: str) -> Event | None:
        """The newest event whose `event` is `kind`."""
        return next((event for event in reversed(self.events) if event.get("event") == kind), None)

    async def wait_for(self, wanted: Callable[[Event], bool], what: str, timeout: float) -> Event:
        """The first event, past or future, that `wanted` accepts. Raises ParticipantFailed at deadline or end."""
        seen = 0
        try:
            async with asyncio.timeout(timeout):
                while True:
                    async with self._news:
                        for event in self.events[seen:]:
                            if wanted(event):
                                return event
                        seen = len(self.events)
                        if self._reader is None or self._reader.done():
                            raise self._failed(f"ended with status {self.exit_status} before {what}")
                        await self._news.wait()
        except TimeoutError as error:
            raise self._failed(f"did not get to {what} in {timeout:.0f} s") from error

    async def wait_end(self, timeout: float) -> int:
        """Its exit status. Raises ParticipantFailed when it is still running after `timeout` seconds."""
        assert self.process is not None
        try:
            async with asyncio.timeout(timeout):
                return await self.process.wait()
        except TimeoutError as error:
            raise self._failed(f"is still running after {timeout:.0f} s") from error

    def _keep(self, event: Event) -> None:
        with self.log.with_suffix(".jsonl").open("a", encoding="utf-8") as events:
            events.write(json.dumps({"at": round(time.time(), 3), **event}) + "\n")

    def _failed(self, what: str) -> ParticipantFailed:
        tail = _tail(self.log)
        return ParticipantFailed(f"{self.name} {what}", remedy=f"see {self.log}" + (f": {tail}" if tail else ""))

    async def read(self, stream: asyncio.StreamReader, listener: Callable[[str, Event], None]) -> None:
        """Keeps every JSON line of the process as an event, and in a file, until the stream ends."""
        try:
            while line := await stream.readline():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    self._keep(event)
                    async with self._news:
                        self.events.append(event)
                        self._news.notify_all()
                    listener(self.name, event)
        finally:
            async with self._news:
                self._news.notify_all()


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")[:300]
    return ""


class Supervisor:
    """Starts participants, restarts them, ends them all when its context is left."""

    def __init__(self, log_dir: Path, listener: Callable[[str, Event], None] = lambda _name, _event: None) -> None:
        self.log_dir = log_dir
        self.participants: dict[str, Participant] = {}
        self.peak_memory = 0
        self._listener = listener

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Supervisor]:
        """Within the context processes may run; on leaving it, in any way, none is left."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        memory = asyncio.create_task(self._watch_memory())
        try:
            yield self
        finally:
            memory.cancel()
            await asyncio.gather(memory, return_exceptions=True)
            await self.stop_all()

    async def start(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> Participant:
        """Start `command` (arguments, no shell) as participant `name`."""
        participant = Participant(name, tuple(command), self.log_dir / f"{name}.log", dict(env or {}))
        self.participants[name] = participant
        await self._launch(participant)
        return participant

    async def restart(self, name: str) -> Participant:
        """Start a participant that has ended once more, with the same command line."""
        participant = self.participants[name]
        assert not participant.running
        await self._launch(participant)
        return participant

    async def kill(self, name: str, signal_number: int = signal.SIGKILL) -> None:
        """Send `signal_number` to the process group; with SIGKILL, return when the process is gone."""
        participant = self.participants[name]
        _signal_group(participant, signal_number)
        self._listener(name, {"event": f"sent {signal.Signals(signal_number).name}"})
        if signal_number == signal.SIGKILL and participant.process is not None:
            await participant.process.wait()

    async def stop(self, *names: str) -> None:
        """Ask these participants to end, together; kill those that do not within a few seconds."""
        chosen = [self.participants[name] for name in names]
        for participant in chosen:
            _signal_group(participant, signal.SIGTERM)
        await asyncio.gather(*(self._reap(participant) for participant in chosen))

    async def stop_all(self) -> None:
        await self.stop(*self.participants)

    async def _launch(self, participant: Participant) -> None:
        environment = {**os.environ, **_QUIET_MATHS, **participant.env}
        with participant.log.open("ab") as log:
            participant.process = await asyncio.create_subprocess_exec(
                *participant.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=_END_WITH_PARENT,
                limit=MAX_LINE_BYTES,
            )
        participant.starts += 1
        assert participant.process.stdout is not None
        participant._reader = asyncio.create_task(participant.read(participant.process.stdout, self._listener))

    async def _reap(self, participant: Participant) -> None:
        process = participant.process
        if process is None:
            return
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            _signal_group(participant, signal.SIGKILL)
            await process.wait()
        await asyncio.to_thread(_end_session, process.pid)
        if participant._reader is not None:
            await asyncio.gather(participant._reader, return_exceptions=True)

    async def _watch_memory(self) -> None:
        while True:
            total = await asyncio.to_thread(self._memory_now)
            self.peak_memory = max(self.peak_memory, total)
            await asyncio.sleep(2)

    def _memory_now(self) -> int:
        pids = [p.process.pid for p in self.participants.values() if p.running and p.process is not None]
        return sum(proportional_memory(pid) for pid in [os.getpid(), *pids])


# Many processes share few cores: a pool of threads in each would only make them wait for one another.
_QUIET_MATHS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


_PR_SET_PDEATHSIG = 1


def _ending_with_parent() -> Callable[[], None] | None:
    """What a child runs before its program, for the kernel to end it when the supervisor is gone, even by SIGKILL.

    Linux only: elsewhere the children of a killed supervisor go on.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) and None


_END_WITH_PARENT = _ending_with_parent()


def proportional_memory(pid: int) -> int:
    """Bytes of memory of process `pid`, shared pages divided among their users; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _signal_group(participant: Participant, signal_number: int) -> None:
    process = participant.process
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.send_signal(signal_number)
        else:
            os.killpg(process.pid, signal_number)


def _end_session(leader: int) -> None:
    """Kill what a process that has ended left behind: its children are still of its session. Blocking."""
    deadline = time.monotonic() + STOP_SECONDS
    while (left := _session(leader)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=_GONE_SECONDS)


def _session(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter() if sys.platform != "win32" else ():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
