"""A swarm without sockets: workloads whose contributions are averaged in place, as the collective would."""

from collections.abc import Collection, Mapping

from hydra_node.batching.telemetry import Telemetry
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.record import StepRecord
from hydra_node.collective.vectors import to_bytes, vector_digest, weighted_mean
from hydra_node.collective.workload import CommittedStep, Contribution
from hydra_node.training.workload import TrainingWorkload


async def one_step(
    step: int,
    peers: Mapping[str, TrainingWorkload],
    telemetry: dict[str, Telemetry],
    missing: Collection[str] = (),
) -> set[bytes]:
    """Runs one step; `missing` compute nothing but apply it. Returns the digests of all states after it."""
    members = tuple(peers)
    ranges = next(iter(peers.values())).plan(step, members, telemetry)
    given = {
        peer: await workload.contribute(step, ranges[peer]) for peer, workload in peers.items() if peer not in missing
    }
    telemetry.update({peer: contribution.telemetry for peer, contribution in given.items()})
    return {await peers[peer].apply(committed(step, members, ranges, given, peer)) for peer in members}


def committed(
    step: int,
    members: tuple[str, ...],
    ranges: Mapping[str, tuple[tuple[int, int], ...]],
    given: Mapping[str, Contribution],
    me: str,
) -> CommittedStep:
    samples = tuple(contribution.samples for contribution in given.values())
    result = weighted_mean([contribution.vector for contribution in given.values()], samples, [1.0] * len(given))
    record = StepRecord(
        swarm=b"test",
        height=step + 1,
        view=1,
        attempt=0,
        step=step,
        members=members,
        incarnations=(1,) * len(members),
        ranges=dict(ranges),
        size=len(result),
        contributors=tuple(given),
        samples=samples,
        clip_factors=(1.0,) * len(given),
        contribution_digests=tuple(vector_digest(contribution.vector) for contribution in given.values()),
        contribution_signatures=(b"",) * len(given),
        rejected={},
        owners=members,
        state_digest=b"",
        previous_digest=b"",
        result_digest=vector_digest(result),
    )
    own = to_bytes(given[me].vector) if me in given else b""
    return CommittedStep(record, Certificate(b"", step + 1, 1, 0, {}), to_bytes(result), own)
