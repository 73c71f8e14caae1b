"""Taking a job over when a swarm has lost its majority: bonded, in the open, and not against a living one."""

from brownie import reverts
from eth_utils import keccak
from test_relay import domain
from world import TAKEOVER_BOND, TAKEOVER_SECONDS, wait

STATEMENTS = {
    "View": ("epoch", "number", "members"),
    "Takeover": ("epoch", "number", "cancelled", "members"),
    "Objection": ("epoch", "number", "cancelled", "membersHash"),
}
KINDS = {
    "epoch": "uint64",
    "number": "uint64",
    "cancelled": "uint256",
    "members": "address[]",
    "membersHash": "bytes32",
}


def sign(world, kind, job_id, signers, **values):
    """The EIP-712 signatures of a statement; nothing where there is no signer."""
    fields = STATEMENTS[kind]
    types = {kind: [{"name": "jobId", "type": "uint256"}, *({"name": n, "type": KINDS[n]} for n in fields)]}
    content = {"jobId": job_id, **{name: values[name] for name in fields}}
    where = domain(world.arbiter, "Hydra views")
    return [bytes(key.sign_typed_data(where, types, content).signature) if key else b"" for key in signers]


def addresses(keys):
    return [key.address for key in keys]


def hash_of(members):
    return keccak(b"".join(bytes.fromhex(member[2:]).rjust(32, b"\0") for member in members))


def record(world, job_id, number, members, current, signers, epoch=0):
    signed = sign(world, "View", job_id, signers, epoch=epoch, number=number, members=addresses(members))
    return world.arbiter.recordView(
        job_id, number, addresses(members), addresses(current), signed, {"from": world.stranger}
    )


def propose(world, job_id, view, going, current, sender=None):
    members = [current[place] for place in going]
    epoch, number = view
    cancelled = world.arbiter.cancelled(job_id)
    signed = sign(
        world, "Takeover", job_id, members, epoch=epoch, number=number, cancelled=cancelled, members=addresses(members)
    )
    sender = sender or world.stranger
    return world.arbiter.proposeTakeover(job_id, addresses(current), going, signed, {"from": sender})


def object_to(world, job_id, view, current, signers):
    epoch, number = view
    values = {"epoch": epoch, "number": number, "cancelled": world.arbiter.cancelled(job_id)}
    signed = sign(world, "Objection", job_id, signers, membersHash=bytes(world.arbiter.takeover(job_id)[3]), **values)
    return world.arbiter.cancelTakeover(job_id, addresses(current), signed, {"from": world.stranger})


def test_a_minority_goes_on_when_nobody_objects(world, swarm):
    """Three of five are gone for good: the two that are left go on, and the sender has its bond back."""
    job_id, keys = swarm
    record(world, job_id, 4, keys, [], [*keys[:3], None, None])
    before = world.token.balanceOf(world.stranger)
    propose(world, job_id, (0, 4), [1, 3], keys)
    assert world.token.balanceOf(world.stranger) == before - TAKEOVER_BOND
    assert tuple(world.arbiter.newestView(job_id))[:2] == (0, 4)
    wait(TAKEOVER_SECONDS)
    left = [keys[1], keys[3]]
    assert tuple(world.arbiter.newestView(job_id)) == (1, 5, "0x" + hash_of(addresses(left)).hex())
    tx = world.arbiter.completeTakeover(job_id, {"from": world.sponsor})
    assert tx.events["TakeoverCompleted"]["epoch"] == 1
    assert world.token.balanceOf(world.stranger) == before
    # The lost majority comes back and finds its epoch over.
    with reverts(revert_pattern="WrongMembers: .*"):
        record(world, job_id, 9, keys, keys, keys)
    record(world, job_id, 6, [keys[1], keys[3], keys[0]], left, left, epoch=1)


def test_a_living_majority_objects_and_the_bond_burns(world, swarm):
    job_id, keys = swarm
    record(world, job_id, 1, keys, [], keys)
    supply = world.token.totalSupply()
    propose(world, job_id, (0, 1), [0, 1], keys)
    with reverts(revert_pattern="NoMajority: .*"):
        object_to(world, job_id, (0, 1), keys, [None, None, *keys[2:4], None])
    object_to(world, job_id, (0, 1), keys, [None, None, *keys[2:]])
    assert world.token.totalSupply() == supply - TAKEOVER_BOND
    assert world.arbiter.takeover(job_id)[1] == 0
    wait(TAKEOVER_SECONDS)
    assert tuple(world.arbiter.newestView(job_id))[:2] == (0, 1)


def test_the_swarm_has_long_moved_on(world, swarm):
    """Takers who name an old view are answered by the certificate of a newer one, made before they came."""
    job_id, keys = swarm
    propose(world, job_id, (0, 0), [0], keys)
    tx = record(world, job_id, 12, keys[1:4], [], [None, *keys[1:4], None])
    assert "TakeoverCancelled" in tx.events


def test_the_larger_takeover_wins(world, swarm):
    """A single hasty member does not keep the others from going on together."""
    job_id, keys = swarm
    before = world.token.balanceOf(world.stranger)
    propose(world, job_id, (0, 0), [4], keys)
    with reverts(revert_pattern="TakeoverPending: .*"):
        propose(world, job_id, (0, 0), [3], keys, world.sponsor)
    tx = propose(world, job_id, (0, 0), [0, 2], keys, world.sponsor)
    assert tx.events["TakeoverReplaced"]["proposer"] == world.stranger
    assert world.token.balanceOf(world.stranger) == before


def test_signatures_count_once_and_here_alone(world, swarm):
    job_id, keys = swarm
    members = addresses(keys[:2])
    signed = sign(world, "Takeover", job_id, keys[:2], epoch=0, number=0, cancelled=0, members=members)
    other = world.open_training()
    for key in keys[:2]:
        world.training.join(other, {"from": key.address})
    with reverts(revert_pattern="BadSignature: .*"):
        world.arbiter.proposeTakeover(other, [], [0, 1], signed, {"from": world.stranger})
    world.arbiter.proposeTakeover(job_id, [], [0, 1], signed, {"from": world.stranger})
    object_to(world, job_id, (0, 0), keys, keys)
    with reverts(revert_pattern="BadSignature: .*"):
        world.arbiter.proposeTakeover(job_id, [], [0, 1], signed, {"from": world.stranger})
