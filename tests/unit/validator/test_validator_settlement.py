"""Rounds, who audits them, and what they pay: the same for every honest auditor, to the wei."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.chain.events import Event
from hydra_node.chain.rewards import RewardTree
from hydra_node.storage import dag
from hydra_validator.audit.settlement import Settlement, Terms, Work, settle
from hydra_validator.audit.windows import Window, active_validators, due, funded, windows

ANN, BEN, EVE, VAL = ("0x" + letter * 40 for letter in "abef")
TERMS = Terms(chain_id=1337, job_id=7, rate_per_sample=10, audit_fee=500)


def event(name: str, time: int, contract: str = "TrainingRegistry", **args: Any) -> Event:
    return Event(contract, name, args, time, time.to_bytes(32, "big"), b"", 0, 0, time)


def post(time: int, who: str = ANN) -> Event:
    return event("RecordPosted", time, trainer=who)


def work(who: str, samples: dict[int, int], cheat: bool = False) -> Work:
    return Work(who, f"peer of {who}", samples, {}, cheat)


def settled(entries: list[Work], **changes: Any) -> Settlement:
    fields: dict[str, Any] = {
        "previous": {}, "cap": 10**9, "banned": [], "last": False, "seed": bytes(32), "covered": 4,
    }  # fmt: skip
    auditors = changes.pop("auditors", [[VAL]])
    return settle(TERMS, changes.pop("round_number", 0), entries, auditors, **{**fields, **changes})


def amounts(outcome: Settlement) -> dict[str, int]:
    return {reward.account: reward.cumulative for reward in outcome.tree.rewards}


def test_posts_are_cut_into_rounds_by_chain_time() -> None:
    found = windows([post(10), post(12), post(16), post(17), post(30)], post_seconds=6)
    assert [[p.timestamp for p in w.posts] for w in found] == [[10, 12, 16], [17], [30]]
    assert [w.cutoff for w in found] == [16, 23, 36]
    assert [w.number for w in found] == [0, 1, 2]
    assert found[1].seed == (17).to_bytes(32, "big")
    assert windows([], 6) == []


@given(st.lists(st.integers(0, 200), max_size=40), st.integers(0, 30))
def test_every_post_counts_in_exactly_one_round(times: list[int], seconds: int) -> None:
    posts = [post(time) for time in sorted(times)]
    found = windows(posts, seconds)
    assert [p for w in found for p in w.posts] == posts
    for earlier, later in itertools.pairwise(found):
        assert later.posts[0].timestamp > earlier.cutoff
        assert all(p.timestamp <= earlier.cutoff for p in earlier.posts)


def test_a_round_is_due_after_its_cutoff_and_stragglers_get_a_last_chance() -> None:
    found = windows([post(10), post(30), post(70)], post_seconds=6)

    def at(now: int, number: int, complete: bool = False) -> Window | None:
        return due(found, number, now, complete=complete, patience=20)

    assert at(16, 0) is None
    assert at(17, 0) == found[0]
    assert at(36, 1) is None and at(37, 1, complete=True) == found[1], "a straggler posted in time"
    late = at(57, 2, complete=True)
    assert late == Window(2, found[1].seed, 56, ()), "nobody did: a round without posts closes the job"
    assert at(56, 2, complete=True) is None
    assert at(77, 2) == found[2], "while steps are missing, posts always count"
    assert at(1000, 3) is None
    assert due([], 0, 5, complete=False, patience=20) is None


def test_auditors_are_those_with_active_stake_at_the_cutoff() -> None:
    def stakes(name: str, time: int, who: str, amount: int, role: int = 0) -> Event:
        return event(name, time, "StakeManager", role=role, operator=who, amount=amount)

    history = [
        stakes("Staked", 1, ANN, 10),
        stakes("Staked", 1, BEN, 10),
        stakes("Staked", 1, EVE, 10, role=1),
        stakes("WithdrawRequested", 5, ANN, 4),
        stakes("Slashed", 6, ANN, 8),
        stakes("Slashed", 7, BEN, 3),
        stakes("Staked", 9, VAL, 10),
    ]
    assert active_validators(history, 5) == [ANN, BEN]
    assert active_validators(history, 6) == [BEN]
    assert active_validators(history, 9) == [BEN, VAL]


def test_a_job_gives_out_what_it_holds() -> None:
    history = [
        event("JobOpened", 1, "JobEscrow", jobId=7, amount=100),
        event("JobOpened", 1, "JobEscrow", jobId=8, amount=1000),
        event("ToppedUp", 3, "JobEscrow", jobId=7, amount=50),
        event("Refunded", 9, "JobEscrow", jobId=7, amount=20),
    ]
    assert [funded(history, 7, time) for time in (1, 3, 9)] == [100, 150, 130]


def test_trainers_earn_by_the_sample_and_auditors_by_the_round() -> None:
    outcome = settled([work(ANN, {0: 5, 1: 7}), work(BEN, {})], auditors=[[VAL], [VAL, ANN]], round_number=1)
    assert amounts(outcome) == {ANN: 120 + 500, VAL: 1000}
    assert outcome.cheats == () and outcome.tree.total == 1620


def test_a_cheat_keeps_what_was_settled_and_earns_nothing_more() -> None:
    entries = [work(EVE, {0: 5, 1: 7, 2: 9}, cheat=True), work(ANN, {0: 1})]
    outcome = settled(entries, previous={EVE: 50})
    assert amounts(outcome) == {EVE: 50, ANN: 10, VAL: 500}
    assert outcome.cheats == (EVE,)
    banned = settled(entries, previous={EVE: 50}, banned=[EVE.upper().replace("0X", "0x")])
    assert amounts(banned)[EVE] == 50 and banned.cheats == ()


def test_an_auditor_who_cheated_as_a_trainer_earns_no_fees() -> None:
    outcome = settled([work(EVE, {0: 5}, cheat=True)], auditors=[[EVE, VAL]] * 3, previous={EVE: 7, VAL: 500})
    assert amounts(outcome) == {EVE: 7, VAL: 1500}


def test_what_does_not_reach_is_cut_in_proportion() -> None:
    outcome = settled([work(ANN, {0: 30}), work(BEN, {0: 10})], auditors=[[]], cap=200, previous={ANN: 100})
    assert amounts(outcome) == {ANN: 100 + 66, BEN: 33}
    assert outcome.tree.total <= 200


work_done = st.dictionaries(st.integers(0, 20), st.integers(1, 100), max_size=8)


@given(
    st.dictionaries(st.sampled_from([ANN, BEN, EVE]), st.tuples(work_done, st.booleans())),
    st.dictionaries(st.sampled_from([ANN, BEN, EVE, VAL]), st.integers(1, 3000)),
    st.integers(0, 20_000),
)
def test_nobody_falls_and_the_cap_holds(
    entries: dict[str, tuple[dict[int, int], bool]], previous: dict[str, int], cap: int
) -> None:
    outcome = settled([work(who, c, cheat) for who, (c, cheat) in entries.items()], previous=previous, cap=cap)
    now = amounts(outcome)
    assert all(now[who] >= amount for who, amount in previous.items())
    assert outcome.tree.total <= max(cap, sum(previous.values()))
    assert all(now.get(who, 0) == previous.get(who, 0) for who, (_, cheat) in entries.items() if cheat)


def test_the_order_of_trainers_does_not_matter_and_the_document_proves_the_root() -> None:
    entries = [work(ANN, {0: 5}), work(BEN, {1: 7}), work(EVE, {2: 1}, cheat=True)]
    first, second = settled(entries), settled(entries[::-1])
    assert first.tree.root == second.tree.root
    document = dag.decode(dag.encode(first.document))
    assert document == dag.decode(dag.encode(second.document))
    tree = RewardTree.from_document(7, document, first.tree.root)
    assert tree.total == first.tree.total


@pytest.mark.parametrize("count", [40])
def test_more_cheats_than_one_attestation_may_name_wait(count: int) -> None:
    crowd = [work(f"0x{i:040x}", {0: 1}, cheat=True) for i in range(1, count + 1)]
    assert len(settled(crowd).cheats) == 32
