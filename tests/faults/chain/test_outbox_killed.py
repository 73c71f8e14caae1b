"""Killed at any moment, behind a network that fails in every way: each payment is made once."""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fault_proxy import FaultProxy, Plan
from mortal import MOMENTS, pay

from hydra_node.chain.outbox import TxState
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import ContractCall
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet.chains import ChainNotInstalled, ChainSpec, Kind, LocalChain, launch

SCHEDULES = int(os.environ.get("HYDRA_SCHEDULES", "60"))
SEED = int(os.environ.get("HYDRA_SEED", "1"))
PAYMENTS = 3
DEATHS = 3
LIVES = 30
SECONDS_A_LIFE = 60.0
WEI_FOR_GAS = 10**16

# Processes are forked from one that has everything imported: hundreds of them would else spend their time importing.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["mortal"])
# Where that process finds the module: it does not take this one's sys.path.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="module", params=["embedded", "anvil"])
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """A chain that mines each transaction at once."""
    kind: Kind = request.param
    try:
        started = launch(ChainSpec(kind, block_time=0), tmp_path_factory.mktemp(kind) / "chain.log")
    except ChainNotInstalled as missing:
        pytest.skip(str(missing))
    with started:
        yield started


@pytest.mark.timeout(1200)
def test_every_payment_is_made_once(chain: LocalChain, tmp_path: Path) -> None:
    """Random schedules of deaths and faults; a failing seed runs alone with HYDRA_SEED=seed HYDRA_SCHEDULES=1."""
    rpc = Rpc(chain.rpc_url)
    funder = Sender(rpc, Wallet.from_key(chain.deployer_key()), tmp_path / "funder")
    deaths: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    with FaultProxy(chain.rpc_url, Plan(0, 0.0)) as proxy, FaultProxy(chain.rpc_url, Plan(0, 0.0)) as other:
        for seed in range(SEED, SEED + SCHEDULES // 2):
            endpoints = [proxy, other] if seed % 2 else [proxy]
            deaths += schedule(seed, rpc, funder, endpoints, tmp_path / str(seed))
        faults.update(proxy.seen)
        assert other.seen or SCHEDULES < 60
    # The schedules count only if everything came up.
    if SCHEDULES >= 60:
        assert set(deaths) == {*MOMENTS, "before send", "after send"}
        assert len(faults) == 8


def schedule(seed: int, rpc: Rpc, funder: Sender, endpoints: list[FaultProxy], folder: Path) -> Counter[str]:
    """One account's payments, through deaths and faults of every endpoint. Returns the moments of the deaths."""
    chance = random.Random(seed)
    key = secrets.token_bytes(32)
    wallet = Wallet.from_key(key)
    funder.send(ContractCall("gas", wallet.address, b"", value=WEI_FOR_GAS, gas=21_000))
    receivers = [Wallet.create().address for _ in range(PAYMENTS)]
    moments = [chance.choice([*MOMENTS, "before send", "after send"]) for _ in range(chance.randint(1, DEATHS))]
    died: Counter[str] = Counter()
    rate = chance.choice([0.0, 0.1, 0.3])
    for number, endpoint in enumerate(endpoints):
        endpoint.plan = Plan(seed + number, rate)
    for _ in range(LIVES):
        moment = moments.pop() if moments else ""
        status = live(endpoints, key, folder, receivers, moment)
        if status == -signal.SIGKILL:
            died[moment] += 1
        elif status == 3:
            for endpoint in endpoints:
                endpoint.plan.rate /= 2
        else:
            assert status == 0, f"seed {seed}: the process ended with {status}"
            break
    else:
        raise AssertionError(f"seed {seed}: not done after {LIVES} lives")
    check(seed, rpc, wallet, folder, receivers)
    return died


def live(endpoints: list[FaultProxy], key: bytes, folder: Path, receivers: list[str], moment: str) -> int | None:
    """One process from its start to its end; its exit status."""
    urls = ",".join(endpoint.url for endpoint in endpoints)
    process = FORKS.Process(target=pay, args=(urls, key, str(folder), receivers, moment))

    def strike(now: str) -> None:
        if moment == f"{now} send" and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)

    for endpoint in endpoints:
        endpoint.plan.on_send = strike
    process.start()
    process.join(SECONDS_A_LIFE)
    for endpoint in endpoints:
        endpoint.plan.on_send = lambda _moment: None
    assert not process.is_alive(), "the process hangs"
    return process.exitcode


def check(seed: int, rpc: Rpc, wallet: Wallet, folder: Path, receivers: list[str]) -> None:
    """On chain and in the outbox: each payment once, none left open, no gap."""
    balances = [int(rpc.request("eth_getBalance", receiver, "latest"), 16) for receiver in receivers]
    assert balances == [1] * PAYMENTS, f"seed {seed}"
    used = int(rpc.request("eth_getTransactionCount", wallet.address, "pending"), 16)
    assert used == PAYMENTS, f"seed {seed}: {used} transactions for {PAYMENTS} payments"
    entries = Sender(rpc, wallet, folder).outbox.entries()
    final = [entry for entry in entries if entry.state is TxState.FINAL]
    assert sorted(entry.key or "" for entry in final) == sorted(receivers), f"seed {seed}"
    assert all(entry.reason for entry in entries if entry.state is TxState.FAILED), f"seed {seed}"
    assert {entry.state for entry in entries} <= {TxState.FINAL, TxState.FAILED}, f"seed {seed}"
