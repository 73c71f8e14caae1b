"""Every contract of a deployment behind one object, `ChainClient`, and the ways to get one."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from hydra_node.chain.abi import load
from hydra_node.chain.bindings.dispute_manager import DisputeManager
from hydra_node.chain.bindings.hydra_token import HydraToken
from hydra_node.chain.bindings.job_escrow import JobEscrow
from hydra_node.chain.bindings.quality_rounds import QualityRounds
from hydra_node.chain.bindings.rewards_distributor import RewardsDistributor
from hydra_node.chain.bindings.stake_manager import StakeManager
from hydra_node.chain.bindings.submission_registry import SubmissionRegistry
from hydra_node.chain.bindings.training_registry import TrainingRegistry
from hydra_node.chain.bindings.view_arbiter import ViewArbiter
from hydra_node.chain.codec import encode_values
from hydra_node.chain.contract import Contract, NoWallet
from hydra_node.chain.deployment import Deployment, chain_name
from hydra_node.chain.event_store import EventStore
from hydra_node.chain.events import EventLog, LogDecoder
from hydra_node.chain.finality import finality_depth
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import TIMEOUT, ContractCall, Receipt
from hydra_node.chain.wallet import Wallet

C = TypeVar("C", bound=Contract)
FIRST_PATIENCE = 5.0


class ChainClient:
    """The contracts of one deployment; reads only, unless a sender is given.

    Views return Python values; other methods send a transaction and return its `Receipt`, whose `events` are decoded.
    Synchronous and thread-safe: asyncio callers use `asyncio.to_thread`. `state_dir` is where events are kept; without
    one they are kept in memory.
    """

    def __init__(
        self, rpc: Rpc, deployment: Deployment, sender: Sender | None = None, state_dir: Path | None = None
    ) -> None:
        self.rpc = rpc
        self._state_dir = state_dir
        self.deployment = deployment
        self.events = EventLog(rpc, deployment)
        self.sender = sender
        if sender is not None:
            sender.decode_with(LogDecoder(rpc, deployment))

    @property
    def address(self) -> str:
        """The account that sends. Raises `NoWallet` for a client that only reads."""
        if self.sender is None:
            raise NoWallet("this needs a wallet", remedy="name one with --wallet")
        return self.sender.address

    @cached_property
    def history(self) -> EventStore:
        """What has happened on chain, as of its last `refresh`."""
        path = None
        if self._state_dir is not None:
            name = f"{chain_name(self.rpc)}-{self.deployment.fingerprint}.sqlite"
            path = self._state_dir / "events" / name
        return EventStore(self.events, path, finality=finality_depth(self.rpc.chain_id))

    @cached_property
    def token(self) -> HydraToken:
        return self._at(HydraToken)

    @cached_property
    def stakes(self) -> StakeManager:
        return self._at(StakeManager)

    @cached_property
    def escrow(self) -> JobEscrow:
        return self._at(JobEscrow)

    @cached_property
    def submissions(self) -> SubmissionRegistry:
        return self._at(SubmissionRegistry)

    @cached_property
    def quality(self) -> QualityRounds:
        return self._at(QualityRounds)

    @cached_property
    def training(self) -> TrainingRegistry:
        return self._at(TrainingRegistry)

    @cached_property
    def rewards(self) -> RewardsDistributor:
        return self._at(RewardsDistributor)

    @cached_property
    def disputes(self) -> DisputeManager:
        return self._at(DisputeManager)

    @cached_property
    def arbiter(self) -> ViewArbiter:
        return self._at(ViewArbiter)

    def _at(self, kind: type[C]) -> C:
        return kind(self.rpc, self.deployment.address(kind.NAME), self.sender)


def connect(
    rpc_url: str,
    deployment_path: Path,
    wallet: Wallet | None = None,
    state_dir: Path | None = None,
    *,
    max_fee: int | None = None,
) -> ChainClient:
    """A client for the deployment in a file, after checking that the chain is the right one and holds it.

    `state_dir` (default: beside the deployment file) keeps the account's transactions and the events: processes that
    send from one account must share it. `max_fee` is the most that is offered for a unit of gas, wei. Raises
    `BadDeployment`, `WrongChain`, `UnknownEndpoint`, `RpcUnavailable`.
    """
    deployment = Deployment.load(deployment_path)
    # A wrong address is found soon; a chain that was there once is waited for longer.
    deployment.check(Rpc(rpc_url, chain_id=deployment.chain_id, patience=FIRST_PATIENCE))
    rpc = Rpc(rpc_url, chain_id=deployment.chain_id)
    folder = state_dir or deployment_path.parent
    sender = Sender(rpc, wallet, folder, max_fee=max_fee) if wallet else None
    return ChainClient(rpc, deployment, sender, folder)


def deploy(sender: Sender, name: str, *args: Any, timeout: float = TIMEOUT) -> Receipt:
    """Create the contract of that name with its constructor's arguments; the receipt's `contract` is its address."""
    contract = load(name)
    data = contract.bytecode + encode_values(contract.constructor, args, f"the constructor of {name}")
    return sender.send(ContractCall(f"creation of {name}", None, data), timeout=timeout)
