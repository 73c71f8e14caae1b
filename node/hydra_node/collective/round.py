"""One attempt at one All-Reduce: shards come in, are judged, summed and put together. No messages are sent here."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective import vectors
from hydra_node.collective.context import Context, Offer
from hydra_node.collective.log import Log
from hydra_node.collective.messages import Plan, Received, Report
from hydra_node.collective.record import Binding, Ranges, StepRecord, View
from hydra_node.collective.vectors import Vector
from hydra_node.collective.workload import Contribution

MAX_SIZE = 2**31

T = TypeVar("T")


class Round:
    """`shards` is what this member received as an owner, `reports` what the owners told it as the leader.

    `parts` are the owners' sums. `record` is the leader's decision, still without the digest of the result.
    """

    def __init__(self, plan: Plan, context: Context, view: View, now: float) -> None:
        self.plan = plan
        self._context = context
        self._view = view
        self.started = now
        self.shards: dict[str, tuple[Received, Vector]] = {}
        self.half_at: float | None = None
        self.reported: tuple[str, ...] = ()
        self.reports: dict[str, Report] = {}
        self.reports_half_at: float | None = None
        self.record: StepRecord | None = None
        self.decided_at = now
        self.parts: dict[str, bytes] = {}
        self.shards_sent = self.staged = False

    # the owner

    def take_shard(self, sender: str, binding: Binding, payload: bytes) -> None:
        """Keeps a sender's numbers for the chunks that this member owns; a second, different binding is a fault."""
        known = self.shards.get(sender)
        if known is not None:
            if known[0].binding.digest != binding.digest:
                fault = "it sent two different contributions"
                self.shards[sender] = (Received(known[0].binding, 0.0, fault), known[1])
            return
        numbers = vectors.from_bytes(b"")
        fault = self._fault_in_claim(sender, binding) or self._fault_in_bytes(binding, payload)
        if not fault:
            numbers = vectors.from_bytes(payload)
        norm = 0.0 if fault else vectors.squared_norm(numbers)
        if not math.isfinite(norm):
            fault = "its numbers are not finite"
        self.shards[sender] = (Received(binding, 0.0 if fault else norm, fault), numbers)

    def _fault_in_claim(self, sender: str, binding: Binding) -> str:
        """What is wrong with what the sender signed; empty if nothing is."""
        ranges = self.plan.ranges.get(sender, ())
        run = self._view.incarnation(sender)
        told = (binding.swarm, binding.step, binding.peer, binding.incarnation, binding.ranges)
        if told != (self._context.swarm, self.plan.step, sender, run, ranges):
            return "its contribution is for something else"
        if not 0 < binding.size <= MAX_SIZE or not 0 <= binding.samples <= _length(ranges):
            return "it claims more samples than it was given"
        if len(binding.chunks) != math.ceil(binding.size / vectors.chunk_length(binding.size)):
            return "its digests do not fit its size"
        if not self._context.keys.verify(sender, binding.message(), binding.signature):
            return "its signature is not valid"
        return ""

    def _fault_in_bytes(self, binding: Binding, payload: bytes) -> str:
        """Whether these are the numbers that were signed, for the chunks that this member owns."""
        start, stop = vectors.shards(binding.size, self.plan.owners).get(self._context.me, (0, 0))
        if len(payload) != (stop - start) * vectors.DTYPE.itemsize:
            return "its shard has the wrong length"
        chunk = vectors.chunk_length(binding.size)
        digests = vectors.chunk_digests(vectors.from_bytes(payload), chunk)
        signed = binding.chunks[start // chunk : start // chunk + len(digests)]
        return "" if digests == signed else "its bytes are not those that it signed"

    def note_arrival(self, expected: int, now: float) -> None:
        """Remembers when half of the contributions were there."""
        if self.half_at is None and 2 * len(self.shards) >= expected:
            self.half_at = now

    def sum_part(self, order: Sequence[str]) -> bytes | None:
        """The weighted mean over the chunks that this member owns; None if it lacks something for it."""
        record = self.record
        assert record is not None
        start, stop = vectors.shards(record.size, record.owners).get(self._context.me, (0, 0))
        if not order:
            return vectors.to_bytes(vectors.weighted_mean([_zeros(stop - start)], [0], [1.0]))
        place = {peer: index for index, peer in enumerate(record.contributors)}
        parts, samples, clips = [], [], []
        for peer in order:
            index = place[peer]
            held = self.shards.get(peer)
            if held is None or held[0].fault or held[0].binding.digest != record.contribution_digests[index]:
                return None
            parts.append(held[1])
            samples.append(record.samples[index])
            clips.append(record.clip_factors[index])
        return vectors.to_bytes(vectors.weighted_mean(parts, samples, clips))

    # everyone

    def lacking_parts(self) -> tuple[str, ...]:
        """The owners whose part is not here yet."""
        if self.record is None:
            return ()
        return tuple(owner for owner in vectors.shards(self.record.size, self.record.owners) if owner not in self.parts)

    def result(self) -> bytes | None:
        """All parts in order; None while one is missing or has the wrong length."""
        record = self.record
        if record is None or self.lacking_parts():
            return None
        layout = vectors.shards(record.size, record.owners)
        for owner, (start, stop) in layout.items():
            if len(self.parts[owner]) != (stop - start) * vectors.DTYPE.itemsize:
                del self.parts[owner]
                return None
        return b"".join(self.parts[owner] for owner in layout)

    # the leader

    def note_report(self, sender: str, report: Report, now: float) -> None:
        """Keeps what an owner said last."""
        self.reports[sender] = report
        if self.reports_half_at is None and 2 * len(self.reports) >= len(self.plan.owners):
            self.reports_half_at = now

    def decide(self, log: Log) -> StepRecord | None:
        """The step's contributor set, weights and clip factors; None if not even the vector's size is known.

        In the set is everyone whose contribution reached all owners, is finite, of the common size, alike everywhere
        and computed from the common state.
        """
        context = self._context
        arrived, rejected = self._arrived(log.view)
        state = _most_common((r.state_digest for r in self.reports.values() if r.state_digest), context.state_digest)
        for peer in list(arrived):
            told = self.reports[peer].state_digest if peer in self.reports else b""
            if told and told != state:
                rejected[peer] = "it computed from another state"
                del arrived[peer]
        size = _most_common((held[0].binding.size for held in arrived.values()), log.size)
        for peer in list(arrived):
            if arrived[peer][0].binding.size != size:
                rejected[peer] = "its contribution has another size"
                del arrived[peer]
        if size == 0:
            return None
        bindings = [held[0].binding for held in arrived.values()]
        samples = tuple(binding.samples for binding in bindings)
        norms = [math.sqrt(sum(received.squared_norm for received in held)) for held in arrived.values()]
        return StepRecord(
            swarm=context.swarm,
            height=log.height,
            view=log.view.number,
            attempt=self.plan.attempt,
            step=log.step,
            members=log.view.members,
            incarnations=log.view.incarnations,
            ranges=dict(self.plan.ranges),
            size=size,
            contributors=tuple(arrived),
            samples=samples,
            clip_factors=vectors.clip_factors(norms, samples, context.options.clip_slack),
            contribution_digests=tuple(binding.digest for binding in bindings),
            contribution_signatures=tuple(binding.signature for binding in bindings),
            rejected=rejected,
            owners=self.plan.owners,
            state_digest=state,
            previous_digest=log.head,
        )

    def _arrived(self, view: View) -> tuple[dict[str, list[Received]], dict[str, str]]:
        """What all owners hold, by sender in view order; and the refused ones with the reason."""
        tables = [{held.binding.peer: held for held in self.reports[owner].received} for owner in self.plan.owners]
        arrived: dict[str, list[Received]] = {}
        rejected: dict[str, str] = {}
        for peer in view.members:
            held = [table[peer] for table in tables if peer in table]
            faults = [received.fault for received in held if received.fault]
            if faults:
                rejected[peer] = faults[0][:200]
            elif len({received.binding.digest for received in held}) > 1:
                rejected[peer] = "it sent two different contributions"
            elif held and not math.isfinite(sum(received.squared_norm for received in held)):
                rejected[peer] = "its numbers are not finite"
            elif len(held) == len(tables):
                arrived[peer] = held
        return arrived, rejected


def make_offer(context: Context, step: int, ranges: Ranges, work: Contribution, waited: float) -> Offer:
    """Signs this member's work; `waited` are the seconds that it waited for the others in the step before."""
    vector, samples = work.vector, work.samples
    telemetry = Telemetry(work.telemetry.samples, work.telemetry.compute_seconds, waited)
    size = len(vector)
    chunks = vectors.chunk_digests(vector, vectors.chunk_length(size))
    bare = Binding(context.swarm, step, context.me, context.incarnation, ranges, samples, size, chunks)
    signature = context.keys.sign(bare.message())
    binding = Binding(context.swarm, step, context.me, context.incarnation, ranges, samples, size, chunks, signature)
    return Offer(step, ranges, binding, vector, telemetry)


def _most_common(values: Iterable[T], otherwise: T) -> T:
    """The value that appears most, `otherwise` if it is among the most frequent or there is none."""
    counts = Counter(values)
    best = max(counts.values(), default=0)
    if counts.get(otherwise, 0) == best:
        return otherwise
    return next(value for value, count in counts.items() if count == best)


def _length(ranges: Ranges) -> int:
    return sum(max(0, stop - start) for start, stop in ranges)


def _zeros(count: int) -> Vector:
    return np.zeros(count, dtype=vectors.DTYPE)
