"""Every local chain starts the same way, takes the same deployment, and can be kept in the background."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from hydra_node.chain.clock import chain_time, wait_until
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet.chains import (
    KINDS,
    ChainFailed,
    ChainNotInstalled,
    ChainSpec,
    Kind,
    LocalChain,
    UnknownChain,
    attach,
    free_port,
    launch,
    parse_kind,
    wait_ready,
)
from hydra_node.devnet.deploy import ADMIN_ROLE, HYDRA, Funds, Parameters, creation_address, deploy, fund
from hydra_node.devnet.lifecycle import DevnetDamaged, down, status, up


def started(kind: str, directory: Path, block_time: int = 0) -> LocalChain:
    chosen = parse_kind(kind)
    assert chosen is not None
    try:
        return launch(ChainSpec(chosen, block_time=block_time), directory / "chain.log")
    except ChainNotInstalled as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", KINDS)
def test_the_contracts_deploy_and_nobody_administers_them(kind: str, tmp_path: Path) -> None:
    with started(kind, tmp_path) as chain:
        rpc = Rpc(chain.rpc_url)
        sender = Sender(rpc, Wallet.from_key(chain.deployer_key()), tmp_path / "deployer")
        deployment = deploy(rpc, sender, tmp_path / "deployment.json", Parameters(supply=1000 * HYDRA))
        assert Deployment.load(tmp_path / "deployment.json") == deployment
        client = ChainClient(rpc, deployment)
        assert client.token.balance_of(sender.address) == 1000 * HYDRA
        for contract in (
            client.stakes,
            client.escrow,
            client.submissions,
            client.quality,
            client.training,
            client.rewards,
        ):
            assert contract._view("hasRole(bytes32,address)", ADMIN_ROLE, sender.address) is False
        newcomers = [Wallet.create().address for _ in range(3)]
        receipts = fund(sender, deployment, {each: Funds(ether=10**18, tokens=5 * HYDRA) for each in newcomers})
        assert len(receipts) == 6
        for each in newcomers:
            assert client.token.balance_of(each) == 5 * HYDRA
            assert int(rpc.request("eth_getBalance", each, "latest"), 16) == 10**18
    assert chain.process is not None
    assert chain.process.returncode is not None


@pytest.mark.parametrize("kind", KINDS)
def test_time_goes_on_without_transactions(kind: str, tmp_path: Path) -> None:
    with started(kind, tmp_path, block_time=1) as chain:
        rpc = Rpc(chain.rpc_url)
        first = chain_time(rpc)
        asyncio.run(wait_until(rpc, first + 3, timeout=30))
        assert chain_time(rpc) <= time.time()


def test_a_deployment_takes_one_block_of_a_second(tmp_path: Path) -> None:
    with started("embedded", tmp_path, block_time=1) as chain:
        rpc = Rpc(chain.rpc_url)
        sender = Sender(rpc, Wallet.from_key(chain.deployer_key()), tmp_path / "deployer")
        deployment = deploy(rpc, sender, tmp_path / "deployment.json")
        assert int(rpc.request("eth_blockNumber"), 16) - deployment.block <= 3


def test_the_address_of_a_creation_is_ethereums() -> None:
    assert (
        creation_address("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", 0)
        == "0x5FbDB2315678afecb367f032d93F642f64180aa3"
    )


def test_a_chain_that_is_already_there_is_used(tmp_path: Path) -> None:
    with started("embedded", tmp_path) as chain:
        there = attach(chain.rpc_url)
        assert (there.chain_id, there.process) == (1337, None)
        there.stop()
        assert chain.process is not None and chain.process.poll() is None


def test_what_is_no_chain_is_named() -> None:
    assert parse_kind("http://127.0.0.1:8545") is None
    with pytest.raises(UnknownChain, match="embedded, ganache, anvil"):
        parse_kind("genache")
    with pytest.raises(ChainFailed, match="no chain answers"):
        wait_ready(f"http://127.0.0.1:{free_port()}", timeout=0)


def test_an_occupied_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ChainFailed, match=f"port {port} of this machine is in use"):
            launch(ChainSpec("embedded", port=port), tmp_path / "log")


def test_a_chain_that_cannot_start_leaves_its_reason(tmp_path: Path) -> None:
    (tmp_path / "chain.sqlite").write_bytes(b"something else entirely, long enough to have a header" * 40)
    with pytest.raises(ChainFailed, match="is not a chain database"):
        launch(ChainSpec("embedded", data=tmp_path), tmp_path / "log")


@pytest.mark.parametrize("kind", KINDS)
def test_a_devnet_stays_up_and_comes_back_with_its_contracts(kind: Kind, tmp_path: Path) -> None:
    directory = tmp_path / "devnet"
    assert not status(directory).running
    try:
        first = up(directory, kind, port=0)
    except ChainNotInstalled as error:
        pytest.skip(str(error))
    try:
        assert first.running and first.contracts is not None
        again = up(directory, kind, port=0)
        assert (again.pid, again.contracts) == (first.pid, first.contracts)
        assert down(directory)
        assert not status(directory).running
        assert not down(directory)
        back = up(directory, kind, port=0)
        assert back.pid != first.pid
        assert back.contracts == first.contracts
    finally:
        down(directory)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "chain.json").write_text("{")
    with pytest.raises(DevnetDamaged, match=r"chain\.json"):
        status(tmp_path)
