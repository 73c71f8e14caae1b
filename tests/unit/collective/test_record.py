"""Records, certificates and the log refuse what does not follow or is not proven."""

import msgspec
import numpy as np
import pytest

from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.errors import BadCertificate, BadRecord
from hydra_node.collective.keys import IdentityKeys
from hydra_node.collective.log import Entry, Log
from hydra_node.collective.record import Record, StepRecord, View, ViewRecord
from hydra_node.collective.vectors import to_bytes, vector_digest
from hydra_node.p2p.identity import Identity

SWARM = b"swarm"
IDENTITIES = {identity.peer_id: identity for identity in (Identity.generate() for _ in range(4))}
NAMES = tuple(sorted(IDENTITIES))
KEYS = IdentityKeys(next(iter(IDENTITIES.values())))


def certify(record: Record, voters: tuple[str, ...], attempt: int = 0) -> Certificate:
    digest = records.digest(record)
    message = certificates.ballot(SWARM, record.view, record.height, attempt, digest)
    votes = {peer: IdentityKeys(IDENTITIES[peer]).sign(message) for peer in voters}
    return Certificate(digest, record.height, record.view, attempt, votes)


def first(members: tuple[str, ...] = NAMES[:3]) -> Entry:
    record = records.genesis(SWARM, members, (1,) * len(members), 0)
    return Entry(record, certify(record, members))


def new_log() -> Log:
    return Log(SWARM, KEYS, 10**6, first())


def step(log: Log, **changes: object) -> tuple[StepRecord, bytes]:
    result = np.arange(5, dtype="<f4")
    record = StepRecord(
        swarm=SWARM,
        height=log.height,
        view=log.view.number,
        attempt=0,
        step=log.step,
        members=log.view.members,
        incarnations=log.view.incarnations,
        ranges={},
        size=5,
        contributors=(),
        samples=(),
        clip_factors=(),
        contribution_digests=(),
        contribution_signatures=(),
        rejected={},
        owners=log.view.members,
        state_digest=b"",
        previous_digest=log.head,
        result_digest=vector_digest(result),
    )
    return msgspec.structs.replace(record, **changes), to_bytes(result)


def grow(log: Log) -> Entry:
    record, result = step(log)
    entry = Entry(record, certify(record, log.view.members[: log.view.majority]), result)
    log.append(entry)
    return entry


def test_a_record_survives_its_canonical_form() -> None:
    record, _ = step(new_log())
    assert records.decode(records.encode(record)) == record


def test_bytes_that_are_not_canonical_are_refused() -> None:
    record, _ = step(new_log())
    with pytest.raises(BadRecord):
        records.decode(msgspec.msgpack.encode({**msgspec.to_builtins(record), "type": "step", "more": 1}))


def test_a_majority_is_enough_and_a_minority_is_not() -> None:
    log = new_log()
    record, result = step(log)
    with pytest.raises(BadCertificate):
        log.append(Entry(record, certify(record, NAMES[:1]), result))
    log.append(Entry(record, certify(record, NAMES[:2]), result))
    assert log.step == 1


def test_votes_of_strangers_do_not_count() -> None:
    log = new_log()
    record, result = step(log)
    with pytest.raises(BadCertificate):
        log.append(Entry(record, certify(record, (NAMES[0], NAMES[3])), result))


def test_votes_of_two_attempts_do_not_add_up() -> None:
    log = new_log()
    record, result = step(log)
    mixed = certify(record, NAMES[:1], 0).votes | certify(record, NAMES[1:2], 3).votes
    with pytest.raises(BadCertificate):
        log.append(Entry(record, msgspec.structs.replace(certify(record, ()), votes=mixed), result))


def test_the_first_view_needs_all_of_its_members() -> None:
    record = first().record
    with pytest.raises(BadCertificate):
        Log(SWARM, KEYS, 10**6, Entry(record, certify(record, NAMES[:2])))


def test_a_first_view_with_forged_signatures_is_refused() -> None:
    record, proof = first().record, first().certificate
    for forged in (dict.fromkeys(proof.votes, bytes(64)), {**proof.votes, NAMES[2]: proof.votes[NAMES[1]]}):
        entry = Entry(record, msgspec.structs.replace(proof, votes=forged))
        with pytest.raises(BadCertificate):
            Log(SWARM, KEYS, 10**6, entry)
        with pytest.raises(BadCertificate):
            Log.at_border(SWARM, KEYS, 10**6, [entry])


@pytest.mark.parametrize(
    "view", [View(1, (), ()), View(1, (NAMES[0], NAMES[0]), (1, 1)), View(1, NAMES[:2], (1,)), View(2, NAMES, (1,) * 4)]
)
def test_a_first_view_that_makes_no_sense_is_refused(view: View) -> None:
    record = msgspec.structs.replace(first().record, next=view)
    with pytest.raises(BadRecord):
        Log(SWARM, KEYS, 10**6, Entry(record, certify(record, tuple(set(view.members)))))


def test_a_next_view_that_makes_no_sense_is_refused() -> None:
    log = new_log()
    for view in (View(2, (), ()), View(2, NAMES[:2], (1,)), View(2, (NAMES[0],) * 2, (1, 1))):
        change = ViewRecord(
            swarm=SWARM, height=1, view=1, attempt=0, step=0, next=view, removed={}, previous_digest=log.head
        )
        with pytest.raises(BadRecord):
            log.append(Entry(change, certify(change, NAMES[:3])))


@pytest.mark.parametrize(
    "wrong", [{"previous_digest": b"x" * 32}, {"step": 4}, {"height": 7}, {"view": 2}, {"members": NAMES}]
)
def test_what_does_not_follow_is_refused(wrong: dict[str, object]) -> None:
    log = new_log()
    record, result = step(log, **wrong)
    with pytest.raises(BadRecord):
        log.append(Entry(record, certify(record, NAMES[:3]), result))


def test_another_result_than_the_recorded_is_refused() -> None:
    log = new_log()
    record, result = step(log)
    with pytest.raises(BadRecord):
        log.append(Entry(record, certify(record, NAMES[:3]), result[:-4] + b"\0\0\0\0"))


def test_a_proof_brings_a_stranger_to_the_border() -> None:
    log = new_log()
    grow(log)
    view = View(2, NAMES, (1, 1, 1, 1))
    change = ViewRecord(
        swarm=SWARM, height=log.height, view=1, attempt=0, step=1, next=view, removed={}, previous_digest=log.head
    )
    log.append(Entry(change, certify(change, NAMES[:2])))
    record, result = step(log)
    log.append(Entry(record, certify(record, NAMES[:3]), result))
    border = log.border(2)
    assert border is not None
    proof = log.proof(border)
    other = Log.at_border(SWARM, KEYS, 10**6, proof)
    assert (other.height, other.head, other.step, other.view) == (log.height, log.head, log.step, view)
    entry = grow(log)
    other.append(entry)
    with pytest.raises(BadRecord):
        Log.at_border(SWARM, KEYS, 10**6, [proof[0], proof[2]])


def test_history_is_bounded_and_says_when_it_does_not_reach_back() -> None:
    log = Log(SWARM, KEYS, 100, first())
    for _ in range(20):
        grow(log)
    assert log.since(1, 10**6) is None
    assert [entry.record.height for entry in log.since(log.height - 2, 10**6) or ()] == [19, 20]


def test_contributions_are_vouched_for_by_their_senders() -> None:
    peer = NAMES[0]
    message = records.binding_message(SWARM, 0, peer, 1, ((0, 4),), 4, b"d" * 32)
    signature = IdentityKeys(IDENTITIES[peer]).sign(message)
    record, _ = step(
        new_log(),
        ranges={peer: ((0, 4),)},
        contributors=(peer,),
        samples=(4,),
        clip_factors=(1.0,),
        contribution_digests=(b"d" * 32,),
        contribution_signatures=(signature,),
    )
    assert records.signed_by_contributors(record) == [(peer, message, signature)]
