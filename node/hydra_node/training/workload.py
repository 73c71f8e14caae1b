"""What the collective asks of a training: plan a step, contribute to it, apply it."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

import numpy as np

from hydra_node.batching.estimator import WINDOW
from hydra_node.batching.policy import policy
from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective.log import Entry
from hydra_node.collective.record import Ranges
from hydra_node.collective.workload import CommittedStep, Contribution
from hydra_node.errors import HydraError
from hydra_node.training import ledger as ledgers
from hydra_node.training import models
from hydra_node.training.adversary import Adversary
from hydra_node.training.compute import FlatModel, Gradient, gradient, single_threaded
from hydra_node.training.journal import Journal, JournalEntry, JournalView
from hydra_node.training.order import SampleOrder
from hydra_node.training.samples import Samples
from hydra_node.training.spec import TrainingSpec
from hydra_node.training.state import BadState, TrainState

_T = TypeVar("_T")


class OutOfStep(HydraError):
    """A step was asked for that is not the next one."""


class BadLimit(HydraError):
    """A limit of the processor that is none."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One committed step as this member saw it.

    `loss` is that of its own share, None when it had none; `shares` are the samples given to each peer and
    `contributors` those who delivered; `seconds` is the time since the step before.
    """

    step: int
    loss: float | None
    me: str
    shares: dict[str, int]
    contributors: tuple[str, ...]
    samples: int
    seconds: float
    digest: bytes


@dataclass(frozen=True, slots=True)
class Manner:
    """How a member goes about its work.

    With `cpu_limit` x it pauses after each computation, so that it is busy x of the time. `adversary` cheats: only
    for development networks.
    """

    cpu_limit: float = 1.0
    adversary: Adversary | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.cpu_limit <= 1.0:
            raise BadLimit(f"a processor limit of {self.cpu_limit}", expected="above 0, at most 1")

    def pause_after(self, busy: float) -> float:
        """Seconds to rest after `busy` seconds of work."""
        return busy * (1.0 / self.cpu_limit - 1.0)


class Observer(Protocol):
    """Is told of each committed step; must return at once."""

    def __call__(self, report: StepReport, /) -> None: ...


class TrainingWorkload:
    """A training on samples in memory, as `collective.workload.Workload`. Use it as a context: it owns a thread.

    Gradients, steps of the optimiser and writes to the journal run in that one thread, so the event loop stays free.
    """

    def __init__(
        self,
        spec: TrainingSpec,
        samples: Samples,
        me: str,
        *,
        manner: Manner | None = None,
        journal: Journal | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.spec = spec
        self.training = TrainState.start(spec)
        self.lineage: Callable[[], Sequence[Entry]] = tuple
        self._samples = samples
        self._me = me
        self._manner = manner or Manner()
        self._journal = journal
        self._observer = observer
        self._order = SampleOrder(spec.seed, len(samples))
        self._policy = policy(spec.shares)
        self._history: dict[str, deque[Telemetry]] = {}
        self._model = FlatModel(models.build(spec))
        self._digest = self.training.digest()
        self._losses: dict[int, float] = {}
        self._contributed_at = self._applied_at = time.monotonic()
        self._waited = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="training", initializer=single_threaded)

    def __enter__(self) -> Self:
        # The first gradient is many times slower than the others: telemetry shall not show it.
        self._thread.submit(self._compute, ((0, min(self.spec.global_batch, 32)),))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def plan(self, step: int, members: tuple[str, ...], telemetry: Mapping[str, Telemetry]) -> dict[str, Ranges]:
        """Cuts the next global batch by the spec's share policy and what the members reported so far."""
        self._expect(step)
        for peer, seen in telemetry.items():
            history = self._history.setdefault(peer, deque(maxlen=WINDOW))
            if not history or history[-1] != seen:
                history.append(seen)
        shares = self._policy(self.spec.global_batch, members, self._history)
        return self.training.ledger.plan(shares)

    async def contribute(self, step: int, ranges: Ranges) -> Contribution:
        """The mean gradient over `ranges`; raises BadPlan for positions that are not to be trained on now."""
        self._expect(step)
        if not self.training.ledger.offers(ranges, self.spec.global_batch):
            raise ledgers.BadPlan(
                f"step {step} gives this member {ranges[:4]}",
                expected=f"positions that wait in the queue at {self.training.ledger.cursor}",
            )
        started = time.monotonic()
        count = ledgers.length(ranges)
        computed = await self._in_thread(lambda: self._compute(ranges))
        if count:
            busy = time.monotonic() - started
            await asyncio.sleep(self._manner.pause_after(busy))
            self._losses = {step: computed.loss}
        vector = computed.vector
        if self._manner.adversary is not None:
            vector = self._manner.adversary.spoiled(step, vector)
        self._contributed_at = time.monotonic()
        return Contribution(vector, count, Telemetry(count, self._contributed_at - started, self._waited))

    async def apply(self, committed: CommittedStep) -> bytes:
        """Takes the agreed step and writes it to the journal; the digest of the state after it."""
        self._expect(committed.step)
        self._digest = await self._in_thread(lambda: self._apply(committed))
        now = time.monotonic()
        self._waited = now - self._contributed_at
        if self._observer is not None:
            self._observer(self._report(committed, now - self._applied_at))
        self._applied_at = now
        return self._digest

    async def state(self) -> tuple[int, bytes]:
        """The next step and the state before it."""
        return self.training.step, await self._in_thread(self.training.to_bytes)

    async def restore(self, step: int, state: bytes) -> bytes:
        """Goes on from a state that another member gave; raises BadState if it is not one before `step`."""
        restored = await self._in_thread(lambda: TrainState.from_bytes(self.spec, state))
        if restored.step != step:
            raise BadState(f"a state before step {restored.step}", expected=f"one before step {step}")
        self.training = restored
        self._digest = await self._in_thread(restored.digest)
        return self._digest

    def _compute(self, ranges: Ranges) -> Gradient:
        parts = [self._order.indices(start, stop) for start, stop in ranges]
        indices = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return gradient(self._model, self.training.parameters, self._samples.take(indices))

    def _apply(self, committed: CommittedStep) -> bytes:
        record, training, before = committed.record, self.training, self._digest
        ledger = training.ledger.after(record.ranges, record.contributors, self.spec.global_batch)
        training.apply(committed.vector, ledger)
        after = training.digest()
        if self._journal is not None:
            self._journal_views(self._journal)
            self._journal.append(
                JournalEntry(
                    step=record.step,
                    record=committed.record_bytes,
                    certificate=committed.certificate_bytes,
                    contribution=committed.contribution,
                    result=committed.result,
                    pre_digest=before,
                    post_digest=after,
                )
            )
        return after

    def _journal_views(self, journal: Journal) -> None:
        for entry in self.lineage():
            if entry.record.height > journal.last_view:
                record, certificate = records.encode(entry.record), certificates.encode(entry.certificate)
                journal.append_view(JournalView(entry.record.height, record, certificate))

    def _report(self, committed: CommittedStep, seconds: float) -> StepReport:
        record = committed.record
        return StepReport(
            step=record.step,
            loss=self._losses.get(record.step),
            me=self._me,
            shares={peer: ledgers.length(ranges) for peer, ranges in record.ranges.items()},
            contributors=record.contributors,
            samples=sum(record.samples),
            seconds=seconds,
            digest=self._digest,
        )

    def _expect(self, step: int) -> None:
        if step != self.training.step:
            raise OutOfStep(f"step {step} was asked for", expected=f"step {self.training.step}, the next one")

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        # Shielded: a cancelled step still ends as a whole, so that state and journal never tell different stories.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
