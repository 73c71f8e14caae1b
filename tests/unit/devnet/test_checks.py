"""Each of the demo's promises can fail, and a missing fact fails the promise that needs it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hydra_node.devnet.checks import evaluate


def person(kind: str, adversary: str = "", cpu_limit: float = 1.0, fate: str = "") -> dict[str, Any]:
    return {"kind": kind, "adversary": adversary, "cpu_limit": cpu_limit, "fate": fate}


def trainer(**facts: Any) -> dict[str, Any]:
    base = {
        "samples": 100,
        "samples_verified": 100,
        "steps": 10,
        "restarts": 0,
        "steps_after_restart": 0,
        "shares": {"0": 40, "1": 40},
        "paid_wei": 200,
        "slashed_wei": 0,
        "banned": False,
    }
    return {**base, **facts}


def contributor(accepted: int, paid: int) -> dict[str, Any]:
    return {"items": 100, "accepted": accepted, "score": 1.0, "paid_wei": paid}


def good_report() -> dict[str, Any]:
    book = {"deposited": 10, "paid": 6, "refunded": 4, "slashed": 0, "remaining": 0, "balanced": True}
    return {
        "processes": 99,
        "cast": {
            "sponsor": person("sponsor"),
            "honest": person("contributor"),
            "noise": person("contributor", "noise"),
            "copier": person("contributor", "copies"),
            "flipper": person("contributor", "flipped-labels"),
            "va": person("validator"),
            "vc": person("validator", "copy-commitment"),
            "steady": person("trainer"),
            "slow": person("trainer", cpu_limit=0.3),
            "killed": person("trainer", fate="sigkill"),
            "cheat": person("trainer", "sign-flip"),
        },
        "chain": {"contracts": {"JobEscrow": True}},
        "contributors": {
            "honest": contributor(95, 9),
            "noise": contributor(0, 0),
            "copier": contributor(2, 1),
            "flipper": contributor(8, 1),
        },
        "scoring": {"state": "Tallied", "backing": 2, "committee_stake": 3},
        "validators": {
            "va": {"commits": 1, "reveals": 1, "paid_wei": 5, "slashed_wei": 0},
            "vc": {"commits": 1, "reveals": 0, "paid_wei": 0, "slashed_wei": 4},
        },
        "dataset": {"items": 105, "cid": "bafy"},
        "training": {"rate_per_sample_wei": 2},
        "trainers": {
            "steady": trainer(),
            "slow": trainer(shares={"0": 10, "1": 12}),
            "killed": trainer(restarts=1, steps_after_restart=4),
            "cheat": trainer(samples_verified=40, paid_wei=80, slashed_wei=9, banned=True),
        },
        "claims": {"1": {"published_wei": 6, "claimed_wei": 6}, "2": {"published_wei": 6, "claimed_wei": 6}},
        "model": {
            "test_accuracy": 0.96,
            "single_process_accuracy": 0.97,
            "steps": 10,
            "planned_steps": 10,
            "restarted_from_step_0": False,
            "final_digests": {"steady": "aa", "slow": "aa", "killed": "aa"},
        },
        "books": {"accounts": {"escrow of job 1": book, "escrow of job 2": book}, "balanced": True},
    }


def test_a_good_story_passes_every_check() -> None:
    failed = [check for check in evaluate(good_report()) if not check.passed]
    assert failed == []


BROKEN: list[tuple[tuple[str, ...], Any, str]] = [
    (("chain", "contracts", "JobEscrow"), False, "every contract"),
    (("processes",), 5, "every participant"),
    (("contributors", "honest", "accepted"), 89, "contributor honest"),
    (("contributors", "noise", "accepted"), 6, "contributor noise"),
    (("contributors", "copier", "accepted"), 6, "contributor copier"),
    (("contributors", "flipper", "accepted"), 11, "contributor flipper"),
    (("contributors", "honest", "paid_wei"), 0, "accepted contributors are paid"),
    (("scoring", "state"), "Failed", "the scoring round passed"),
    (("scoring", "backing"), 1, "the scoring round passed"),
    (("validators", "vc", "reveals"), 1, "validator vc"),
    (("validators", "vc", "slashed_wei"), 0, "validator vc"),
    (("validators", "va", "paid_wei"), 0, "honest validators"),
    (("dataset", "items"), 104, "the accepted items became"),
    (("model", "steps"), 9, "every step of the training"),
    (("model", "restarted_from_step_0"), True, "the training was never restarted"),
    (("model", "final_digests"), {"a": "x", "b": "y"}, "members ended bit-identical"),
    (("model", "final_digests"), {"a": "x"}, "members ended bit-identical"),
    (("trainers", "killed", "restarts"), 0, "trainer killed"),
    (("trainers", "killed", "steps_after_restart"), 0, "trainer killed"),
    (("trainers", "slow", "shares"), {"0": 39}, "trainer slow"),
    (("trainers", "cheat", "banned"), False, "trainer cheat"),
    (("trainers", "cheat", "slashed_wei"), 0, "trainer cheat"),
    (("trainers", "steady", "slashed_wei"), 1, "no honest trainer was accused"),
    (("trainers", "steady", "paid_wei"), 199, "every trainer's claim"),
    (("claims", "2", "claimed_wei"), 5, "everyone has claimed"),
    (("model", "test_accuracy"), 0.92, "test accuracy is at least"),
    (("model", "single_process_accuracy"), 0.999, "test accuracy is within"),
    (("books", "accounts", "escrow of job 1", "remaining"), 1, "the sponsor got the unspent rest"),
    (("books", "balanced"), False, "the books balance"),
]


@pytest.mark.parametrize(("path", "value", "named"), BROKEN, ids=[f"{'.'.join(p)}={v}" for p, v, _ in BROKEN])
def test_each_broken_promise_fails_its_check(path: tuple[str, ...], value: Any, named: str) -> None:
    report = good_report()
    place = report
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    failed = [check.name for check in evaluate(report) if not check.passed]
    assert any(name.startswith(named) for name in failed), failed


@pytest.mark.parametrize("part", ["contributors", "scoring", "validators", "dataset", "trainers", "model", "books"])
def test_a_part_of_the_story_that_is_missing_fails_a_named_check(part: str) -> None:
    report = copy.deepcopy(good_report())
    del report[part]
    failed = [check for check in evaluate(report) if not check.passed]
    assert failed
    assert all("missing" in check.detail or check.detail for check in failed)
