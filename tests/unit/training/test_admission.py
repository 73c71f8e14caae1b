"""Only peers whose key and wallet vouch for each other are admitted."""

from typing import Any

import pytest

from hydra_node.chain.events import Event
from hydra_node.p2p.identity import Identity
from hydra_node.training.admission import Roster, binding_holds, roster, sign_binding

CHAIN, REGISTRY = 1337, "0x" + "aB" * 20
ALICE, MALLORY = "0x" + "A1" * 20, "0x" + "E7" * 20


@pytest.fixture
def peer() -> Identity:
    return Identity.generate()


def event(name: str, **args: Any) -> Event:
    return Event("TrainingRegistry", name, args, 1, bytes(32), bytes(32), 0, 0, 0)


def bound(identity: Identity, wallet: str, signature: bytes | None = None) -> Event:
    signature = sign_binding(identity, CHAIN, REGISTRY, wallet) if signature is None else signature
    return event("PeerBound", wallet=wallet, peerKey=identity.public_key, signature=signature)


def joined(identity: Identity, wallet: str, job: int = 7) -> Event:
    return event("TrainerJoined", jobId=job, trainer=wallet, peerKey=identity.public_key)


def read(*events: Event) -> Roster:
    return roster(events, 7, CHAIN, REGISTRY)


def test_a_bound_peer_that_joined_is_a_trainer(peer: Identity) -> None:
    assert read(bound(peer, ALICE), joined(peer, ALICE)) == Roster({peer.peer_id: ALICE}, {})


def test_a_peer_of_another_job_is_not(peer: Identity) -> None:
    assert not read(bound(peer, ALICE), joined(peer, ALICE, job=8)).trainers


def test_a_stolen_key_is_not_admitted(peer: Identity) -> None:
    stolen = sign_binding(peer, CHAIN, REGISTRY, ALICE)
    events = [bound(peer, MALLORY, stolen), joined(peer, MALLORY)]
    assert not read(*events).trainers
    assert read(*events, bound(peer, ALICE), joined(peer, ALICE)).trainers == {peer.peer_id: ALICE}


def test_a_banned_trainer_is_put_out(peer: Identity) -> None:
    ban = event("TrainerBanned", jobId=7, trainer=ALICE, slashed=1)
    assert read(bound(peer, ALICE), joined(peer, ALICE), ban) == Roster({}, {peer.peer_id: ALICE})


@pytest.mark.parametrize(
    ("chain", "registry", "wallet"),
    [(1, REGISTRY, ALICE), (CHAIN, "0x" + "cd" * 20, ALICE), (CHAIN, REGISTRY, MALLORY)],
)
def test_a_binding_serves_one_chain_one_registry_and_one_wallet(
    peer: Identity, chain: int, registry: str, wallet: str
) -> None:
    signature = sign_binding(peer, CHAIN, REGISTRY, ALICE)
    assert binding_holds(peer.public_key, signature, CHAIN, REGISTRY.lower(), ALICE.lower())
    assert not binding_holds(peer.public_key, signature, chain, registry, wallet)


def test_malformed_keys_and_signatures_are_false(peer: Identity) -> None:
    assert not binding_holds(b"short", bytes(64), CHAIN, REGISTRY, ALICE)
    assert not binding_holds(peer.public_key, b"", CHAIN, REGISTRY, ALICE)
