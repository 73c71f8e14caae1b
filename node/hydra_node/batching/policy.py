"""The rules by which a batch is cut: pure functions of what was observed."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from hydra_node.batching.estimator import CostModel, fit
from hydra_node.batching.shares import water_fill
from hydra_node.batching.telemetry import Telemetry
from hydra_node.errors import HydraError

History = Mapping[str, Sequence[Telemetry]]
SharePolicy = Callable[[int, Sequence[str], History], dict[str, int]]

MOST_FASTER = 64.0
"""A worker's claimed speed counts up to this many times that of the median worker."""


class UnknownPolicy(HydraError):
    """A share policy of that name does not exist."""


def policy(name: str) -> SharePolicy:
    """The policy called `name`: `equal`, `throughput` or `waterfill`."""
    try:
        return _POLICIES[name]
    except KeyError:
        raise UnknownPolicy(f"no share policy is called {name!r}", expected=f"one of {', '.join(_POLICIES)}") from None


def equal(total: int, members: Sequence[str], history: History) -> dict[str, int]:
    """The same share for all; the earlier members take one more while a rest lasts."""
    share, rest = divmod(total, len(members))
    return {member: share + (place < rest) for place, member in enumerate(members)}


def throughput(total: int, members: Sequence[str], history: History) -> dict[str, int]:
    """In proportion to samples per second averaged over the history."""
    averages = [
        CostModel(0.0, _seconds_per_sample(history.get(member, ()), model))
        for member, model in zip(members, _models(members, history), strict=True)
    ]
    return _shared(total, members, averages)


def waterfill(total: int, members: Sequence[str], history: History) -> dict[str, int]:
    """All end together, as far as each member's fitted line tells."""
    return _shared(total, members, _models(members, history))


_POLICIES: dict[str, SharePolicy] = {"equal": equal, "throughput": throughput, "waterfill": waterfill}


def _shared(total: int, members: Sequence[str], models: Sequence[CostModel]) -> dict[str, int]:
    """Water-filling in which each member keeps one sample, so that its speed stays known."""
    if total <= len(members):
        return equal(total, members, {})
    first = [CostModel(model.seconds(1), model.per_sample) for model in models]
    extra = water_fill(total - len(members), first)
    return {member: 1 + share for member, share in zip(members, extra, strict=True)}


def _models(members: Sequence[str], history: History) -> list[CostModel]:
    """One line a member: who is not known yet counts as the median, and nobody as faster than is credible."""
    fitted = [fit(history.get(member, ())) for member in members]
    known = [model for model in fitted if model is not None]
    if not known:
        return [CostModel(0.0, 1.0)] * len(members)
    median = CostModel(
        statistics.median(model.overhead for model in known),
        statistics.median(model.per_sample for model in known),
    )
    fastest = median.per_sample / MOST_FASTER
    models = [median if model is None else model for model in fitted]
    return [CostModel(model.overhead, max(model.per_sample, fastest)) for model in models]


def _seconds_per_sample(history: Sequence[Telemetry], otherwise: CostModel) -> float:
    usable = [seen for seen in history if seen.usable()]
    if not usable:
        return otherwise.per_sample
    seconds = sum(seen.compute_seconds for seen in usable) / sum(seen.samples for seen in usable)
    return max(seconds, otherwise.per_sample / MOST_FASTER, 1e-9)
