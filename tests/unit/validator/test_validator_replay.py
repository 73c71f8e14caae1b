"""An audit pays honest work, finds false work, and believes nobody's word."""

from __future__ import annotations

import dataclasses
from collections import Counter

import msgspec
import numpy as np
import pytest
from training_round import SWARM, Posted, Swarm, Vector, identities, samples, spec

from hydra_node.collective import record, vectors
from hydra_node.training.journal import JournalEntry
from hydra_node.training.spec import parameter_count
from hydra_validator.audit.material import Material
from hydra_validator.audit.replay import TOLERANCE, Replay, Verdict, drawn, replay
from hydra_validator.audit.spool import Spool

DATA = samples()
SEED = b"\x01" * 32


def trained(**options: object) -> Swarm:
    swarm = Swarm(spec(), DATA, identities(3), **options)  # type: ignore[arg-type]  # passed through as they are
    swarm.train(8)
    return swarm


def empty(swarm: Swarm, trainers: tuple[str, ...] | None = None) -> Material:
    spool = Spool(parameter_count(swarm.job))
    return Material(SWARM, swarm.peers if trainers is None else trainers, swarm.job.steps, spool)


def add(material: Material, posted: Posted, place: int) -> list[str]:
    """Takes in a segment with its files; all that was wrong with it."""
    contents, files = material.add(posted.document), posted.files
    wrong = [f"result {step}" for step in material.add_results(contents.results, files.results)]
    refused = material.add_contributions(
        contents.contributions, files.contributions, posted.document.peer, seed=SEED, place=place
    )
    wrong += [f"contribution {step}" for step in refused]
    return [*contents.faults, *wrong]


def posted(swarm: Swarm, peers: tuple[str, ...] | None = None) -> Material:
    material = empty(swarm)
    for place, peer in enumerate(swarm.peers if peers is None else peers):
        assert add(material, swarm.segment(peer), place) == []
    return material


def audit(swarm: Swarm, material: Material, rate: float = 1.0) -> Replay:
    steps = material.chain()
    job = swarm.job.model_copy(update={"audit_rate": rate})
    return replay(job, DATA, steps, material.shown(steps), material.spool.get)


def test_honest_work_is_verified_and_every_sample_counted() -> None:
    swarm = trained()
    outcome = audit(swarm, posted(swarm))
    assert outcome.counts() == {"verified": 24}
    assert (outcome.steps, outcome.wrong_results, outcome.wrong_states, outcome.stopped) == (8, (), (), "")
    assert sum(j.samples for j in outcome.judgements.values()) == 8 * 12
    assert max(j.error for j in outcome.judgements.values()) < TOLERANCE / 10


def flip_from(first: int, cheat: str) -> object:
    def spoil(step: int, peer: str, vector: Vector) -> Vector:
        return -vector if peer == cheat and step >= first else vector

    return spoil


def test_a_flipped_sign_is_contradicted_and_nobody_else_is() -> None:
    cheat = str(identities(3)[1].peer_id)
    swarm = trained(spoil=flip_from(3, cheat))
    outcome = audit(swarm, posted(swarm))
    false = {key for key, j in outcome.judgements.items() if j.verdict is Verdict.CONTRADICTED}
    assert false == {(step, cheat) for step in range(3, 8)}
    assert outcome.wrong_results == (), "the swarm summed honestly what it was given"


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda v: v * np.float32(1.001),
        np.zeros_like,
        lambda v: np.full_like(v, np.nan),
        lambda v: v + np.float32(0.01) * np.abs(v).max(),
    ],
)
def test_small_and_senseless_lies_are_found(spoiled: object) -> None:
    cheat = str(identities(3)[2].peer_id)
    swarm = Swarm(spec(), DATA, identities(3), lambda s, p, v: spoiled(v) if (p, s) == (cheat, 0) else v)  # type: ignore[operator]  # a lambda
    swarm.train(1)
    outcome = audit(swarm, posted(swarm))
    assert outcome.judgements[0, cheat].verdict is Verdict.CONTRADICTED
    assert outcome.counts()["verified"] == 2


def test_who_does_not_post_is_unavailable_and_blocks_nobody() -> None:
    swarm = trained()
    silent = swarm.peers[0]
    outcome = audit(swarm, posted(swarm, swarm.peers[1:]))
    assert outcome.counts() == {"unavailable": 8, "verified": 16}
    assert all(j.verdict is Verdict.UNAVAILABLE for (_, who), j in outcome.judgements.items() if who == silent)


def test_an_undrawn_contribution_costs_no_computing() -> None:
    swarm = trained()
    outcome = audit(swarm, posted(swarm), rate=0.0)
    assert outcome.counts() == {"undrawn": 24}
    assert all(j.error < 0 for j in outcome.judgements.values())


def test_the_draw_follows_the_rate_and_the_seed() -> None:
    def draw(seed: bytes) -> set[int]:
        return {step for step in range(4000) if drawn(seed, step, "peer", 0.1)}

    first, second = draw(SEED), draw(b"\x02" * 32)
    assert 320 <= len(first) <= 480
    assert first != second
    assert not any(drawn(SEED, step, "peer", 0.0) for step in range(100))
    assert all(drawn(SEED, step, "peer", 1.0) for step in range(100))


def test_a_gap_in_the_records_ends_the_replay_and_a_view_change_does_not() -> None:
    swarm = Swarm(spec(), DATA, identities(3))
    swarm.train(3)
    swarm.change_view((swarm.peers[0],))
    swarm.train(3)
    swarm.change_view(())
    swarm.train(2)
    assert audit(swarm, posted(swarm)).counts() == {"verified": 3 * 3 + 3 * 2 + 2 * 3}
    assert audit(swarm, posted(swarm, (swarm.peers[0],))).steps == 3, "steps 3 to 5 are known to the others only"


def forge(entry: JournalEntry, **changes: object) -> JournalEntry:
    return msgspec.structs.replace(entry, **changes)


def refused(swarm: Swarm, entry: JournalEntry) -> list[str]:
    material = empty(swarm)
    faults = add(material, swarm.posted(swarm.peers[0], [entry]), 0)
    assert material.chain() == []
    return faults


def test_forged_entries_do_not_count() -> None:
    swarm = trained()
    entry = swarm.entries[swarm.peers[0]][0]
    true = record.decode(entry.record)
    assert refused(swarm, forge(entry, certificate=_votes_of_one(entry))) == []
    changed = record.encode(msgspec.structs.replace(true, samples=(9, 9, 9)))
    assert refused(swarm, forge(entry, record=changed)) == [], "the certificate is of another record"
    assert refused(swarm, forge(entry, result=entry.result[:-4])) == ["result 0"], "the record holds, not its result"
    assert refused(swarm, forge(entry, result=entry.contribution)) == ["result 0"]
    other = record.encode(msgspec.structs.replace(true, swarm=b"another"))
    assert "another swarm" in refused(swarm, forge(entry, record=other))[0]
    assert "not of step 1" in refused(swarm, forge(entry, step=1))[0]
    assert "no step 8" in refused(swarm, forge(entry, step=8))[0]
    assert "cannot be read" in refused(swarm, forge(entry, record=b"\xff"))[0]
    assert "cannot be read" in refused(swarm, forge(entry, certificate=b""))[0]


def test_a_false_certificate_beside_a_true_one_harms_nobody() -> None:
    swarm = trained()
    first, second = swarm.peers[:2]
    spoiled = [forge(entry, certificate=_votes_of_one(entry), result=b"") for entry in swarm.entries[first]]
    material = empty(swarm)
    assert add(material, swarm.posted(first, spoiled), 0) == [f"result {step}" for step in range(8)]
    add(material, swarm.segment(second), 1)
    assert len(material.chain()) == 8


def test_a_false_results_file_harms_nobody_when_another_is_true() -> None:
    swarm = trained()
    first, second = swarm.peers[:2]
    false = [forge(entry, result=bytes(len(entry.result))) for entry in swarm.entries[first]]
    material = empty(swarm)
    assert len(add(material, swarm.posted(first, false), 0)) == 8
    assert material.lacks(material.add(swarm.segment(second).document).results)
    add(material, swarm.segment(second), 1)
    assert not material.lacks(material.add(swarm.segment(first).document).results)
    assert audit(swarm, material).counts() == {"unavailable": 8, "verified": 16}


def test_bytes_that_are_not_the_recorded_ones_are_unavailable() -> None:
    swarm = trained()
    liar = swarm.peers[0]
    other = [forge(entry, contribution=entry.result) for entry in swarm.entries[liar][:3]]
    short = [forge(entry, contribution=entry.contribution[:-4]) for entry in swarm.entries[liar][3:4]]
    material = posted(swarm, swarm.peers[1:])
    wrong = add(material, swarm.posted(liar, [*other, *short, *swarm.entries[liar][4:]]), 2)
    assert wrong == [f"contribution {step}" for step in range(8)], "what follows a vector cut short is out of place"
    assert audit(swarm, material).counts() == {"unavailable": 8, "verified": 16}


def _votes_of_one(entry: JournalEntry) -> bytes:
    from hydra_node.collective import certificate

    proof = certificate.decode(entry.certificate)
    one = dict(list(proof.votes.items())[:1])
    forged = {peer: bytes(64) for peer in list(proof.votes)[1:]}
    return certificate.encode(msgspec.structs.replace(proof, votes={**one, **forged}))


def test_a_swarm_of_strangers_is_refused() -> None:
    swarm = trained()
    material = empty(swarm, swarm.peers[:2])
    faults = material.add(swarm.segment(swarm.peers[0]).document).faults
    assert len(faults) == 9 and "no trainers of the job" in faults[0]


def test_a_trainer_alone_cannot_outvote_the_swarm() -> None:
    swarm = trained()
    loner = Swarm(spec(), DATA, identities(1))
    loner.train(8)
    for order in ((swarm, loner), (loner, swarm)):
        material = empty(swarm)
        for place, which in enumerate(order):
            add(material, which.segment(swarm.peers[0] if which is loner else swarm.peers[1]), place)
        assert [set(step.contributors) for step in material.chain()] == [set(swarm.peers)] * 8


def test_whoever_did_not_sign_for_bytes_is_not_blamed_for_them() -> None:
    victim = str(identities(3)[1].peer_id)
    swarm = trained(unsigned=victim, spoil=flip_from(0, victim))
    outcome = audit(swarm, posted(swarm))
    assert {j.verdict for (_, who), j in outcome.judgements.items() if who == victim} == {Verdict.UNAVAILABLE}
    assert outcome.counts() == {"unavailable": 8, "verified": 16}


def test_a_result_that_is_not_the_sum_is_named() -> None:
    swarm = trained()
    material = posted(swarm)
    steps = material.chain()
    other = vectors.to_bytes(material.spool.get(steps[2].result) * np.float32(1.01))
    digest = vectors.vector_digest(vectors.from_bytes(other))
    assert material.spool.take(memoryview(other), digest)
    steps[2] = dataclasses.replace(steps[2], result=digest)
    outcome = replay(swarm.job, DATA, steps, material.shown(steps), material.spool.get)
    assert outcome.wrong_results == (2,)
    assert outcome.wrong_states == (3, 4, 5, 6, 7), "what the others recorded is not what follows from it"


def test_what_was_computed_once_is_remembered() -> None:
    swarm = trained()
    material = posted(swarm)
    steps, known = material.chain(), {}  # type: ignore[var-annotated]  # filled by replay
    first = replay(swarm.job, DATA, steps, material.shown(steps), material.spool.get, known=known)
    assert len(known) == 24
    known.update(dict.fromkeys(known, 0.5))
    second = replay(swarm.job, DATA, steps, material.shown(steps), material.spool.get, known=known)
    assert Counter(second.counts()) == Counter({"contradicted": 24}) and first.counts() == {"verified": 24}
