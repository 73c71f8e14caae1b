"""Recompute what trainers contributed, from the job's specification and the committed steps alone.

Pure. The state before each step follows from the spec's seeded start and the agreed results, so an auditor trusts no
trainer's word about it. Where all contributions of a step are at hand, its result must be their weighted clipped mean,
bit by bit. Drawn contributions are compared with the gradient that this machine computes over the same samples.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hydra_node.collective import vectors
from hydra_node.training.ledger import BadPlan, Ranges, length
from hydra_node.training.order import SampleOrder
from hydra_node.training.samples import Samples
from hydra_node.training.spec import TrainingSpec

Vector = NDArray[np.float32]

TOLERANCE = 1e-4  # relative L2 distance: float32 on a CPU differs by 4e-7 across instruction sets


class Verdict(StrEnum):
    """What an audit says of one contribution. All but the last two are paid for."""

    VERIFIED = "verified"
    UNDRAWN = "undrawn"
    CONTRADICTED = "contradicted"
    UNAVAILABLE = "unavailable"


PAID = frozenset({Verdict.VERIFIED, Verdict.UNDRAWN})


@dataclass(frozen=True, slots=True)
class Step:
    """One committed step. Maps are by peer id, and `contributors` are in the order of summation."""

    step: int
    ranges: Mapping[str, Ranges]
    contributors: tuple[str, ...]
    weights: Mapping[str, int]  # samples that each contributor signed for
    clips: Mapping[str, float]
    digests: Mapping[str, bytes]  # of the contributions whose senders signed for them
    state_digest: bytes  # of the training state before the step, as recorded; may be empty
    result: bytes  # the digest of the agreed gradient


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one contribution; `error` is the relative distance where it was recomputed, else -1."""

    verdict: Verdict
    samples: int
    error: float = -1.0


@dataclass(frozen=True, slots=True)
class Replay:
    """Judgements by (step, peer), the steps replayed, and those whose result is not the sum it should be."""

    judgements: Mapping[tuple[int, str], Judgement]
    steps: int
    wrong_results: tuple[int, ...]
    wrong_states: tuple[int, ...] = ()  # steps whose recorded state is not the one replayed
    stopped: str = ""  # why the replay ended before the last given step

    def counts(self, peer: str = "") -> dict[str, int]:
        """How many contributions got each verdict, of one peer or of all."""
        found = Counter(str(j.verdict) for (_, who), j in self.judgements.items() if not peer or who == peer)
        return dict(sorted(found.items()))


def drawn(seed: bytes, step: int, peer: str, rate: float) -> bool:
    """Whether a contribution is audited: its hash with the round's seed falls below `rate`."""
    digest = hashlib.sha256(b"hydra-audit" + seed + step.to_bytes(8, "big") + peer.encode()).digest()
    return int.from_bytes(digest[:8], "big") < int(rate * 2**64)


def replay(
    spec: TrainingSpec,
    samples: Samples,
    steps: Sequence[Step],
    seeds: Mapping[tuple[int, str], bytes],
    vector: Callable[[bytes], Vector],
    *,
    known: dict[tuple[int, str, bytes], float] | None = None,
) -> Replay:
    """Judge every contribution of `steps`, which must be all steps from 0 on in order.

    `seeds` names the contributions whose bytes their senders posted, by (step, peer), with the seed of the round in
    which they did. `vector` gives those and the results by digest; all have the length of the parameters. `known`
    remembers the distances computed before, by step, peer and a digest of all that they follow from, so that a later
    round does not compute them again.
    """
    # Here, so that a validator that audits nothing never imports torch.
    from hydra_node.training import compute, models
    from hydra_node.training.state import TrainState

    known = {} if known is None else known
    compute.single_threaded()
    model = compute.FlatModel(models.build(spec))
    state = TrainState.start(spec)
    order = SampleOrder(spec.seed, len(samples))
    judgements: dict[tuple[int, str], Judgement] = {}
    wrong: list[int] = []
    astray: list[int] = []
    history = hashlib.sha256()
    for step in steps:
        if step.state_digest and step.state_digest != state.digest():
            astray.append(step.step)
        for peer in step.contributors:
            count = length(step.ranges.get(peer, ()))
            verdict, error = _without_computing(spec, step, peer, seeds.get((step.step, peer)))
            if verdict is None:
                key = (step.step, peer, _question(step, peer, history.digest()))
                if key not in known:
                    indices = [order.indices(start, stop) for start, stop in step.ranges.get(peer, ())]
                    batch = samples.take(np.concatenate([*indices, np.empty(0, np.int64)]).astype(np.int64))
                    truth = compute.gradient(model, state.parameters, batch).vector
                    known[key] = distance(vector(step.digests[peer]), truth)
                error = known[key]
                verdict = Verdict.VERIFIED if error <= TOLERANCE else Verdict.CONTRADICTED
            judgements[step.step, peer] = Judgement(verdict, count, error)
        result = vector(step.result)
        if _sum_differs(step, seeds, vector, result):
            wrong.append(step.step)
        try:
            ledger = state.ledger.after(step.ranges, step.contributors, spec.global_batch)
        except BadPlan as bad:
            return Replay(judgements, step.step, tuple(wrong), tuple(astray), str(bad))
        state.apply(result, ledger)
        history.update(step.result)
    return Replay(judgements, len(steps), tuple(wrong), tuple(astray))


def distance(contribution: Vector, truth: Vector) -> float:
    """Relative L2 distance; infinite for numbers that are not finite."""
    if not np.isfinite(contribution).all():
        return float("inf")
    difference = np.linalg.norm(contribution.astype(np.float64) - truth.astype(np.float64))
    scale = np.linalg.norm(truth.astype(np.float64))
    return float(difference / scale) if scale > 0 else float(difference)


def _without_computing(spec: TrainingSpec, step: Step, peer: str, seed: bytes | None) -> tuple[Verdict | None, float]:
    """The verdict where no gradient is needed, else None."""
    if seed is None or peer not in step.digests:
        return Verdict.UNAVAILABLE, -1.0
    # It signed for so many samples, so what cannot be right is a lie without any computing.
    if step.weights.get(peer) != length(step.ranges.get(peer, ())):
        return Verdict.CONTRADICTED, float("inf")
    if not drawn(seed, step.step, peer, spec.audit_rate):
        return Verdict.UNDRAWN, -1.0
    return None, -1.0


def _question(step: Step, peer: str, history: bytes) -> bytes:
    """A digest of what a distance follows from: the steps before, the contribution and its samples."""
    ranges = repr([tuple(map(int, each)) for each in step.ranges.get(peer, ())])
    return hashlib.sha256(history + step.digests[peer] + ranges.encode()).digest()


def _sum_differs(
    step: Step, seeds: Mapping[tuple[int, str], bytes], vector: Callable[[bytes], Vector], result: Vector
) -> bool:
    """Whether all contributions are at hand and the result is not their weighted mean after clipping."""
    if not step.contributors or any((step.step, peer) not in seeds for peer in step.contributors):
        return False
    parts = [vector(step.digests[peer]) for peer in step.contributors]
    weights = [step.weights.get(peer, 0) for peer in step.contributors]
    clips = [step.clips.get(peer, 1.0) for peer in step.contributors]
    return not np.array_equal(vectors.weighted_mean(parts, weights, clips), result)
