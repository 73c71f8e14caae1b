"""Every sample is counted once, or named as skipped, whatever dies."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from hydra_node.training.ledger import BadPlan, Ledger, Retry, length, merged, without

PEERS = ("a", "b", "c", "d")
BATCH = 12

steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, BATCH), min_size=4, max_size=4).filter(any),
        st.sets(st.sampled_from(PEERS)),
        st.sets(st.sampled_from(PEERS)),
    ),
    max_size=25,
)


def cut(weights: list[int]) -> dict[str, int]:
    """Shares of the batch in proportion to the weights; the first takes what is left over."""
    shares = [BATCH * weight // sum(weights) for weight in weights]
    shares[0] += BATCH - sum(shares)
    return dict(zip(PEERS, shares, strict=True))


def positions(ranges: object) -> list[int]:
    return [p for start, stop in ranges for p in range(start, stop)]  # type: ignore[attr-defined]  # any ranges


@settings(max_examples=150, deadline=None)
@given(steps)
def test_every_position_is_counted_once_or_waits_or_is_skipped_by_name(schedule: list) -> None:
    ledger = Ledger()
    trained: list[int] = []
    for weights, absent, forgotten in schedule:
        planned = ledger.plan(cut(weights))
        assert sum(map(length, planned.values())) <= BATCH
        recorded = {peer: ranges for peer, ranges in planned.items() if peer not in forgotten}
        contributors = set(recorded) - absent
        trained += [p for peer in contributors for p in positions(recorded[peer])]
        ledger = ledger.after(recorded, contributors, BATCH)

    assert len(trained) == len(set(trained)), "a sample was trained on twice"
    assert sorted(trained) == positions(ledger.counted())
    assert sum(ledger.credited.values()) == len(trained)
    waiting = positions((r.start, r.stop) for r in ledger.retries)
    skipped = positions((s.start, s.stop) for s in ledger.skipped)
    assert sorted(trained + waiting + skipped) == list(range(ledger.cursor))
    assert all(skip.reason for skip in ledger.skipped)

    closed = ledger.closed()
    assert not closed.retries
    assert sorted(trained + positions((s.start, s.stop) for s in closed.skipped)) == list(range(closed.cursor))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, BATCH), min_size=4, max_size=4).filter(any), st.integers(1, 30))
def test_without_failures_steps_run_through_the_order(weights: list[int], count: int) -> None:
    ledger = Ledger()
    for step in range(count):
        planned = ledger.plan(cut(weights))
        assert sorted(p for ranges in planned.values() for p in positions(ranges)) == list(
            range(step * BATCH, (step + 1) * BATCH)
        )
        ledger = ledger.after(planned, set(planned), BATCH)
    assert ledger.counted() == ((0, count * BATCH),)
    assert not ledger.retries
    assert not ledger.skipped


def test_what_one_peer_missed_is_tried_once_more_by_another() -> None:
    shares = {"a": 4, "b": 4}
    ledger = Ledger()
    ledger = ledger.after(ledger.plan(shares), {"a"}, 8)
    assert ledger.retries == (Retry(4, 8, "b"),)
    planned = ledger.plan(shares)
    assert planned == {"a": ((4, 8),), "b": ((8, 12),)}
    again = ledger.after(planned, {"b"}, 8)
    assert [(skip.start, skip.stop) for skip in again.skipped] == [(4, 8)]
    assert "missed twice, the second time by a" in again.skipped[0].reason
    assert again.credited == {"a": 4, "b": 4}


def test_alone_a_peer_may_try_its_own_again() -> None:
    ledger = Ledger(cursor=8, retries=(Retry(4, 8, "a"),))
    assert ledger.plan({"a": 6}) == {"a": ((4, 10),)}


def test_a_dead_leaders_forgotten_range_waits_again() -> None:
    ledger = Ledger().after({"a": ((0, 4),), "b": ((8, 12),)}, {"a", "b"}, 12)
    assert ledger.retries == (Retry(4, 8, ""),)
    assert ledger.cursor == 12


@pytest.mark.parametrize(
    "ranges",
    [
        {"a": ((0, 4),), "b": ((3, 8),)},
        {"a": ((0, 13),)},
        {"a": ((100, 104),)},
        {"a": ((4, 4),)},
        {"a": ((-1, 2),)},
    ],
)
def test_a_plan_that_is_not_in_the_queue_is_refused(ranges: dict) -> None:
    with pytest.raises(BadPlan, match="not waiting"):
        Ledger().after(ranges, {"a"}, 12)


def test_what_was_trained_on_is_never_given_out_again() -> None:
    ledger = Ledger().after({"a": ((0, 12),)}, {"a"}, 12)
    assert not ledger.offers([(4, 8)], 12)
    assert ledger.offers([(12, 24)], 12)


def test_the_ledger_travels_as_json() -> None:
    ledger = Ledger().after({"a": ((0, 4),), "b": ((8, 12),)}, {"a"}, 12)
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger


ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@given(ranges, ranges)
def test_ranges_are_sets(left: list, right: list) -> None:
    assert positions(merged(left)) == sorted(set(positions(left)))
    assert positions(without(left, right)) == sorted(set(positions(left)) - set(positions(right)))
