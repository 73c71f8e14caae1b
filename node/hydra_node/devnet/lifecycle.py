"""A development chain that stays up in the background: `hydra-node devnet up | down | status`.

Everything is in one directory: `chain.json` (which process), `chain.log`, `data/` (the chain), `deployment.json` (the
contracts), `deployer/` (nonces of the deployer).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hydra_node.chain.deployment import BadDeployment, Deployment
from hydra_node.chain.files import private_directory, write_private
from hydra_node.devnet.background import end_process, started_at
from hydra_node.devnet.chains import DEV_MNEMONIC, ChainFailed, ChainSpec, Kind, LocalChain, launch
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.rpc import Rpc
    from hydra_node.chain.sender import Sender
    from hydra_node.devnet.deploy import Parameters

FUND_ETHER = 10**18
DEFAULT_PORT = 8545
_POLL_SECONDS = 0.05
_LOCK_SECONDS = 0.2


class DevnetBusy(HydraError):
    """Another command is starting or stopping this devnet."""


class DevnetRunning(HydraError):
    """The devnet runs already, and not as asked."""


class DevnetDown(HydraError):
    """A running devnet is needed."""


class DevnetDamaged(HydraError):
    """The devnet's directory holds something that this version cannot use."""


class ChainRecord(BaseModel):
    """The contents of `chain.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    pid: int = Field(ge=1)
    started: str
    rpc: str
    chain_id: int = Field(ge=1)
    block_time: int = Field(ge=0)


@dataclass(frozen=True, slots=True)
class Status:
    """A devnet now. `block` and `timestamp` are the newest block's; `contracts` maps names to addresses."""

    running: bool
    directory: Path
    kind: str | None = None
    pid: int | None = None
    rpc: str | None = None
    chain_id: int | None = None
    block: int | None = None
    timestamp: int | None = None
    contracts: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Devnet:
    """The files of one devnet."""

    directory: Path

    @property
    def record(self) -> Path:
        return self.directory / "chain.json"

    @property
    def log(self) -> Path:
        return self.directory / "chain.log"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def deployment(self) -> Path:
        return self.directory / "deployment.json"

    @property
    def deployer(self) -> Path:
        return self.directory / "deployer"


def up(
    directory: Path,
    kind: Kind = "embedded",
    *,
    block_time: int = 1,
    chain_id: int = 1337,
    port: int | None = None,
    parameters: Parameters | None = None,
) -> Status:
    """Start the chain in the background unless it runs, deploy unless that is done, and say what there is.

    `port` None means 8545, or wherever it runs already; 0 any. Raises DevnetRunning when it runs elsewhere,
    ChainNotInstalled, ChainFailed, DevnetBusy, and what a deployment raises; the chain is then stopped again if this
    call started it.
    """
    devnet = Devnet(directory)
    with _alone(devnet):
        record = _running_record(devnet)
        if record is not None:
            if port and not record.rpc.endswith(f":{port}"):
                raise DevnetRunning(
                    f"the devnet runs at {record.rpc}", remedy="to move it, run first: hydra-node devnet down"
                )
            _deploy_if_missing(devnet, record, parameters)
            return status(directory)
        chosen = DEFAULT_PORT if port is None else port
        spec = ChainSpec(kind, block_time=block_time, chain_id=chain_id, port=chosen, data=devnet.data)
        chain = launch(spec, devnet.log)
        try:
            record = _record(spec, chain)
            write_private(devnet.record, record.model_dump_json(indent=2).encode())
            _deploy_if_missing(devnet, record, parameters)
        except BaseException:
            chain.stop()
            devnet.record.unlink(missing_ok=True)
            raise
        return status(directory)


def down(directory: Path) -> bool:
    """Stop the chain; its data stays. False if none was running. Raises ProcessStuck, DevnetBusy."""
    devnet = Devnet(directory)
    if not devnet.record.exists():
        return False
    with _alone(devnet):
        record = _running_record(devnet)
        if record is not None:
            end_process(record.pid, record.started)
        devnet.record.unlink(missing_ok=True)
        return record is not None


def status(directory: Path) -> Status:
    """What runs in a directory, and what is deployed there."""
    devnet = Devnet(directory)
    contracts = Deployment.load(devnet.deployment).addresses if devnet.deployment.exists() else None
    record = _running_record(devnet)
    if record is None:
        return Status(False, directory, contracts=contracts)
    head = _rpc(record).request("eth_getBlockByNumber", "latest", False)
    return Status(
        running=True,
        directory=directory,
        kind=record.kind,
        pid=record.pid,
        rpc=record.rpc,
        chain_id=record.chain_id,
        block=int(head["number"], 16),
        timestamp=int(head["timestamp"], 16),
        contracts=contracts,
    )


def fund(directory: Path, account: str, tokens: int) -> None:
    """Give an account `tokens` wei of the token, and ether for its gas, from the devnet's deployer.

    Raises DevnetDown when no devnet runs there.
    """
    from hydra_node.devnet.deploy import Funds
    from hydra_node.devnet.deploy import fund as send

    devnet = Devnet(directory)
    record = _running_record(devnet)
    if record is None:
        raise DevnetDown("no devnet is running", remedy="start one: hydra-node devnet up")
    send(_deployer(devnet, record), Deployment.load(devnet.deployment), {account: Funds(FUND_ETHER, tokens)})


def _deployer(devnet: Devnet, record: ChainRecord) -> Sender:
    from hydra_node.chain.sender import Sender
    from hydra_node.chain.wallet import Wallet

    key = LocalChain(record.rpc, record.chain_id, mnemonic=DEV_MNEMONIC).deployer_key()
    return Sender(_rpc(record), Wallet.from_key(key), private_directory(devnet.deployer))


def _deploy_if_missing(devnet: Devnet, record: ChainRecord, parameters: Parameters | None) -> None:
    from hydra_node.devnet.deploy import deploy

    rpc = _rpc(record)
    if devnet.deployment.exists():
        with contextlib.suppress(BadDeployment):
            Deployment.load(devnet.deployment).check(rpc)
            return
    deploy(rpc, _deployer(devnet, record), devnet.deployment, parameters)


def _rpc(record: ChainRecord) -> Rpc:
    from hydra_node.chain.rpc import Rpc

    return Rpc(record.rpc, chain_id=record.chain_id)


def _record(spec: ChainSpec, chain: LocalChain) -> ChainRecord:
    assert chain.process is not None
    started = started_at(chain.process.pid)
    if started is None:
        raise ChainFailed("the chain ended as soon as it had started", remedy="see its log")
    return ChainRecord(
        kind=spec.kind,
        pid=chain.process.pid,
        started=started,
        rpc=chain.rpc_url,
        chain_id=chain.chain_id,
        block_time=spec.block_time,
    )


def _running_record(devnet: Devnet) -> ChainRecord | None:
    """The record, if its process is still the one that was started."""
    try:
        record = ChainRecord.model_validate_json(devnet.record.read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as error:
        raise DevnetDamaged(
            f"{devnet.record} cannot be read", remedy="end the chain by hand if it runs, and delete the file"
        ) from error
    return record if started_at(record.pid) == record.started else None


@contextlib.contextmanager
def _alone(devnet: Devnet) -> Iterator[None]:
    lock = FileLock(private_directory(devnet.directory) / "lock")
    try:
        lock.acquire(timeout=_LOCK_SECONDS)
    except Timeout:
        raise DevnetBusy(
            f"another command is starting or stopping the devnet in {devnet.directory}", remedy="wait until it is done"
        ) from None
    try:
        yield
    finally:
        lock.release()
