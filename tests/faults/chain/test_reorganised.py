"""A chain that replaces its newest three blocks, dropping what was in them: each payment is made once all the same."""

from __future__ import annotations

import os
import random
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fault_proxy import FaultProxy, Plan

from hydra_node.chain.outbox import TxState
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import ContractCall
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet.chains import ChainNotInstalled, ChainSpec, LocalChain, launch

SCHEDULES = int(os.environ.get("HYDRA_SCHEDULES", "60")) // 6
SEED = int(os.environ.get("HYDRA_SEED", "1"))
DEPTH = 3
WEI_FOR_GAS = 10**16
ROUNDS_TO_FINAL = 20


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """An Anvil that mines each transaction at once."""
    try:
        started = launch(ChainSpec("anvil", block_time=0), tmp_path_factory.mktemp("anvil") / "chain.log")
    except ChainNotInstalled as missing:
        pytest.skip(str(missing))
    with started:
        yield started


@pytest.mark.timeout(600)
def test_what_a_reorganisation_dropped_is_sent_again(chain: LocalChain, tmp_path: Path) -> None:
    """Random payments and reorganisations; a failing seed runs alone with HYDRA_SEED=seed HYDRA_SCHEDULES=6."""
    rpc = Rpc(chain.rpc_url)
    funder = Sender(rpc, Wallet.from_key(chain.deployer_key()), tmp_path / "funder")
    dropped = 0
    with FaultProxy(chain.rpc_url, Plan(0, 0.0)) as proxy:
        for seed in range(SEED, SEED + SCHEDULES):
            dropped += schedule(seed, rpc, funder, proxy, tmp_path / str(seed))
    if SCHEDULES >= 10:
        assert dropped > SCHEDULES


def schedule(seed: int, rpc: Rpc, funder: Sender, proxy: FaultProxy, folder: Path) -> int:
    """One account's payments with a reorganisation after each by chance. Returns how many payments were dropped."""
    chance = random.Random(seed)
    wallet = Wallet.from_key(secrets.token_bytes(32))
    funder.send(ContractCall("gas", wallet.address, b"", value=WEI_FOR_GAS, gas=21_000))
    rpc.request("anvil_mine", hex(DEPTH))  # below this nothing is taken back
    proxy.plan = Plan(seed, chance.choice([0.0, 0.1]))
    sender = Sender(Rpc(proxy.url), wallet, folder, finality=DEPTH, bump_seconds=0.5, bump_blocks=0)
    receivers = [Wallet.create().address for _ in range(5)]
    dropped = 0
    for receiver in receivers:
        sender.send(ContractCall("payment", receiver, b"", value=1, gas=21_000), key=receiver)
        if chance.random() < 0.5:
            before = mined(rpc, wallet)
            rpc.request("anvil_reorg", DEPTH, [])
            dropped += before - mined(rpc, wallet)
        if chance.random() < 0.3:
            sender = Sender(Rpc(proxy.url), wallet, folder, finality=DEPTH, bump_seconds=0.5, bump_blocks=0)
    for _ in range(ROUNDS_TO_FINAL):
        if not sender.settle():
            break
        rpc.request("anvil_mine", "0x1")
    balances = [int(rpc.request("eth_getBalance", receiver, "latest"), 16) for receiver in receivers]
    assert balances == [1] * len(receivers), f"seed {seed}"
    assert mined(rpc, wallet) == len(receivers), f"seed {seed}"
    entries = sender.outbox.entries()
    assert {entry.state for entry in entries} == {TxState.FINAL}, f"seed {seed}"
    assert sorted(entry.key or "" for entry in entries) == sorted(receivers), f"seed {seed}"
    return dropped


def mined(rpc: Rpc, wallet: Wallet) -> int:
    return int(rpc.request("eth_getTransactionCount", wallet.address, "latest"), 16)
