"""The demo's promises, each a named check over the report's facts.

A fact that is missing, because a process or a contract was not there, fails the check that needs it, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

Report = Mapping[str, Any]

HONEST_ACCEPTED = 0.90
WORTHLESS_ACCEPTED = 0.05
FLIPPED_ACCEPTED = 0.10
MIN_ACCURACY = 0.93
MAX_ACCURACY_LOSS = 0.03
SLOW_SHARE = 0.6
SLOW_MACHINE = 0.5


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: what was promised, whether it held, and the figures that say so."""

    name: str
    passed: bool
    detail: str


Result = tuple[bool, str]
Promise = tuple[str, Callable[[Report], Result]]


def evaluate(report: Report) -> list[Check]:
    """Every promise of the demo, in the order of the story."""
    return [_evaluate(name, promise, report) for name, promise in promises(report)]


def promises(report: Report) -> Sequence[Promise]:
    return [
        ("every contract of the deployment has its code", _contracts),
        ("every participant is a process of its own", _processes),
        *[
            (f"contributor {name}: {_wanted(person)}", _accepted(name))
            for name, person in _people(report, "contributor")
        ],
        ("accepted contributors are paid, and nobody for rejected items only", _contributors_paid),
        ("the scoring round passed with two thirds of the committee's stake", _scoring_round),
        *[
            (f"validator {name}: a copied commitment cannot be revealed and costs stake", _copied_commitment(name))
            for name, person in _people(report, "validator")
            if person["adversary"]
        ],
        ("honest validators revealed and were paid", _validators_paid),
        ("the accepted items became a dataset version in the store", _dataset),
        ("every step of the training was committed once, from 0 to the last", _steps),
        ("the training was never restarted from step 0", _no_restart),
        ("members ended bit-identical", _identical),
        *[
            (f"trainer {name}: killed with SIGKILL, came back and worked on", _came_back(name))
            for name, person in _people(report, "trainer")
            if person["fate"]
        ],
        *[
            (f"trainer {name}: a slower machine got a smaller share", _smaller_share(name))
            for name, person in _people(report, "trainer")
            if person["cpu_limit"] < SLOW_MACHINE
        ],
        *[
            (f"trainer {name}: false gradients were caught, stake slashed, the rest unpaid", _caught(name))
            for name, person in _people(report, "trainer")
            if person["adversary"]
        ],
        ("no honest trainer was accused", _nobody_else_accused),
        ("every trainer's claim equals its verified samples times the rate", _claims_match),
        ("everyone has claimed what was published", _all_claimed),
        ("test accuracy is at least 0.93", _accuracy),
        ("test accuracy is within 3 points of the same job in one process", _accuracy_loss),
        ("the sponsor got the unspent rest back", _refunded),
        ("the books balance to the last wei", _books),
    ]


def _evaluate(name: str, promise: Callable[[Report], Result], report: Report) -> Check:
    try:
        passed, detail = promise(report)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        return Check(name, False, f"missing: {error}")
    return Check(name, bool(passed), detail)


def _people(report: Report, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, person) for name, person in report["cast"].items() if person["kind"] == kind]


def _wanted(person: Mapping[str, Any]) -> str:
    return {
        "": "at least 90 % accepted",
        "noise": "at most 5 % of noise accepted",
        "copies": "at most 5 % of copies accepted",
        "flipped-labels": "at most 10 % of flipped labels accepted",
    }[person["adversary"]]


def _contracts(report: Report) -> Result:
    missing = [name for name, present in report["chain"]["contracts"].items() if not present]
    return not missing, f"{len(report['chain']['contracts'])} contracts" if not missing else f"no code: {missing}"


def _processes(report: Report) -> Result:
    expected = len(report["cast"]) + 2
    return report["processes"] >= expected, f"{report['processes']} processes, at least {expected} expected"


def _accepted(name: str) -> Callable[[Report], Result]:
    def check(report: Report) -> Result:
        facts, adversary = report["contributors"][name], report["cast"][name]["adversary"]
        share = facts["accepted"] / facts["items"]
        detail = f"{facts['accepted']} of {facts['items']} ({share:.1%})"
        if not adversary:
            return share >= HONEST_ACCEPTED, detail
        return share <= (FLIPPED_ACCEPTED if adversary == "flipped-labels" else WORTHLESS_ACCEPTED), detail

    return check


def _contributors_paid(report: Report) -> Result:
    people = report["contributors"]
    wrong = [name for name, facts in people.items() if (facts["paid_wei"] > 0) != (facts["accepted"] > 0)]
    return bool(people) and not wrong, f"wrong: {wrong}" if wrong else f"{len(people)} contributors"


def _scoring_round(report: Report) -> Result:
    scoring = report["scoring"]
    passed = scoring["state"] == "Tallied" and scoring["backing"] * 3 >= scoring["committee_stake"] * 2
    return passed, f"state {scoring['state']}, backing {scoring['backing']} of {scoring['committee_stake']} wei"


def _copied_commitment(name: str) -> Callable[[Report], Result]:
    def check(report: Report) -> Result:
        facts = report["validators"][name]
        passed = facts["commits"] == 1 and facts["reveals"] == 0 and facts["slashed_wei"] > 0
        return passed, f"commits {facts['commits']}, reveals {facts['reveals']}, slashed {facts['slashed_wei']} wei"

    return check


def _validators_paid(report: Report) -> Result:
    honest = [name for name, person in _people(report, "validator") if not person["adversary"]]
    facts = [report["validators"][name] for name in honest]
    passed = bool(facts) and all(f["reveals"] == 1 and f["paid_wei"] > 0 and f["slashed_wei"] == 0 for f in facts)
    return passed, ", ".join(f"{name} {f['paid_wei']} wei" for name, f in zip(honest, facts, strict=True))


def _dataset(report: Report) -> Result:
    dataset, accepted = report["dataset"], sum(facts["accepted"] for facts in report["contributors"].values())
    return dataset["items"] == accepted > 0, f"{dataset['items']} items, {accepted} accepted, {dataset['cid']}"


def _steps(report: Report) -> Result:
    model = report["model"]
    return model["steps"] == model["planned_steps"] > 0, f"{model['steps']} of {model['planned_steps']} steps"


def _no_restart(report: Report) -> Result:
    model = report["model"]
    passed = model["restarted_from_step_0"] is False and model["steps"] > 0
    return passed, "one chain of step records" if passed else "no single chain of step records from step 0"


def _identical(report: Report) -> Result:
    digests = report["model"]["final_digests"]
    different = len(set(digests.values()))
    said = "ended with the same model" if different == 1 else f"ended with {different} different models"
    return len(digests) >= 2 and different == 1, f"{len(digests)} members {said}"


def _came_back(name: str) -> Callable[[Report], Result]:
    def check(report: Report) -> Result:
        facts = report["trainers"][name]
        passed = facts["restarts"] >= 1 and facts["steps_after_restart"] > 0
        return passed, f"{facts['restarts']} restarts, {facts['steps_after_restart']} steps after the last"

    return check


def _smaller_share(name: str) -> Callable[[Report], Result]:
    def check(report: Report) -> Result:
        means = {
            other: mean(facts["shares"].values()) for other, facts in report["trainers"].items() if facts["shares"]
        }
        others = mean(value for other, value in means.items() if other != name)
        return means[name] <= SLOW_SHARE * others, f"mean share {means[name]:.1f} samples, others {others:.1f}"

    return check


def _caught(name: str) -> Callable[[Report], Result]:
    def check(report: Report) -> Result:
        facts = report["trainers"][name]
        passed = facts["banned"] and facts["slashed_wei"] > 0 and facts["samples_verified"] < facts["samples"]
        detail = f"banned {facts['banned']}, slashed {facts['slashed_wei']} wei, "
        return passed, detail + f"{facts['samples_verified']} of {facts['samples']} samples paid"

    return check


def _nobody_else_accused(report: Report) -> Result:
    honest = [name for name, person in _people(report, "trainer") if not person["adversary"]]
    accused = [n for n in honest if report["trainers"][n]["banned"] or report["trainers"][n]["slashed_wei"]]
    return bool(honest) and not accused, f"accused: {accused}" if accused else f"{len(honest)} honest trainers"


def _claims_match(report: Report) -> Result:
    rate, trainers = report["training"]["rate_per_sample_wei"], report["trainers"]
    wrong = [name for name, facts in trainers.items() if facts["paid_wei"] != facts["samples_verified"] * rate]
    samples = sum(facts["samples_verified"] for facts in trainers.values())
    return samples > 0 and not wrong, f"wrong: {wrong}" if wrong else f"{samples} samples at {rate} wei"


def _all_claimed(report: Report) -> Result:
    claims = report["claims"]
    open_jobs = {job: c["published_wei"] - c["claimed_wei"] for job, c in claims.items()}
    passed = len(claims) >= 2 and not any(open_jobs.values())
    return passed, f"{sum(c['claimed_wei'] for c in claims.values())} wei claimed, open {sum(open_jobs.values())} wei"


def _accuracy(report: Report) -> Result:
    accuracy = report["model"]["test_accuracy"]
    return accuracy >= MIN_ACCURACY, f"{accuracy:.4f}"


def _accuracy_loss(report: Report) -> Result:
    model = report["model"]
    loss = model["single_process_accuracy"] - model["test_accuracy"]
    return loss <= MAX_ACCURACY_LOSS, f"{model['test_accuracy']:.4f} against {model['single_process_accuracy']:.4f}"


def _refunded(report: Report) -> Result:
    jobs = [book for name, book in report["books"]["accounts"].items() if name.startswith("escrow of job")]
    passed = len(jobs) >= 2 and all(book["remaining"] == 0 for book in jobs)
    return (
        passed,
        f"{sum(book['refunded'] for book in jobs)} wei refunded, {sum(b['remaining'] for b in jobs)} wei left",
    )


def _books(report: Report) -> Result:
    books = report["books"]
    wrong = [name for name, book in books["accounts"].items() if not book["balanced"]]
    return books["balanced"] and not wrong, f"wrong: {wrong}" if wrong else f"{len(books['accounts'])} accounts"
