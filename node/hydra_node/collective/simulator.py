"""A swarm in virtual time under a seeded schedule of faults: the same members as on sockets, judged by an oracle.

    report = run(Schedule.draw(seed))      # raises Violation, whose text names the seed that repeats it

The world delivers, delays, doubles, reorders and loses messages, cuts links one way or both, partitions, pauses, kills
(between any two messages) and restarts members. The oracle sees every committed entry and every contribution.
"""

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective import certificate as certificates
from hydra_node.collective import events as ev
from hydra_node.collective import messages as msg
from hydra_node.collective import record as records
from hydra_node.collective.errors import BadCertificate
from hydra_node.collective.events import Action, Event, Role
from hydra_node.collective.member import Member
from hydra_node.collective.options import Options
from hydra_node.collective.record import Ranges, StepRecord, View
from hydra_node.collective.vectors import Vector, from_bytes, to_bytes, vector_digest, weighted_mean
from hydra_node.collective.workload import CommittedStep, Contribution

SWARM = b"simulated swarm"
BATCH = 32
SIZE = 2100
NO_SAMPLES: Ranges = ()


class Violation(AssertionError):
    """A promise of the protocol was broken; the text names the seed."""


class ToyKeys:
    """Signatures that only the named peer's machine makes, without the cost of real ones."""

    def __init__(self, me: str) -> None:
        self._me = me

    def sign(self, message: bytes) -> bytes:
        return hashlib.sha256(self._me.encode() + b"\0" + message).digest()

    def verify(self, peer: str, message: bytes, signature: bytes) -> bool:
        return signature == hashlib.sha256(peer.encode() + b"\0" + message).digest()


@dataclass(frozen=True, slots=True)
class Death:
    """`peer` dies after it has sent `after` messages; silently if its host went with it; back after `back` seconds."""

    peer: int
    after: int
    silent: bool
    back: float | None


@dataclass(frozen=True, slots=True)
class Pause:
    """`peer` stands still from `start` to `stop`."""

    peer: int
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Messages from one of `sources` to one of `targets` are lost from `start` to `stop`."""

    sources: frozenset[int]
    targets: frozenset[int]
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that decides a run. Times are virtual seconds; rates are probabilities a message."""

    seed: int
    peers: int
    steps: int
    delay: float = 0.005
    loss: float = 0.0
    double: float = 0.0
    lossy_until: float = 0.0
    late: int = 0
    deaths: tuple[Death, ...] = ()
    pauses: tuple[Pause, ...] = ()
    cuts: tuple[Cut, ...] = ()
    bad: tuple[int, ...] = ()
    limit: float = 300.0

    @classmethod
    def draw(cls, seed: int, largest: int = 9) -> "Schedule":
        """A schedule that leaves a majority alive and ends its faults after some seconds."""
        rng = random.Random(seed)
        peers = min(largest, rng.choice((3, 3, 4, 4, 5, 5, 6, 7, 9, 12, 16)))
        kinds = {kind for kind in ("death", "loss", "pause", "cut", "late", "bad") if rng.random() < 0.4}
        every = list(range(peers))
        deaths: list[Death] = []
        if "death" in kinds:
            for peer in rng.sample(every, rng.randint(1, (peers - 1) // 2)):
                back = rng.uniform(0.1, 10) if rng.random() < 0.5 else None
                deaths.append(Death(peer, rng.randint(1, 40 * peers), rng.random() < 0.3, back))
            if rng.random() < 0.5 and all(death.peer for death in deaths):
                deaths[0] = Death(0, deaths[0].after, deaths[0].silent, deaths[0].back)
        pauses: list[Pause] = []
        if "pause" in kinds:
            for _ in range(rng.randint(1, 2)):
                start = rng.uniform(0, 3)
                pauses.append(Pause(rng.choice((0, rng.choice(every))), start, start + rng.uniform(0.5, 12)))
        cuts: list[Cut] = []
        if "cut" in kinds:
            for _ in range(rng.randint(1, 2)):
                start = rng.uniform(0, 3)
                stop = start + rng.uniform(0.5, 12)
                if rng.random() < 0.5:
                    one, other = rng.sample(every, 2)
                    cuts.append(Cut(frozenset({one}), frozenset({other}), start, stop))
                else:
                    side = frozenset(rng.sample(every, rng.randint(1, peers - 1)))
                    rest = frozenset(every) - side
                    cuts += [Cut(side, rest, start, stop), Cut(rest, side, start, stop)]
        return cls(
            seed=seed,
            peers=peers,
            steps=rng.randint(3, 6),
            delay=rng.choice((0.001, 0.005, 0.05)),
            loss=rng.uniform(0, 0.15) if "loss" in kinds else 0.0,
            double=rng.uniform(0, 0.2) if "loss" in kinds else 0.0,
            lossy_until=rng.uniform(1, 10),
            late=rng.randint(1, 2) if "late" in kinds else 0,
            deaths=tuple(deaths),
            pauses=tuple(pauses),
            cuts=tuple(cuts),
            bad=(rng.choice(every),) if "bad" in kinds else (),
        )


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
        self.options = options or Options(min_members=schedule.peers - gone)
        self.now = 0.0
        self.machines: dict[str, Machine] = {}
        self.report = Report()
        self._member_class = member_class
        self._rng = random.Random(schedule.seed * 7919 + 1)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._runs = itertools.count(1)
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
        member = self._member_class(
            name, run, SWARM, ToyKeys(name), self.options, until=self.schedule.steps
        )
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
        self._oracle.watch(machine)
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
        self._oracle.contributed(machine, step, ranges, vector)
        contribution = Contribution(vector, samples, Telemetry(samples, 0.1))
        return ev.Contributed(step, ranges, contribution)

    def _apply(self, machine: Machine, committed: CommittedStep) -> Event:
        if committed.step != machine.step:
            self._fail(f"{machine.name} applies step {committed.step} at step {machine.step}")
        self._oracle.committed(machine, committed)
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


class Oracle:
    """Knows what every member computed and what was committed, and what must therefore be true."""

    def __init__(self, schedule: Schedule, fail: Callable[[str], None]) -> None:
        self._schedule = schedule
        self._fail = fail
        self._work: dict[bytes, Vector] = {}
        self._done: set[tuple[str, int, int, Ranges]] = set()
        self._committed: dict[int, tuple[bytes, bytes]] = {}
        self._heads: dict[int, bytes] = {}

    def contributed(self, machine: Machine, step: int, ranges: Ranges, vector: Vector) -> None:
        """Nobody computes the same work twice."""
        key = (machine.name, machine.member.context.incarnation, step, ranges)
        calm = not (self._schedule.loss or self._schedule.cuts or self._schedule.pauses)
        again = any(done[:3] == key[:3] for done in self._done) if calm else key in self._done
        if again:
            self._fail(f"{machine.name} computed its gradient of step {step} twice")
        self._done.add(key)
        self._work[vector_digest(vector)] = vector

    def committed(self, machine: Machine, committed: CommittedStep) -> None:
        """One result a step, proven by a majority, exact, and the mean of its recorded contributor set."""
        record, result = committed.record, committed.result
        seen = self._committed.get(record.step)
        digest = records.digest(record)
        if seen is not None and seen != (digest, result):
            self._fail(f"{machine.name} applies another result for step {record.step} than someone before it")
        view = View(record.view, record.members, record.incarnations)
        try:
            certificates.check(committed.certificate, record, view, ToyKeys(machine.name))
        except BadCertificate as error:
            self._fail(f"{machine.name} applies step {record.step} without a proof: {error}")
        if seen is None:
            self._committed[record.step] = (digest, result)
            self._check_result(record, result)

    def watch(self, machine: Machine) -> None:
        """All logs are prefixes of one."""
        log = machine.member.log
        if log is not None and self._heads.setdefault(log.height, log.head) != log.head:
            self._fail(f"{machine.name} has another log of {log.height} entries than someone before it")

    def _check_result(self, record: StepRecord, result: bytes) -> None:
        if any(factor != 1.0 for factor in record.clip_factors):
            self._fail(f"an honest contribution to step {record.step} was clipped")
        bad = {f"peer{index:02d}" for index in self._schedule.bad}
        if bad & set(record.contributors):
            self._fail(f"step {record.step} counts numbers that are not finite")
        vectors = [self._work[digest] for digest in record.contribution_digests]
        total = sum(record.samples)
        wide = sum(
            (v.astype(np.float64) * (n * c) for v, n, c in self._weighted(record, vectors)),
            start=np.zeros(record.size),
        )
        exact = wide / total if total else wide
        got = from_bytes(result)
        scale = float(np.abs(exact).max()) or 1.0
        if float(np.abs(got - exact).max()) > 1e-6 * scale:
            self._fail(f"the result of step {record.step} is not the weighted mean of its contributors")
        if vectors and to_bytes(weighted_mean(vectors, record.samples, record.clip_factors)) != result:
            self._fail(f"the result of step {record.step} was not added up in the order of its record")

    @staticmethod
    def _weighted(record: StepRecord, vectors: list[Vector]) -> list[tuple[Vector, int, float]]:
        return list(zip(vectors, record.samples, record.clip_factors, strict=True))


def plan(step: int, members: tuple[str, ...]) -> Mapping[str, Ranges]:
    """An equal split of the step's batch; the last member gets no samples in every third step."""
    workers = members[:-1] if step % 3 == 2 and len(members) > 1 else members
    cuts = [step * BATCH + BATCH * place // len(workers) for place in range(len(workers) + 1)]
    shares = {peer: ((cuts[i], cuts[i + 1]),) for i, peer in enumerate(workers)}
    return {peer: shares.get(peer, NO_SAMPLES) for peer in members}


def gradient(parameters: Vector, step: int, ranges: Ranges) -> Vector:
    """A vector that depends on state and samples, of magnitudes so far apart that the order of sums shows."""
    samples = sum(stop - start for start, stop in ranges)
    if not samples:
        return np.zeros(SIZE, dtype="<f4")
    rng = np.random.default_rng([step, *(edge for part in ranges for edge in part)])
    noise = rng.standard_normal(SIZE) * 10.0 ** rng.integers(-3, 4, SIZE)
    return np.asarray(noise + 0.01 * parameters, dtype="<f4")


def run(schedule: Schedule, member_class: type[Member] = Member, options: Options | None = None) -> Report:
    """Runs a schedule; raises Violation."""
    return World(schedule, member_class, options).run()
