"""A chain, contracts, a sponsor with a dataset and a job, and trainers as processes, for tests of the trainer."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sklearn.datasets import load_digits

from hydra_node.chain import actions
from hydra_node.chain.bindings.structs import TrainingTerms
from hydra_node.chain.clock import chain_time
from hydra_node.chain.contracts import ChainClient, connect
from hydra_node.chain.enums import Kind, Role
from hydra_node.chain.rewards import Reward, RewardTree
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet import chains
from hydra_node.devnet.deploy import Funds, Parameters, deploy, fund
from hydra_node.devnet.embedded.accounts import dev_accounts
from hydra_node.p2p.host import Host
from hydra_node.storage import dataset, items
from hydra_node.storage.blockstore import BlockStore
from hydra_node.training.spec import TrainingSpec

HYDRA = 10**18
SPONSOR, VALIDATOR, FIRST_TRAINER = 1, 2, 3
STAKE = 100 * HYDRA
PENALTY = 60 * HYDRA
PROGRAM = Path(__file__).with_name("trainer_process.py")

Event = dict[str, Any]


@dataclass
class TrainerProcess:
    """A running trainer and what it has said."""

    process: asyncio.subprocess.Process
    events: list[Event] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    reader: asyncio.Task[None] | None = None

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self.news:
                self.events.append(json.loads(line))
                self.news.notify_all()
        async with self.news:
            self.events.append({"event": "ended"})
            self.news.notify_all()

    async def hear(self, wanted: Callable[[Event], bool], timeout: float = 90) -> Event:
        """The first event, past or future, that is wanted; fails when the process ends before."""
        async with asyncio.timeout(timeout), self.news:
            while True:
                for event in self.events:
                    if wanted(event):
                        return event
                    if event["event"] == "ended":
                        raise AssertionError(f"ended with {await self.process.wait()}: {self.events[-4:]}")
                await self.news.wait()

    def steps(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "step"]

    async def end(self, timeout: float = 60) -> int:
        async with asyncio.timeout(timeout):
            status = await self.process.wait()
            assert self.reader is not None
            await self.reader
        return status


async def launch(program: Path, folder: Path) -> TrainerProcess:
    """Runs a program with the options that lie in its folder."""
    with (folder / "errors.log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(program), str(folder / "options.json"), stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    trainer = TrainerProcess(process)
    trainer.reader = asyncio.create_task(trainer.read())
    return trainer


async def stop(trainers: list[TrainerProcess]) -> None:
    """Ends what still runs."""
    for trainer in trainers:
        if trainer.process.returncode is None:
            trainer.process.kill()
        await trainer.process.wait()
        assert trainer.reader is not None
        await trainer.reader


def is_(kind: str) -> Callable[[Event], bool]:
    return lambda event: event["event"] == kind


@dataclass
class World:
    """Everything around the trainers. Accounts are developer accounts of the chain."""

    folder: Path
    rpc_url: str
    deployment: Path
    host: Host
    trainers: list[TrainerProcess] = field(default_factory=list)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, folder: Path) -> AsyncIterator[Self]:
        spec = chains.ChainSpec("embedded", block_time=1)
        with await asyncio.to_thread(chains.launch, spec, folder / "chain.log") as chain:
            rpc = Rpc(chain.rpc_url)
            sender = Sender(rpc, wallet(0), folder / "deployer")
            path = folder / "deployment.json"
            deployment = await asyncio.to_thread(deploy, rpc, sender, path, Parameters())
            grants = {wallet(account).address: Funds(tokens=2_000 * HYDRA) for account in range(1, 8)}
            await asyncio.to_thread(fund, sender, deployment, grants)
            async with Host.start(folder / "sponsor") as host:
                world = cls(folder, chain.rpc_url, path, host)
                await asyncio.to_thread(actions.stake, world.client(VALIDATOR), Role.VALIDATOR, STAKE)
                try:
                    yield world
                finally:
                    await world.stop()

    def client(self, account: int) -> ChainClient:
        return connect(self.rpc_url, self.deployment, wallet(account), self.folder / f"account-{account}")

    def add_dataset(self, count: int = 600) -> str:
        """A dataset of digits in the sponsor's store; its CID."""
        digits = load_digits()
        schema = items.Schema("u1", (8, 8), 16, 10)
        payload = items.pack(schema, items.from_arrays(schema, digits.images[:count], digits.target[:count]))
        entry = dataset.Entry(
            payload=self.host.ipfs.add(payload),
            contributor=wallet(7).address,
            submission=1,
            licence_hash=bytes(32),
            consent_hash=bytes(32),
            accepted=tuple(range(count)),
            scores=(64,) * count,
        )
        manifest = dataset.Manifest(schema=schema, licence="CC0-1.0", rule="all", entries=(entry,))
        return str(self.host.ipfs.put_node(manifest.to_node()))

    def open_job(self, spec: TrainingSpec, spec_cid: str = "") -> int:
        """Escrows and opens a job; blocking. `spec_cid` names a document that nobody serves, perhaps."""
        client = self.client(SPONSOR)
        job = actions.open_job(
            client,
            Kind.TRAINING,
            spec_hash=spec.digest(),
            spec_cid=spec_cid or str(self.host.ipfs.add(spec.canonical_bytes())),
            amount=1_000 * HYDRA,
            exit_time=chain_time(client.rpc) + 86_400,
        )
        terms = TrainingTerms(
            rate_per_sample=HYDRA // 100,
            min_stake=STAKE,
            penalty=PENALTY,
            audit_fee=0,
            steps=spec.steps,
            round_steps=spec.round_steps,
            post_seconds=5,
        )
        client.training.open_training(job, terms)
        return job

    def settle(self, job: int, paid: dict[int, int], *, cheats: tuple[int, ...] = (), last: bool = True) -> None:
        """The only validator attests what accounts have earned; blocking."""
        client = self.client(VALIDATOR)
        tree = RewardTree(job, [Reward(wallet(who).address.lower(), wei, bytes(32)) for who, wei in paid.items()])
        cid = self.host.ipfs.put_node({"leaves": tree.leaves()})
        number = client.training.settled_rounds(job)
        named = [wallet(who).address for who in cheats]
        client.training.attest(job, number, tree.root, tree.total, named, last, str(cid))

    async def train(self, account: int, **options: Any) -> TrainerProcess:
        """Starts (again) the trainer of an account."""
        folder = self.folder / f"trainer-{account}"
        folder.mkdir(exist_ok=True)
        (folder / "options.json").write_text(
            json.dumps(
                {
                    "folder": str(folder),
                    "account": account,
                    "rpc": self.rpc_url,
                    "deployment": str(self.deployment),
                    "stake": STAKE,
                    "bootstrap": [str(self.host.address)],
                    **options,
                }
            )
        )
        trainer = await launch(PROGRAM, folder)
        self.trainers.append(trainer)
        return trainer

    def store(self, account: int) -> BlockStore:
        """The blocks of an account's trainer, which it may be using."""
        return BlockStore(self.folder / f"trainer-{account}" / "store")

    async def stop(self) -> None:
        await stop(self.trainers)


def wallet(account: int) -> Wallet:
    return Wallet.from_key(dev_accounts(chains.DEV_MNEMONIC, account + 1)[account].key)
