"""TrainingRegistry: who may train, what is recorded, and what 2/3 of the validators' stake settles."""

import pytest
from brownie import reverts
from merkle import Tree
from world import (
    ACTIVATION,
    CAMPAIGN,
    CHALLENGE,
    CID,
    COLLECTING,
    HYDRA,
    SETTLED,
    TRAINER,
    TRAINING,
    VALIDATOR,
    TrainingTerms,
    peer_key,
    wait,
    wait_until,
)

SIGNATURE = b"\x99" * 64
ROOT = b"\x55" * 32


@pytest.fixture
def job_id(world):
    """A running job with every trainer in it."""
    job_id = world.open_training()
    for trainer in world.trainers:
        world.join(job_id, trainer)
    return job_id


def post(world, job_id, trainer, digest=b"\x01" * 32, first=0, last=19, cid=CID):
    return world.training.postRecord(job_id, first, last, digest, cid, {"from": trainer})


def test_a_peer_is_bound_with_its_signature(world):
    wallet = world.trainers[0]
    tx = world.training.bindPeer(peer_key(wallet), SIGNATURE, {"from": wallet})
    assert tx.events["PeerBound"]["signature"] == "0x" + SIGNATURE.hex()
    assert world.training.peerOf(wallet) == "0x" + peer_key(wallet).hex()
    assert world.training.walletOf(peer_key(wallet)) == wallet


@pytest.mark.parametrize("key, signature", [(bytes(32), SIGNATURE), (ROOT, SIGNATURE[1:]), (ROOT, SIGNATURE + b"\x00")])
def test_malformed_bindings_are_refused(world, key, signature):
    with reverts(revert_pattern="BadPeerBinding: .*"):
        world.training.bindPeer(key, signature, {"from": world.trainers[0]})


def test_a_squatter_cannot_keep_the_owner_of_a_key_out(world):
    job_id = world.open_training()
    owner = world.trainers[0]
    world.training.bindPeer(peer_key(owner), SIGNATURE, {"from": world.stranger})
    world.join(job_id, owner)
    assert world.training.trainerPeer(job_id, owner) == "0x" + peer_key(owner).hex()


def test_opening_fixes_the_terms(world):
    job_id = world.open_training()
    assert world.training.terms(job_id) == TrainingTerms().wire()
    assert world.escrow.job(job_id)[2] == COLLECTING
    with reverts(f"NotOpenTraining: {job_id}"):
        world.training.openTraining(job_id, TrainingTerms(rate_per_sample=0).wire(), {"from": world.sponsor})


@pytest.mark.parametrize("terms", [{"steps": 0}, {"round_steps": 0}, {"penalty": 51 * HYDRA}])
def test_impossible_terms_are_refused(world, terms):
    with reverts("BadTerms: "):
        world.open_training(**terms)


def test_only_the_sponsor_opens_a_training_job(world):
    job_id = world.open_job(TRAINING)
    with reverts(revert_pattern="NotSponsor: .*"):
        world.training.openTraining(job_id, TrainingTerms().wire(), {"from": world.stranger})
    campaign = world.open_job(CAMPAIGN)
    with reverts(f"NotOpenTraining: {campaign}"):
        world.training.openTraining(campaign, TrainingTerms().wire(), {"from": world.sponsor})


def test_joining_needs_a_peer_stake_and_a_running_job(world):
    trainer = world.trainers[0]
    with reverts("NotRunning: 1"):
        world.training.join(1, {"from": trainer})
    job_id = world.open_training()
    with reverts(f"NoPeerBound: {trainer.address.lower()}"):
        world.training.join(job_id, {"from": trainer})
    world.join(job_id, trainer)
    assert world.stakes.lockedUntil(TRAINER, trainer) == world.escrow.job(job_id)[3]
    with reverts(revert_pattern="AlreadyJoined: .*"):
        world.training.join(job_id, {"from": trainer})
    with reverts(f"StakeTooSmall: {world.stranger.address.lower()}, 0, {50 * HYDRA}"):
        world.join(job_id, world.stranger)


def test_a_later_binding_does_not_change_who_joined(world, job_id):
    trainer = world.trainers[0]
    world.training.bindPeer(b"\x02" * 32, SIGNATURE, {"from": trainer})
    assert world.training.trainerPeer(job_id, trainer) == "0x" + peer_key(trainer).hex()


def test_records_are_posted_once(world, job_id):
    one, two, _ = world.trainers
    tx = post(world, job_id, one)
    assert (tx.events["RecordPosted"]["firstStep"], tx.events["RecordPosted"]["lastStep"]) == (0, 19)
    with reverts(revert_pattern="DuplicateRecord: .*"):
        post(world, job_id, one, first=20, last=39)
    post(world, job_id, two)  # a copy shuts nobody out


@pytest.mark.parametrize(
    "change, error",
    [
        ({"first": 20, "last": 19}, "BadSteps: 20, 19, 100"),
        ({"last": 100}, "BadSteps: 0, 100, 100"),
        ({"cid": ""}, "BadCidLength: 0, 96"),
    ],
)
def test_malformed_records_are_refused(world, job_id, change, error):
    with reverts(error):
        post(world, job_id, world.trainers[0], **change)


def test_only_trainers_post(world, job_id):
    with reverts(f"NotTrainer: {job_id}, {world.stranger.address.lower()}"):
        post(world, job_id, world.stranger)


def test_attestations_refused(world, job_id):
    validator = world.validators[0]
    with reverts(f"NotValidator: {world.stranger.address.lower()}"):
        world.attest(world.stranger, job_id, 0, ROOT, HYDRA)
    with reverts(f"WrongRound: {job_id}, 1, 0"):
        world.attest(validator, job_id, 1, ROOT, HYDRA)
    with reverts("TooManyCheats: 33, 32"):
        world.attest(validator, job_id, 0, ROOT, HYDRA, cheats=[world.stranger] * 33)
    with reverts(f"NotRunning: {job_id + 1}"):
        world.attest(validator, job_id + 1, 0, ROOT, HYDRA)


def test_two_thirds_settle_and_less_does_not(world, job_id):
    one, two, three = world.validators
    world.attest(one, job_id, 0, ROOT, 10 * HYDRA)
    world.attest(two, job_id, 0, ROOT, 11 * HYDRA)
    assert world.training.settledRounds(job_id) == 0
    tx = world.attest(two, job_id, 0, ROOT, 10 * HYDRA)  # the later one replaces the earlier
    assert dict(tx.events["RoundSettled"]) == {
        "jobId": job_id,
        "round": 0,
        "root": "0x" + ROOT.hex(),
        "total": 10 * HYDRA,
        "last": False,
        "evidenceCid": CID,
    }
    assert world.training.settledRounds(job_id) == 1
    assert world.escrow.job(job_id)[6] == 10 * HYDRA
    with reverts(f"WrongRound: {job_id}, 0, 1"):
        world.attest(three, job_id, 0, ROOT, 10 * HYDRA)


def test_attesting_twice_counts_once(world, job_id):
    one = world.validators[0]
    world.attest(one, job_id, 0, ROOT, 10 * HYDRA)
    world.attest(one, job_id, 0, ROOT, 10 * HYDRA)
    assert world.training.settledRounds(job_id) == 0


@pytest.mark.parametrize("change", [{"last": True}, {"cheats": ["trainer"]}])
def test_everything_attested_must_agree(world, job_id, change):
    if "cheats" in change:
        change = {"cheats": [world.trainers[0]]}
    world.attest(world.validators[0], job_id, 0, ROOT, 10 * HYDRA)
    world.attest(world.validators[1], job_id, 0, ROOT, 10 * HYDRA, **change)
    assert world.training.settledRounds(job_id) == 0


def test_rounds_reserve_only_what_they_add(world, job_id):
    for round_, total in enumerate((10 * HYDRA, 10 * HYDRA, 25 * HYDRA)):
        for validator in world.validators[:2]:
            world.attest(validator, job_id, round_, ROOT, total)
        assert world.escrow.job(job_id)[6] == total


def test_a_round_never_promises_more_than_the_job_holds(world, job_id):
    world.attest(world.validators[0], job_id, 0, ROOT, 1_001 * HYDRA)
    with reverts(revert_pattern="InsufficientAvailable: .*"):
        world.attest(world.validators[1], job_id, 0, ROOT, 1_001 * HYDRA)


def test_wrong_names_among_the_cheats_block_nothing(world, job_id):
    cheat = world.trainers[0]
    for round_ in (0, 1):
        for validator in world.validators[:2]:
            world.attest(validator, job_id, round_, ROOT, HYDRA, cheats=[cheat, world.stranger, cheat])
    assert world.training.settledRounds(job_id) == 2
    assert world.stakes.stakeOf(TRAINER, cheat) == 70 * HYDRA  # once


def test_the_last_round_ends_the_job(world, job_id):
    tree = Tree(job_id, {world.trainers[0]: 10 * HYDRA})
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, tree.root, tree.total, last=True)
    assert world.escrow.job(job_id)[2] == CHALLENGE
    with reverts(revert_pattern="Disputable: .*"):
        world.training.finish(job_id)
    wait(ACTIVATION)
    world.training.finish(job_id, {"from": world.stranger})
    assert world.escrow.job(job_id)[2] == SETTLED
    world.escrow.refund(job_id, {"from": world.stranger})
    job = world.escrow.job(job_id)
    assert (job[6], job[8]) == (10 * HYDRA, 990 * HYDRA)
    with reverts(f"NotRunning: {job_id}"):
        world.attest(world.validators[2], job_id, 1, tree.root, tree.total)
    with reverts(f"NotRunning: {job_id}"):
        post(world, job_id, world.trainers[0])


def test_stake_that_left_backs_nothing(world, job_id):
    """Attest, leave, and let the smaller total help: the leaver's stake no longer counts."""
    one, two, three = world.validators
    world.attest(one, job_id, 0, ROOT, HYDRA)
    world.stakes.requestWithdraw(VALIDATOR, 100 * HYDRA, {"from": one})
    world.attest(two, job_id, 0, ROOT, HYDRA)
    assert world.training.settledRounds(job_id) == 0
    world.attest(three, job_id, 0, ROOT, HYDRA)
    assert world.training.settledRounds(job_id) == 1


def test_after_the_exit_time_the_sponsor_may_leave(world, job_id):
    for validator in world.validators[:2]:
        world.attest(validator, job_id, 0, ROOT, 10 * HYDRA)
    wait_until(world.escrow.job(job_id)[3])
    world.escrow.refund(job_id, {"from": world.stranger})
    job = world.escrow.job(job_id)
    assert (job[6], job[8]) == (10 * HYDRA, 990 * HYDRA)  # settled rewards stay
    with reverts(f"NotRunning: {job_id}"):
        world.attest(world.validators[0], job_id, 1, ROOT, 11 * HYDRA)
