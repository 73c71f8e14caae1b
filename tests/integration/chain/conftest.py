"""Real chains, started as processes of their own, with the real contracts on them."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet.chains import KINDS, ChainNotInstalled, ChainSpec, Kind, LocalChain, launch
from hydra_node.devnet.deploy import Funds, deploy, fund


def running(kind: Kind, directory: Path, block_time: int = 0) -> Iterator[LocalChain]:
    """The chain while the generator is open."""
    try:
        chain = launch(ChainSpec(kind, block_time=block_time), directory / "chain.log")
    except ChainNotInstalled as missing:
        pytest.skip(str(missing))
    with chain:
        yield chain


@pytest.fixture(scope="session", params=KINDS)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """A chain that mines each transaction at once."""
    yield from running(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session", params=KINDS)
def paced_chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """A chain that makes one block a second."""
    yield from running(request.param, tmp_path_factory.mktemp(request.param), block_time=1)


@pytest.fixture(scope="session")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """An Anvil of its own, for tests that stop its mining or turn it back."""
    yield from running("anvil", tmp_path_factory.mktemp("anvil"))


@dataclass(frozen=True)
class Account:
    """A fresh account: its client, and the wallet and key behind it."""

    key: bytes
    wallet: Wallet
    client: ChainClient


class Network:
    """The contracts on a chain, and the account that holds all tokens."""

    def __init__(self, chain: LocalChain, state_dir: Path) -> None:
        self.url = chain.rpc_url
        self.rpc = Rpc(chain.rpc_url)
        self._state_dir = state_dir
        self._funder = Sender(self.rpc, Wallet.from_key(chain.deployer_key()), state_dir)
        self.deployment = deploy(self.rpc, self._funder, state_dir / "deployment.json")
        self.treasury = ChainClient(self.rpc, self.deployment, self._funder)

    def account(self, *, gas: int = 10**18, tokens: int = 0) -> Account:
        """A fresh account with wei for gas and of the token."""
        key = secrets.token_bytes(32)
        wallet = Wallet.from_key(key)
        fund(self._funder, self.deployment, {wallet.address: Funds(gas, tokens)})
        return Account(key, wallet, ChainClient(self.rpc, self.deployment, Sender(self.rpc, wallet, self._state_dir)))

    def client(self, *, gas: int = 10**18, tokens: int = 0) -> ChainClient:
        """A client for a fresh account."""
        return self.account(gas=gas, tokens=tokens).client


@pytest.fixture(scope="session")
def network(chain: LocalChain, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(chain, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def paced_network(paced_chain: LocalChain, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(paced_chain, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def anvil_network(anvil: LocalChain, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(anvil, tmp_path_factory.mktemp("state"))


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
