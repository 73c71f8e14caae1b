"""A chain of the test's own with a sponsor, contributors and validators; validators are real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.datasets import load_digits

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.wallet import Kdf, Wallet, WalletStore
from hydra_node.devnet.chains import ChainSpec, LocalChain, launch
from hydra_node.devnet.deploy import Funds, Parameters, deploy, fund

HYDRA = 10**18
PASSWORD = "a password of a test"
WAIT_SECONDS = 90.0
POLL_SECONDS = 0.1
T = TypeVar("T")


class NotHappened(AssertionError):
    """Something that the test waits for did not happen in time."""


def quiet(_kind: str, _text: str, _fields: dict[str, Any]) -> None:
    """What agents of the test report to."""


@dataclass
class World:
    """The chain, its contracts, and funded wallets by name."""

    folder: Path
    chain: LocalChain
    rpc: Rpc
    deployment: Deployment
    validators: list[ValidatorProcess] = field(default_factory=list)

    def fund(self, *names: str) -> None:
        """Give each name a wallet with tokens and coins for gas, keystores included."""
        deployer = Sender(self.rpc, Wallet.from_key(self.chain.deployer_key()), self.folder / "deployer")
        grants = {}
        for name in names:
            (self.folder / name).mkdir()
            (self.folder / name / "password").write_text(PASSWORD)
            wallet = WalletStore(self.folder / name / "keystore", kdf=Kdf.LIGHT).new(name, PASSWORD)
            grants[wallet.address] = Funds(ether=10**19, tokens=10_000 * HYDRA)
        fund(deployer, self.deployment, grants)

    def client(self, name: str) -> ChainClient:
        wallet = WalletStore(self.folder / name / "keystore").load(name, PASSWORD)
        return ChainClient(self.rpc, self.deployment, Sender(self.rpc, wallet, self.folder / name / "account"))

    def validator(self, name: str, bootstrap: str, *options: str) -> ValidatorProcess:
        """Start `hydra-validator run` for a funded name."""
        process = ValidatorProcess(self, name, bootstrap, options)
        self.validators.append(process)
        process.start()
        return process


@dataclass
class ValidatorProcess:
    """One validator, its events so far, and its life."""

    world: World
    name: str
    bootstrap: str
    options: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.world.folder / self.name / "events.jsonl"

    def start(self) -> None:
        home = self.world.folder / self.name
        command = [
            *(sys.executable, "-m", "hydra_validator", "run", "--json", "--yes", "--stake", f"{300 * HYDRA} wei"),
            *("--rpc", self.world.chain.rpc_url, "--deployment", str(self.world.folder / "deployment.json")),
            *("--keystore", str(home / "keystore"), "--wallet", self.name),
            *("--password-file", str(home / "password"), "--data-dir", str(home / "data")),
            *("--bootstrap", self.bootstrap, *self.options),
        ]
        environment = {**os.environ, "HYDRA_HOME": str(home / "home"), "OMP_NUM_THREADS": "1"}
        with self.log.open("ab") as out, (home / "errors.txt").open("ab") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        parsed = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in parsed if not kind or event["event"] == kind]

    async def wait_for(self, kind: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        found = await eventually(lambda: self.events(kind), f"{kind} of {self.name}", seconds, self)
        return found[0]

    def kill(self) -> None:
        """End it as a loss of power would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end; its status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def errors(self) -> str:
        return (self.world.folder / self.name / "errors.txt").read_text()[-3000:]


async def eventually(
    seek: Callable[[], T], what: str, seconds: float = WAIT_SECONDS, beside: ValidatorProcess | None = None
) -> T:
    """Wait until `seek` finds something; fails at once when the process `beside` has ended."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await asyncio.to_thread(seek)):
                if beside is not None and beside.process is not None and beside.process.poll() is not None:
                    raise NotHappened(f"{beside.name} ended while waiting for {what}: {beside.errors()}")
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        told = f": {beside.events()[-5:]} {beside.errors()}" if beside is not None else ""
        raise NotHappened(f"{what} did not happen in {seconds:.0f} s{told}") from None
    return found


def running_world(folder: Path) -> Iterator[World]:
    """A chain of one block a second with the contracts on it."""
    with launch(ChainSpec("embedded", block_time=1), folder / "chain.log") as chain:
        rpc = Rpc(chain.rpc_url, chain_id=chain.chain_id)
        sender = Sender(rpc, Wallet.from_key(chain.deployer_key()), folder / "deployer")
        deployment = deploy(rpc, sender, folder / "deployment.json", Parameters(thaw_seconds=30))
        world = World(folder, chain, rpc, deployment)
        try:
            yield world
        finally:
            for validator in world.validators:
                if validator.process is not None and validator.process.poll() is None:
                    validator.kill()


def digits_files(folder: Path) -> dict[str, Path]:
    """A reference set, an honest contributor's data, and noise."""
    bunch = load_digits()
    order = np.random.default_rng(3).permutation(len(bunch.target))
    images, labels = bunch.images[order].astype(np.uint8), bunch.target[order].astype(np.int64)
    rng = np.random.default_rng(4)
    parts = {
        "reference": (images[:200], labels[:200]),
        "honest": (images[200:320], labels[200:320]),
        "noise": (rng.integers(0, 17, (40, 8, 8)).astype(np.uint8), rng.integers(0, 10, 40)),
    }
    paths = {}
    for name, (x, y) in parts.items():
        paths[name] = folder / f"{name}.npz"
        np.savez(paths[name], X=x, y=y)
    return paths
