"""Who may train in a job: peers whose key and wallet vouch for each other on chain, and who are not banned."""

from collections.abc import Iterable
from dataclasses import dataclass

from hydra_node.chain.events import Event
from hydra_node.p2p.identity import Identity, PeerId, peer_id_of, verify

_DOMAIN = "peer-binding"


def binding_message(chain_id: int, registry: str, wallet: str) -> bytes:
    """What a peer key signs to belong to a wallet: the deployment and the wallet, in lower-case hexadecimal."""
    return f"hydra-peer:{chain_id}:{registry.lower()}:{wallet.lower()}".encode()


def sign_binding(identity: Identity, chain_id: int, registry: str, wallet: str) -> bytes:
    """The peer's half of the binding; the wallet's half is the transaction that carries it."""
    return identity.sign(binding_message(chain_id, registry, wallet), domain=_DOMAIN)


def binding_holds(peer_key: bytes, signature: bytes, chain_id: int, registry: str, wallet: str) -> bool:
    """Whether `peer_key` (32 bytes, raw Ed25519) really signed that it belongs to `wallet`."""
    message = binding_message(chain_id, registry, wallet)
    return len(peer_key) == 32 and verify(peer_id_of(peer_key), message, signature, domain=_DOMAIN)


@dataclass(frozen=True, slots=True)
class Roster:
    """The trainers of a job by peer id, each with the wallet that is paid; the banned ones apart."""

    trainers: dict[PeerId, str]
    banned: dict[PeerId, str]


def roster(events: Iterable[Event], job_id: int, chain_id: int, registry: str) -> Roster:
    """Reads the roster from the chain's events in their order.

    The contract cannot check an Ed25519 signature, so anybody may claim a key: a trainer counts only when a
    binding by its own wallet for the very key it joined with holds.
    """
    bound: set[tuple[str, bytes]] = set()
    joined: dict[PeerId, str] = {}
    banned: set[str] = set()
    for event in events:
        args = event.args
        if event.contract != "TrainingRegistry":
            continue
        if event.name == "PeerBound":
            if binding_holds(args["peerKey"], args["signature"], chain_id, registry, args["wallet"]):
                bound.add((args["wallet"], args["peerKey"]))
        elif event.name == "TrainerJoined" and args["jobId"] == job_id:
            if (args["trainer"], args["peerKey"]) in bound:
                joined.setdefault(peer_id_of(args["peerKey"]), args["trainer"])
        elif event.name == "TrainerBanned" and args["jobId"] == job_id:
            banned.add(args["trainer"])
    return Roster(
        {peer: wallet for peer, wallet in joined.items() if wallet not in banned},
        {peer: wallet for peer, wallet in joined.items() if wallet in banned},
    )
