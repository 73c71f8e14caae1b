"""Exact integer water-filling: the shares that end soonest."""

import heapq
import math
from collections.abc import Sequence

from hydra_node.batching.estimator import CostModel
from hydra_node.errors import HydraError


class ImpossibleShares(HydraError):
    """No shares can add up to the batch under the given limits."""


def water_fill(
    total: int, models: Sequence[CostModel], caps: Sequence[int] | None = None, quantum: int = 1
) -> list[int]:
    """Shares that add up to `total` and minimise the time of the slowest worker that has any.

    Each share is a multiple of `quantum`, but that one worker also takes the rest `total % quantum`, and no
    share is above its cap. Ties go to the earlier worker, so the result depends on nothing else.

    The cost of every worker rises with its share, so handing out the quanta one at a time, each to whoever
    would then end soonest, is optimal (the exchange argument for separable min-max allocation: Ibaraki and
    Katoh, Resource Allocation Problems, 1988). The first quanta are handed out in one go, by bisecting the
    water level.
    """
    limits = [total] * len(models) if caps is None else [min(total, cap) for cap in caps]
    _check(total, models, limits, quantum)
    if total % quantum == 0:
        counts = _fill(total // quantum, models, [limit // quantum for limit in limits], quantum)
        if counts is None:
            raise _too_tight(total, limits, quantum)
        return [count * quantum for count in counts]
    best: tuple[float, list[int]] | None = None
    for holder in range(len(models)):
        shares = _with_rest(total, quantum, models, limits, holder=holder)
        if shares is None:
            continue
        slowest = _slowest(models, shares)
        if best is None or slowest < best[0]:
            best = (slowest, shares)
    if best is None:
        raise _too_tight(total, limits, quantum)
    return best[1]


def _with_rest(
    total: int, quantum: int, models: Sequence[CostModel], limits: Sequence[int], *, holder: int
) -> list[int] | None:
    """The best shares when worker `holder` takes the rest that is smaller than a quantum."""
    units, rest = divmod(total, quantum)
    if limits[holder] < rest:
        return None
    shifted = list(models)
    shifted[holder] = CostModel(models[holder].seconds(rest), models[holder].per_sample)
    room = [limit // quantum for limit in limits]
    room[holder] = (limits[holder] - rest) // quantum
    counts = _fill(units, shifted, room, quantum)
    if counts is None:
        return None
    shares = [count * quantum for count in counts]
    shares[holder] += rest
    return shares


def _fill(units: int, models: Sequence[CostModel], room: Sequence[int], quantum: int) -> list[int] | None:
    if sum(room) < units:
        return None
    counts = _below(_level(units, models, room, quantum), models, room, quantum)
    left = units - sum(counts)
    ends = [(models[i].seconds((counts[i] + 1) * quantum), i) for i in range(len(models)) if counts[i] < room[i]]
    heapq.heapify(ends)
    for _ in range(left):
        _, i = heapq.heappop(ends)
        counts[i] += 1
        if counts[i] < room[i]:
            heapq.heappush(ends, (models[i].seconds((counts[i] + 1) * quantum), i))
    return counts


def _level(units: int, models: Sequence[CostModel], room: Sequence[int], quantum: int) -> float:
    """A water level under which at most `units` fit, as high as bisection finds it."""
    low, high = 0.0, max(model.seconds(units * quantum) for model in models)
    for _ in range(60):
        middle = (low + high) / 2
        if sum(_below(middle, models, room, quantum)) <= units:
            low = middle
        else:
            high = middle
    return low


def _below(level: float, models: Sequence[CostModel], room: Sequence[int], quantum: int) -> list[int]:
    """How many quanta of each worker end before or at `level`."""
    counts = []
    for model, most in zip(models, room, strict=True):
        count = math.floor(min(float(most), max(0.0, (level - model.overhead) / (model.per_sample * quantum))))
        while count > 0 and model.seconds(count * quantum) > level:
            count -= 1
        while count < most and model.seconds((count + 1) * quantum) <= level:
            count += 1
        counts.append(count)
    return counts


def _slowest(models: Sequence[CostModel], shares: Sequence[int]) -> float:
    return max(model.seconds(share) for model, share in zip(models, shares, strict=True) if share > 0)


def _check(total: int, models: Sequence[CostModel], limits: Sequence[int], quantum: int) -> None:
    if total < 1 or quantum < 1 or not models or len(limits) != len(models):
        raise ImpossibleShares(
            f"cannot share {total} samples in quanta of {quantum} among {len(models)} workers with {len(limits)} caps",
            expected="a positive total and quantum and one cap for each worker",
        )
    for model in models:
        if not (math.isfinite(model.overhead) and model.overhead >= 0 and 0 < model.per_sample < math.inf):
            raise ImpossibleShares(
                f"{model} is not a cost", expected="a finite overhead >= 0 and a finite cost of a sample > 0"
            )


def _too_tight(total: int, limits: Sequence[int], quantum: int) -> ImpossibleShares:
    return ImpossibleShares(
        f"caps {list(limits)} in quanta of {quantum} hold less than the batch of {total}",
        remedy="raise a cap, admit another worker or make the batch smaller",
    )
