"""A swarm in virtual time under a seeded schedule of faults: the same members as on sockets, judged by an oracle.

    report = run(Schedule.draw(seed))      # raises Violation, whose text names the seed that repeats it

The world delivers, delays, doubles, reorders and loses messages, cuts links one way or both, partitions, pauses, kills
(between any two messages) and restarts members. The oracle sees every committed entry and every contribution.
"""

import hashlib
import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective import events as ev
from hydra_node.collective import messages as msg
from hydra_node.collective.events import Action, Event, Role
from hydra_node.collective.member import Member
from hydra_node.collective.options import Options
from hydra_node.collective.oracle import SIZE, Oracle, ToyKeys, gradient, plan
from hydra_node.collective.record import Ranges, View
from hydra_node.collective.schedule import Death, Schedule
from hydra_node.collective.vectors import Vector, from_bytes, to_bytes
from hydra_node.collective.workload import CommittedStep, Contribution

SWARM = b"simulated swarm"


class Violation(AssertionError):
    """A promise of the protocol was broken; the text names the seed."""


@dataclass(slots=True)
class Report:
    """What a run came to. `waits` tells that the newest view lost its majority for good, which members said."""

    steps: int = 0
    seconds: float = 0.0
    messages: int = 0
    views: int = 0
    waits: bool = False


@dataclass(slots=True)
class Machine:
    """One run of one peer: its member and its workload."""

    name: str
    index: int
    member: Member
    until: int
    alive: bool = True
    sent: int = 0
    step: int = 0
    parameters: Vector = field(default_factory=lambda: np.zeros(SIZE, dtype="<f4"))
    busy_until: float = 0.0
    woken_for: float = float("inf")

    def digest(self) -> bytes:
        return hashlib.sha256(self.step.to_bytes(8, "big") + to_bytes(self.parameters)).digest()


class World:
    """All machines, the network between them, and the oracle."""

    def __init__(self, schedule: Schedule, member_class: type[Member] = Member, options: Options | None = None) -> None:
        self.schedule = schedule
        gone = sum(death.back is None for death in schedule.deaths)
        # two thirds of all: so that two first views can never both have a majority
        enough = max(schedule.peers - gone, math.ceil(2 * (schedule.peers + schedule.late) / 3))
        self.options = options or Options(min_members=enough)
        self.now = 0.0
        self.machines: dict[str, Machine] = {}
        self.report = Report()
        self._member_class = member_class
        self._rng = random.Random(schedule.seed * 7919 + 1)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._runs = itertools.count(1000, 1000)
        self._oracle = Oracle(schedule, self._fail)
        self._deaths = {self._name(death.peer): death for death in schedule.deaths}
        self._names = [self._name(index) for index in range(schedule.peers + schedule.late)]
        for index in range(schedule.peers):
            self._start(index)
        for index in range(schedule.peers, schedule.peers + schedule.late):
            self._at(self._rng.uniform(0.05, 4), partial(self._start, index))

    def run(self) -> Report:
        """Until everyone alive has finished; raises Violation."""
        while self._queue:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            if self._finished():
                self._check_end()
                return self.report
            if self.now > self.schedule.limit:
                self._stuck()
                return self.report
        self._fail("nothing is left to happen")
        return self.report

    # the network

    def _transmit(self, source: Machine, action: ev.Send) -> None:
        schedule, rng = self.schedule, self._rng
        self.report.messages += 1
        source.sent += 1
        death = self._deaths.get(source.name)
        if death is not None and source.sent >= death.after:
            del self._deaths[source.name]
            self._kill(source, death)
            return
        lossy = self.now < schedule.lossy_until
        if self._is_cut(source.index, action.to) or (lossy and rng.random() < schedule.loss):
            return
        body, payload = msg.encode(action.message)
        for _ in range(2 if lossy and rng.random() < schedule.double else 1):
            delay = schedule.delay * rng.uniform(0.1, 1.5) * (10 if lossy and rng.random() < 0.02 else 1)
            self._at(delay, lambda: self._deliver(source.name, action.to, body, payload))

    def _deliver(self, source: str, target: str, body: bytes, payload: bytes) -> None:
        machine = self.machines.get(target)
        if machine is not None and machine.alive:
            self._feed(machine, ev.Received(source, msg.decode(body, payload)))

    def _is_cut(self, source: int, target: str) -> bool:
        other = self._names.index(target)
        return any(
            cut.start <= self.now < cut.stop and source in cut.sources and other in cut.targets
            for cut in self.schedule.cuts
        )

    # life and death

    def _start(self, index: int) -> None:
        name, run = self._name(index), next(self._runs)
        member = self._member_class(name, run, SWARM, ToyKeys(name), self.options, until=self.schedule.steps)
        machine = Machine(name, index, member, self.schedule.steps)
        self.machines[name] = machine
        others = tuple(peer for peer in self._names if peer != name)
        self._at(0.0, lambda: self._feed(machine, ev.Discovered(others)))

    def _kill(self, machine: Machine, death: Death) -> None:
        machine.alive = False
        if not death.silent:
            for other in self.machines.values():
                if other.alive:
                    self._at(self.schedule.delay, partial(self._feed, other, ev.PeerDown(machine.name)))
        if death.back is not None:
            self._at(death.back, lambda: self._start(machine.index))

    def _feed(self, machine: Machine, event: Event) -> None:
        if not machine.alive:
            return
        paused = [p.stop for p in self.schedule.pauses if p.peer == machine.index and p.start <= self.now < p.stop]
        if paused:
            self._at(max(paused) - self.now + 1e-6, lambda: self._feed(machine, event))
            return
        for action in machine.member.handle(event, self.now):
            if not machine.alive:
                return
            self._perform(machine, action)
        self._oracle.watch(machine.name, machine.member.log)
        wake = machine.member.wake_at
        if wake != machine.woken_for:
            machine.woken_for = wake
            self._at(max(1e-4, wake - self.now), lambda: self._tick(machine, wake))

    def _tick(self, machine: Machine, wake: float) -> None:
        if machine.woken_for == wake:
            machine.woken_for = float("inf")
            self._feed(machine, ev.Tick())

    # the workload, one thing after the other

    def _perform(self, machine: Machine, action: Action) -> None:
        match action:
            case ev.Send():
                self._transmit(machine, action)
                return
            case ev.AskContribution():
                seconds = self._rng.uniform(0.01, 0.3)
            case _:
                seconds = self._rng.uniform(0.0, 0.01)
        machine.busy_until = max(machine.busy_until, self.now) + seconds
        self._at(machine.busy_until - self.now, lambda: self._work(machine, action))

    def _work(self, machine: Machine, action: Action) -> None:
        if not machine.alive:
            return
        match action:
            case ev.AskPlan(step, members, _):
                event: Event = ev.Planned(step, plan(step, members))
            case ev.AskContribution(step, ranges):
                event = self._compute(machine, step, ranges)
            case ev.Apply(committed):
                event = self._apply(machine, committed)
            case ev.AskState():
                state = machine.step.to_bytes(8, "big") + to_bytes(machine.parameters)
                event = ev.StateTaken(machine.step, state)
            case ev.Restore(step, state):
                machine.step, machine.parameters = step, np.array(from_bytes(state[8:]))
                event = ev.Restored(step, machine.digest())
            case ev.Send():
                return
        self._feed(machine, event)

    def _compute(self, machine: Machine, step: int, ranges: Ranges) -> Event:
        if machine.step != step:
            # the swarm went on while this one was computing; a real workload would compute for nothing, too
            return ev.Tick()
        vector = gradient(machine.parameters, step, ranges)
        if machine.index in self.schedule.bad:
            vector[7] = np.nan
        samples = sum(stop - start for start, stop in ranges)
        self._oracle.contributed(machine.name, machine.member.context.incarnation, step, ranges, vector)
        contribution = Contribution(vector, samples, Telemetry(samples, 0.1))
        return ev.Contributed(step, ranges, contribution)

    def _apply(self, machine: Machine, committed: CommittedStep) -> Event:
        if committed.step != machine.step:
            self._fail(f"{machine.name} applies step {committed.step} at step {machine.step}")
        self._oracle.committed(machine.name, committed)
        machine.parameters = machine.parameters - np.float32(0.1) * committed.vector
        machine.step += 1
        return ev.Applied(committed.step, machine.digest())

    # the end

    def _finished(self) -> bool:
        pending = self.report.steps == 0 and self.now == 0
        alive = [machine for machine in self.machines.values() if machine.alive]
        return not pending and bool(alive) and all(m.step >= m.until and m.member.done for m in alive)

    def _check_end(self) -> None:
        alive = [machine for machine in self.machines.values() if machine.alive]
        if len({machine.digest() for machine in alive}) != 1:
            self._fail("survivors end with different states")
        self.report.steps = self.schedule.steps
        self._note()

    def _stuck(self) -> None:
        """Waiting is right only where the newest view has lost its majority for good, and then it must be said."""
        present = [machine for machine in self.machines.values() if machine.alive]
        if len(present) < self.options.min_members and all(m.member.role is Role.FORMING for m in present):
            self.report.waits = True
            self._note()
            return
        logs = [machine.member.log for machine in self.machines.values() if machine.alive and machine.member.log]
        newest: View | None = max((log.view for log in logs), key=lambda view: view.number, default=None)
        if newest is not None:
            living = [
                machine
                for peer in newest.members
                if (machine := self.machines.get(peer)) is not None
                and machine.alive
                and machine.member.context.incarnation == newest.incarnation(peer)
            ]
            if len(living) < newest.majority and all(m.member.role is Role.WAITING for m in living):
                self.report.waits = True
                self._note()
                return
        where = {m.name: (m.alive, m.step, m.member.role.value) for m in self.machines.values()}
        self._fail(f"no progress within {self.schedule.limit:g} s: {where}")

    def _note(self) -> None:
        self.report.seconds = self.now
        self.report.views = max((m.member.log.view.number for m in self.machines.values() if m.member.log), default=0)

    def _at(self, delay: float, action: Callable[[], Any]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._order), action))

    def _fail(self, text: str) -> None:
        raise Violation(f"seed {self.schedule.seed}, {self.now:.3f} s: {text}\n{self.schedule}")

    @staticmethod
    def _name(index: int) -> str:
        return f"peer{index:02d}"


def run(schedule: Schedule, member_class: type[Member] = Member, options: Options | None = None) -> Report:
    """Runs a schedule; raises Violation."""
    return World(schedule, member_class, options).run()
