"""What must be true in a simulated swarm, whatever happens to it; and the made-up training that it does."""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np

from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective.errors import BadCertificate
from hydra_node.collective.log import Log
from hydra_node.collective.record import Ranges, StepRecord, View
from hydra_node.collective.schedule import Schedule
from hydra_node.collective.vectors import Vector, from_bytes, to_bytes, vector_digest, weighted_mean
from hydra_node.collective.workload import CommittedStep

BATCH = 32
SIZE = 2100
NO_SAMPLES: Ranges = ()


class ToyKeys:
    """Signatures that only the named peer's machine makes, without the cost of real ones."""

    def __init__(self, me: str) -> None:
        self._me = me

    def sign(self, message: bytes) -> bytes:
        return hashlib.sha256(self._me.encode() + b"\0" + message).digest()

    def verify(self, peer: str, message: bytes, signature: bytes) -> bool:
        return signature == hashlib.sha256(peer.encode() + b"\0" + message).digest()


class Oracle:
    """Knows what every member computed and what was committed, and what must therefore be true."""

    def __init__(self, schedule: Schedule, fail: Callable[[str], None]) -> None:
        self._schedule = schedule
        self._fail = fail
        self._work: dict[bytes, Vector] = {}
        self._done: set[tuple[str, int, int, Ranges]] = set()
        self._committed: dict[int, tuple[bytes, bytes]] = {}
        self._heads: dict[int, bytes] = {}

    def contributed(self, name: str, incarnation: int, step: int, ranges: Ranges, vector: Vector) -> None:
        """Nobody computes the same work twice."""
        key = (name, incarnation, step, ranges)
        calm = not (self._schedule.loss or self._schedule.cuts or self._schedule.pauses)
        again = any(done[:3] == key[:3] for done in self._done) if calm else key in self._done
        if again:
            self._fail(f"{name} computed its gradient of step {step} twice")
        self._done.add(key)
        self._work[vector_digest(vector)] = vector

    def committed(self, name: str, committed: CommittedStep) -> None:
        """One result a step, proven by a majority, exact, and the mean of its recorded contributor set."""
        record, result = committed.record, committed.result
        seen = self._committed.get(record.step)
        digest = records.digest(record)
        if seen is not None and seen != (digest, result):
            self._fail(f"{name} applies another result for step {record.step} than someone before it")
        view = View(record.view, record.members, record.incarnations)
        try:
            certificates.check(committed.certificate, record, view, ToyKeys(name))
        except BadCertificate as error:
            self._fail(f"{name} applies step {record.step} without a proof: {error}")
        if seen is None:
            self._committed[record.step] = (digest, result)
            self._check_result(record, result)

    def watch(self, name: str, log: Log | None) -> None:
        """All logs that hold more than a first view are prefixes of one."""
        if log is None or log.height == 1:
            return
        if self._heads.setdefault(log.height, log.head) != log.head:
            self._fail(f"{name} has another log of {log.height} entries than someone before it")

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
