"""The whole story on one machine: every participant a process of its own, from the first block to balanced books.

The demo starts, kills and restarts processes and reads what they print; it takes no part in what they do. Whatever
goes wrong is left for the report to find: it is computed in the end by another process, from the chain and the store.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hydra_node.chain.deployment import Deployment
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.wallet import Kdf, Wallet, WalletStore
from hydra_node.devnet import brownie, chains, workspace
from hydra_node.devnet.cast import CONTRIBUTORS, EVERYONE, SPONSOR, TERMS, TRAINERS, VALIDATORS, Role
from hydra_node.devnet.deploy import PLAN, Funds, Parameters, deploy, fund
from hydra_node.devnet.scenario import digits_scenario
from hydra_node.devnet.supervisor import Event, Participant, ParticipantFailed, Supervisor
from hydra_node.errors import HydraError

NODE, VALIDATOR = "hydra_node", "hydra_validator"
ETHER = 10**18
LICENCE = "CC0-1.0"
THAW_SECONDS = 30
ACTIVATION_SECONDS = 2
PORT_TRIES = 3

Listener = Callable[[str, Event], None]
Stage = Callable[[str], None]


class UnknownPart(HydraError):
    """`--without` names nothing that takes part in the demo."""


def parts() -> frozenset[str]:
    """Everything that a demo can be run without: participants, kinds of them, contracts."""
    contracts = {f"contract:{step['contract']}" for step in json.loads(PLAN.read_text())["deployments"]}
    kinds = {role.kind for role in EVERYONE}
    return frozenset(contracts | kinds | {f"{kind}s" for kind in kinds} | {role.name for role in EVERYONE} | {"serve"})


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run. `without` leaves out participants by name or kind, or the code of a contract (contract:NAME)."""

    chain: str = "embedded"
    seed: int = 1
    out: Path = Path("build/demo-report.json")
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := sorted(self.without - parts()):
            raise UnknownPart(
                f"{unknown[0]!r} takes no part in the demo", expected=f"one of {', '.join(sorted(parts()))}"
            )

    @property
    def workspace(self) -> Path:
        return workspace.beside(self.out)


@dataclass(slots=True)
class Network:
    """What every participant is told on its command line."""

    rpc_url: str
    deployment: Path
    bootstrap: tuple[str, ...] = ()


@dataclass(slots=True)
class Demo:
    """One run of the story."""

    options: DemoOptions
    supervisor: Supervisor
    stage: Stage
    network: Network | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.time)

    async def run(self) -> dict[str, Any]:
        """Play the story and return the report, in whatever state things ended. The workspace is held meanwhile."""
        self._prepare_workspace()
        async with self.supervisor.running():
            self.stage("a chain comes up and the contracts are deployed")
            self.network = await self._network()
            for act in (self._campaign, self._training, self._claims):
                try:
                    await act()
                except ParticipantFailed as error:
                    self.failures.append(str(error))
                    self.stage(f"trouble: {error}")
            self.stage("another process computes the report from the chain and the store")
            return await self._report()

    # --- preparation --------------------------------------------------------------------------------------------

    def _prepare_workspace(self) -> None:
        workspace.empty(self.options.workspace)
        self.options.out.unlink(missing_ok=True)
        scenario = digits_scenario(self.options.seed)
        for role in EVERYONE:
            folder = self._folder(role.name)
            folder.mkdir()
            password = WalletStore(folder / "keystore", kdf=Kdf.LIGHT)
            secret = folder / "password"
            secret.touch(mode=0o600)
            secret.write_text(f"password of {role.name}\n", encoding="utf-8")
            self.addresses[role.name] = password.new(role.name, f"password of {role.name}").address
        scenario.reference.save(self._folder(SPONSOR.name) / "reference.npz")
        scenario.test.save(self._test)
        for name, part in scenario.contributors.items():
            part.save(self._folder(name) / "data.npz")

    def _folder(self, name: str) -> Path:
        return self.options.workspace / name

    @property
    def _test(self) -> Path:
        return self.options.workspace / "test.npz"

    @property
    def _single(self) -> Path:
        return self.options.workspace / "single.json"

    def _wanted(self, role: Role) -> bool:
        return not {role.name, role.kind, f"{role.kind}s"} & self.options.without

    def _wanted_of(self, roles: Sequence[Role]) -> list[Role]:
        return [role for role in roles if self._wanted(role)]

    async def _network(self) -> Network:
        chain = await self._chain()
        path = self.options.workspace / "deployment.json"
        rpc = Rpc(chain.rpc_url, chain_id=chain.chain_id)
        wallet = Wallet.from_key(chain.deployer_key())
        sender = Sender(rpc, wallet, self.options.workspace / "deployer")
        parameters = Parameters(thaw_seconds=THAW_SECONDS, activation_seconds=ACTIVATION_SECONDS)
        if self.options.chain == "ganache":
            await asyncio.to_thread(brownie.deploy, chain.rpc_url, path, parameters, self.options.workspace)
            deployment = Deployment.load(path)
            await asyncio.to_thread(deployment.check, rpc)
        else:
            deployment = await asyncio.to_thread(deploy, rpc, sender, path, parameters)
        grants = {self.addresses[role.name]: Funds(ether=10 * ETHER, tokens=role.tokens) for role in EVERYONE}
        await asyncio.to_thread(fund, sender, deployment, grants)
        self._remove_contracts(deployment, path)
        return Network(chain.rpc_url, path, await self._first_peer())

    async def _chain(self) -> chains.LocalChain:
        kind = chains.parse_kind(self.options.chain)
        if kind is None:
            return await asyncio.to_thread(chains.attach, self.options.chain)
        for _ in range(PORT_TRIES):
            started = await self._start_chain(kind)
            if started is not None:
                return started
        raise ParticipantFailed("the chain ended at once", remedy=f"see {self.supervisor.log_dir / 'chain.log'}")

    async def _start_chain(self, kind: chains.Kind) -> chains.LocalChain | None:
        """The chain, or None when it ended at once: its port may have been taken since it was found free."""
        data = self.options.workspace / "chain"
        data.mkdir(exist_ok=True)
        spec = chains.ChainSpec(kind, block_time=1, data=data)
        todo = chains.command(spec)
        participant = await self.supervisor.start("chain", todo.arguments)
        ready = asyncio.create_task(asyncio.to_thread(chains.wait_ready, todo.rpc_url, timeout=chains.START_SECONDS))
        assert participant.process is not None
        ended = asyncio.create_task(participant.process.wait())
        await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            ready.cancel()
            return None
        ended.cancel()
        return chains.LocalChain(todo.rpc_url, await ready)

    def _remove_contracts(self, deployment: Deployment, path: Path) -> None:
        removed = [name.removeprefix("contract:") for name in self.options.without if name.startswith("contract:")]
        if removed:
            addresses = {**deployment.addresses, **dict.fromkeys(removed, f"0x{0xDEAD:040x}")}
            deployment.model_copy(update={"addresses": addresses}).save(path)

    async def _first_peer(self) -> tuple[str, ...]:
        if "serve" in self.options.without:
            return ()
        command = _python(NODE, "serve", "--data-dir", str(self._folder("serve")), "--json")
        peer = await self.supervisor.start("serve", command)
        return (str((await peer.wait_for(_is("serving"), "its address", 60))["address"]),)

    # --- the acts -----------------------------------------------------------------------------------------------

    async def _campaign(self) -> None:
        self.stage("validators stake; the sponsor opens a campaign for labelled digits")
        for role in self._wanted_of(VALIDATORS):
            await self._start(
                role, VALIDATOR, "run", "--stake", f"{TERMS.validator_stake} wei", "--yes", *_adversary(role)
            )
        sponsor = await self._start(SPONSOR, NODE, *self._campaign_arguments())
        campaign = str((await sponsor.wait_for(_is("campaign_created"), "an open campaign", 60))["campaign"])
        self.stage("contributors commit to their data, honest and dishonest")
        contributors = self._wanted_of(CONTRIBUTORS)
        early = [role for role in contributors if role.adversary != "copies"]
        await self._all([await self._contribute(role, campaign) for role in early], "committed", 60)
        late = [role for role in contributors if role not in early]
        await self._all([await self._contribute(role, campaign) for role in late], "committed", 30)
        self.stage("trainers stake and wait for work; contributors reveal")
        for role in self._wanted_of(TRAINERS):
            await self._start(role, NODE, *_training_arguments(role))
        self.stage("validators fetch, score, commit and reveal")
        await sponsor.wait_for(_is("dataset"), "an accepted dataset", 200)
        await sponsor.wait_end(60)

    async def _training(self) -> None:
        sponsor = self.supervisor.participants.get(SPONSOR.name)
        dataset = sponsor.last("dataset") if sponsor else None
        if dataset is None:
            raise ParticipantFailed("there is no dataset to train on")
        self.stage("the accepted data became a dataset; the sponsor opens a training job on it")
        sponsor = await self._start(SPONSOR, NODE, *self._job_arguments(str(dataset["cid"])))
        await sponsor.wait_for(_is("job_created"), "an open training job", 60)
        self.stage("trainers train by All-Reduce, peer to peer")
        for role in self._wanted_of(TRAINERS):
            if role.fate:
                await self._kill_and_restart(role)
        await sponsor.wait_for(_is("job_settled"), "the settlement of the training", 240)
        await sponsor.wait_end(60)

    async def _kill_and_restart(self, role: Role) -> None:
        trainer = self.supervisor.participants[role.name]
        half = TERMS.steps // 2
        await trainer.wait_for(lambda event: event.get("event") == "step" and event["step"] >= half, "half way", 180)
        await self.supervisor.kill(role.name)
        self.stage(f"trainer {role.name} is killed with SIGKILL; the others go on; it is started again")
        await self.supervisor.restart(role.name)

    async def _claims(self) -> None:
        self.stage("everyone claims; beside it the same job is trained plainly in one process")
        single = await self._single_process()
        started = self.supervisor.participants
        running = [started[role.name] for role in (*CONTRIBUTORS, *TRAINERS) if role.name in started]
        await asyncio.gather(*(self._ended(participant) for participant in running))
        claims = [await self._claim(role) for role in self._wanted_of(VALIDATORS)]
        await asyncio.gather(*(self._ended(participant) for participant in (*claims, single)))

    async def _single_process(self) -> Participant:
        files = ("--data-dir", str(self._folder("single")), "--test", str(self._test), "--out", str(self._single))
        arguments = [*self._network_arguments(), *files]
        return await self.supervisor.start("single", _python("hydra_node.devnet.single", *arguments))

    async def _claim(self, role: Role) -> Participant:
        command = _python(NODE, "claim", *self._network_arguments(), *self._wallet(role), "--json")
        return await self.supervisor.start(f"{role.name}-claim", command)

    async def _ended(self, participant: Participant) -> None:
        try:
            await participant.wait_end(90)
        except ParticipantFailed as error:
            self.failures.append(str(error))
            await self.supervisor.stop(participant.name)

    async def _report(self) -> dict[str, Any]:
        cast = {role.name: {**asdict(role), "address": self.addresses[role.name]} for role in EVERYONE}
        cast_file = self.options.workspace / "cast.json"
        cast_file.write_text(json.dumps(cast), encoding="utf-8")
        arguments = [
            *self._network_arguments(),
            *("--data-dir", str(self._folder("report"))),
            *("--cast", str(cast_file), "--test", str(self._test), "--single", str(self._single)),
            *("--processes", str(len(self.supervisor.participants) + 1), "--started", str(self.started)),
            *("--peak-memory", str(self.supervisor.peak_memory), "--out", str(self.options.out)),
        ]
        process = await self.supervisor.start("report", _python("hydra_node.devnet.report", *arguments))
        await process.wait_end(180)
        try:
            report: dict[str, Any] = json.loads(self.options.out.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ParticipantFailed("the report was not written", remedy=f"see {process.log}") from None
        return report

    # --- command lines ------------------------------------------------------------------------------------------

    async def _start(self, role: Role, module: str, *arguments: str) -> Participant:
        if not self._wanted(role):
            raise ParticipantFailed(f"{role.name} was left out")
        command = _python(module, *arguments, *self._common(role), "--json")
        return await self.supervisor.start(role.name, command)

    async def _contribute(self, role: Role, campaign: str) -> Participant:
        file = str(self._folder(role.name) / "data.npz")
        arguments = ("data", "submit", "--campaign", campaign, "--file", file, "--licence", LICENCE, "--yes")
        return await self._start(role, NODE, *arguments)

    async def _all(self, participants: Sequence[Participant], event: str, timeout: float) -> None:
        waits: list[Awaitable[Event]] = [p.wait_for(_is(event), event, timeout) for p in participants]
        for result in await asyncio.gather(*waits, return_exceptions=True):
            if isinstance(result, ParticipantFailed):
                self.failures.append(str(result))
            elif isinstance(result, BaseException):
                raise result

    def _common(self, role: Role) -> list[str]:
        data = self._folder(role.name) / "data"
        return [*self._network_arguments(), *self._wallet(role), "--data-dir", str(data)]

    def _wallet(self, role: Role) -> list[str]:
        home = self._folder(role.name)
        secret = ("--password-file", str(home / "password"))
        return ["--keystore", str(home / "keystore"), "--wallet", role.name, *secret]

    def _network_arguments(self) -> list[str]:
        assert self.network is not None
        return [
            *("--rpc", self.network.rpc_url, "--deployment", str(self.network.deployment)),
            *(part for peer in self.network.bootstrap for part in ("--bootstrap", peer)),
        ]

    def _campaign_arguments(self) -> list[str]:
        return [
            *("campaign", "create", "--reference", str(self._folder(SPONSOR.name) / "reference.npz")),
            *("--title", "handwritten digits", "--classes", "10", "--scale", "16", "--licence", LICENCE),
            *("--reward", f"{TERMS.campaign_reward} wei", "--bond", f"{TERMS.bond} wei"),
            *("--commit-seconds", str(TERMS.commit_seconds), "--reveal-seconds", str(TERMS.reveal_seconds)),
            *("--score-commit-seconds", str(TERMS.score_commit_seconds)),
            *("--score-reveal-seconds", str(TERMS.score_reveal_seconds)),
            *("--validator-fee", f"{TERMS.validator_fee} wei"),
            *("--validator-penalty", f"{TERMS.validator_penalty} wei", "--yes"),
        ]

    def _job_arguments(self, dataset: str) -> list[str]:
        return [
            *("job", "create", "--dataset", dataset, "--reward", f"{TERMS.training_reward} wei"),
            *("--rate", f"{TERMS.rate_per_sample} wei", "--steps", str(TERMS.steps)),
            *("--batch", str(TERMS.global_batch), "--round-steps", str(TERMS.round_steps)),
            *("--seed", str(self.options.seed)),
            *("--min-stake", f"{TERMS.trainer_min_stake} wei", "--penalty", f"{TERMS.trainer_penalty} wei"),
            *("--min-trainers", str(len(self._wanted_of(TRAINERS)))),
            *("--audit-fee", f"{TERMS.audit_fee} wei", "--post-seconds", str(TERMS.post_seconds)),
            *("--timeout", "240", "--yes"),
        ]


def _training_arguments(role: Role) -> list[str]:
    arguments = ["stake-and-train", "--job", "auto", "--stake", f"{TERMS.trainer_stake} wei", "--yes"]
    if role.cpu_limit < 1:
        arguments += ["--cpu-limit", f"{role.cpu_limit:.4f}"]
    if role.adversary:
        arguments += ["--adversary", f"{role.adversary}@{TERMS.cheat_from_step}"]
    return arguments


def _adversary(role: Role) -> list[str]:
    return ["--adversary", role.adversary] if role.adversary else []


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _is(kind: str) -> Callable[[Event], bool]:
    return lambda event: event.get("event") == kind
