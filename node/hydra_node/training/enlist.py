"""What a trainer does on chain before it trains: stake, bind its peer to the wallet, join the job. All blocking."""

from collections.abc import Iterable

from hydra_node.chain import actions
from hydra_node.chain.amounts import format_hydra
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Role, State
from hydra_node.chain.events import Event
from hydra_node.errors import HydraError
from hydra_node.p2p.identity import Identity
from hydra_node.training.admission import sign_binding


class CannotEnlist(HydraError):
    """This wallet cannot train in this job."""


def stake_up_to(client: ChainClient, amount: int) -> int:
    """Stakes what is missing to `amount` wei as a trainer; the wei that were added. Raises CannotEnlist."""
    missing = amount - client.stakes.stake_of(Role.TRAINER, client.address)
    if missing <= 0:
        return 0
    balance = client.token.balance_of(client.address)
    if balance < missing:
        raise CannotEnlist(
            f"the wallet {client.address} holds {format_hydra(balance)}",
            expected=f"{format_hydra(missing)} to stake",
            remedy="fund the wallet or stake less",
        )
    actions.stake(client, Role.TRAINER, missing)
    return missing


def bind_peer(client: ChainClient, identity: Identity) -> bool:
    """Binds the peer key to the wallet unless it is bound already; whether a transaction was sent."""
    if client.training.peer_of(client.address) == identity.public_key:
        return False
    registry = client.deployment.address("TrainingRegistry")
    signature = sign_binding(identity, client.deployment.chain_id, registry, client.address)
    client.training.bind_peer(identity.public_key, signature)
    return True


def join(client: ChainClient, identity: Identity, job_id: int) -> bool:
    """Joins the job unless this wallet joined it before; whether a transaction was sent. Raises CannotEnlist."""
    if client.training.is_banned(job_id, client.address):
        raise CannotEnlist(
            f"the wallet {client.address} is banned from job {job_id}",
            remedy="train in another job",
        )
    joined_with = client.training.trainer_peer(job_id, client.address)
    if any(joined_with):
        if joined_with != identity.public_key:
            raise CannotEnlist(
                f"the wallet {client.address} joined job {job_id} with another peer key",
                remedy="use the data directory it joined with",
            )
        return False
    state = client.escrow.job(job_id).state
    if state != State.COLLECTING:
        raise CannotEnlist(
            f"job {job_id} is {state.name.lower()}",
            expected="a job that is open for trainers",
            remedy="see: hydra-node job list",
        )
    stake, least = client.stakes.stake_of(Role.TRAINER, client.address), client.training.terms(job_id).min_stake
    if stake < least:
        raise CannotEnlist(
            f"the wallet {client.address} has staked {format_hydra(stake)} as a trainer",
            expected=f"at least {format_hydra(least)} for job {job_id}",
            remedy=f"run: hydra-node stake '{format_hydra(least - stake)}' --role trainer",
        )
    client.training.join(job_id)
    return True


def open_jobs(client: ChainClient, opened: Iterable[Event]) -> list[int]:
    """The jobs in `opened` (TrainingOpened events) that still collect and have not banned this wallet, newest first."""
    newest_first = sorted(opened, key=lambda event: (event.block, event.log_index), reverse=True)
    return [
        job_id
        for job_id in (int(event.args["jobId"]) for event in newest_first)
        if client.escrow.job(job_id).state == State.COLLECTING and not client.training.is_banned(job_id, client.address)
    ]
