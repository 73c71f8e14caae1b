"""Real chains, started as processes of their own, with the real contracts on them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hydra_node.chain.abi import ARTIFACTS
from hydra_node.chain.contracts import ChainClient, deploy
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.generate import snake
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.transactions import ContractCall, Sender
from hydra_node.chain.wallet import Wallet

ROOT = Path(__file__).parents[3]
NODE_BINARIES = ROOT / "node_modules" / ".bin"
MNEMONIC = "test test test test test test test test test test test junk"
FUNDER_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"  # the first account of MNEMONIC
SUPPLY = 10**9 * 10**18
START_SECONDS = 60.0


@dataclass(frozen=True)
class LocalChain:
    kind: str
    url: str

    def rpc(self) -> Rpc:
        return Rpc(self.url)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def anvil_command(port: int, block_time: int) -> list[str]:
    pace = ["--block-time", str(block_time)] if block_time else []
    return ["anvil", "--host", "127.0.0.1", "--port", str(port), "--mnemonic", MNEMONIC, "--base-fee", "0", *pace]


def ganache_command(port: int, block_time: int) -> list[str]:
    options = {
        "server.host": "127.0.0.1",
        "server.port": port,
        "wallet.mnemonic": MNEMONIC,
        "chain.hardfork": "merge",
        "miner.blockTime": block_time,
    }
    return ["ganache", *(part for name, value in options.items() for part in (f"--{name}", str(value)))]


COMMANDS: dict[str, Callable[[int, int], list[str]]] = {"anvil": anvil_command, "ganache": ganache_command}


def running(kind: str, log: Path, block_time: int = 0) -> Iterator[LocalChain]:
    """The chain while the generator is open; it is asked to stop afterwards, then killed."""
    port = free_port()
    command = COMMANDS[kind](port, block_time)
    binary = NODE_BINARIES / command[0]
    if not binary.exists():
        pytest.skip(f"{kind} is not installed: npm ci")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(binary), *command[1:]], stdout=output, stderr=subprocess.STDOUT, env=_environment()
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, process, log)
            yield LocalChain(kind, url)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment() -> dict[str, str]:
    node = shutil.which("node")
    path = os.environ.get("PATH", "")
    return {**os.environ, "PATH": path if node else f"{ROOT / '.venv' / 'bin'}{os.pathsep}{path}"}


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0:
                Rpc(url, patience=START_SECONDS).request("eth_chainId")
                return
        time.sleep(0.1)
    pytest.fail(f"the chain did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session", params=COMMANDS)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """A chain that mines each transaction at once."""
    yield from running(request.param, tmp_path_factory.mktemp(request.param) / "log")


@pytest.fixture(scope="session", params=COMMANDS)
def paced_chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """A chain that makes one block a second."""
    yield from running(request.param, tmp_path_factory.mktemp(request.param) / "log", block_time=1)


@pytest.fixture(scope="session")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """An Anvil of its own, for tests that stop its mining or turn it back."""
    yield from running("anvil", tmp_path_factory.mktemp("anvil") / "log")


class Network:
    """The contracts on a chain, wired as the deployment plan says, and the account that holds all tokens."""

    def __init__(self, chain: LocalChain, state_dir: Path) -> None:
        self.chain = chain
        self.rpc = chain.rpc()
        self.state_dir = state_dir
        self._funder = Sender(self.rpc, Wallet.from_key(FUNDER_KEY), state_dir)
        self.deployment = self._deploy()
        self.treasury = ChainClient(self.rpc, self.deployment, self._funder)

    def _deploy(self) -> Deployment:
        plan = json.loads((ARTIFACTS / "plan.json").read_text())
        admin = self._funder.address
        parameters = {"treasury": admin, "supply": SUPPLY, "thawSeconds": 60, "activationSeconds": 0, "admin": admin}
        block = int(self.rpc.request("eth_blockNumber"), 16)
        addresses: dict[str, str] = {}
        for step in plan["deployments"]:
            args = [parameters[a["parameter"]] if "parameter" in a else addresses[a["address"]] for a in step["args"]]
            created = deploy(self._funder, step["contract"], *args)
            assert created.contract is not None
            addresses[step["contract"]] = created.contract
        deployment = Deployment(chain_id=self.rpc.chain_id, block=block, addresses=addresses)
        client = ChainClient(self.rpc, deployment, self._funder)
        contracts: dict[str, Any] = {
            each.NAME: each
            for each in (
                client.stakes,
                client.escrow,
                client.submissions,
                client.quality,
                client.training,
                client.rewards,
            )
        }
        grants = []
        for grant in plan["grants"]:
            target = contracts[grant["contract"]]
            role = getattr(target, snake(grant["role"]))()
            grants.append(target.call("grantRole", role, deployment.address(grant["to"])))
        self._funder.send_all(grants)
        return deployment

    def wallet(self, *, gas: int = 10**18, tokens: int = 0) -> Wallet:
        """A fresh account with coins for gas and tokens."""
        wallet = Wallet.create()
        if gas:
            self._funder.send(ContractCall("gift", wallet.address, b"", value=gas))
        if tokens:
            self.treasury.token.transfer(wallet.address, tokens)
        return wallet

    def client(self, *, gas: int = 10**18, tokens: int = 0) -> ChainClient:
        """A client for such an account."""
        return ChainClient(
            self.rpc, self.deployment, Sender(self.rpc, self.wallet(gas=gas, tokens=tokens), self.state_dir)
        )


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
    return free_port()
