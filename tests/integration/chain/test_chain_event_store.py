"""The store of events on real chains: shared by processes, killed, and taken through a reorganisation."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_node.chain.contracts import ChainClient, connect
from hydra_node.chain.event_store import EventStore
from hydra_node.chain.wallet import Wallet

if TYPE_CHECKING:
    from conftest import Network

READER = multiprocessing.get_context("spawn")


def transfers_to(client: ChainClient, receiver: str) -> list[bytes]:
    client.history.refresh()
    return [event.tx_hash for event in client.history.find("Transfer", "HydraToken", to=receiver)]


def test_each_event_is_there_once(network: Network) -> None:
    client = network.client(tokens=10)
    receiver = Wallet.create().address
    assert transfers_to(client, receiver) == []
    first = client.token.transfer(receiver, 1)
    assert transfers_to(client, receiver) == [first.tx_hash]
    assert transfers_to(client, receiver) == [first.tx_hash]
    second = client.token.transfer(receiver, 1)
    assert transfers_to(client, receiver) == [first.tx_hash, second.tx_hash]
    assert client.history.all() == client.events.poll(0)


def test_a_reorganisation_takes_its_events_back(anvil_network: Network) -> None:
    client = anvil_network.client(tokens=10)
    receiver = Wallet.create().address
    kept = client.token.transfer(receiver, 1)
    snapshot = anvil_network.rpc.request("evm_snapshot")
    lost = client.token.transfer(receiver, 2)
    assert transfers_to(client, receiver) == [kept.tx_hash, lost.tx_hash]

    anvil_network.rpc.request("evm_revert", snapshot)
    assert transfers_to(client, receiver) == [kept.tx_hash]
    anvil_network.rpc.request("evm_increaseTime", 5)
    instead = client.token.transfer(receiver, 3)
    assert (instead.block, instead.block_hash != lost.block_hash) == (lost.block, True)
    assert transfers_to(client, receiver) == [kept.tx_hash, instead.tx_hash]
    assert client.history.all() == client.events.poll(0)


def test_a_reorganisation_of_three_blocks_is_followed(anvil_network: Network) -> None:
    """As a public network has them: the same height, other blocks."""
    client = anvil_network.client(tokens=10)
    receiver = Wallet.create().address
    for _ in range(3):
        client.token.transfer(receiver, 1)
    store = EventStore(client.events, finality=1)
    store.refresh()
    before = [event.block_hash for event in store.find("Transfer", to=receiver)]
    anvil_network.rpc.request("anvil_reorg", 3, [])
    anvil_network.rpc.request("anvil_mine", "0x1")
    store.refresh()
    after = [event.block_hash for event in store.find("Transfer", to=receiver)]
    assert not set(before) & set(after)
    assert store.all() == client.events.poll(0)


def test_events_have_enough_blocks_above_them_to_be_final(anvil_network: Network) -> None:
    client = anvil_network.client(tokens=10)
    receiver = Wallet.create().address
    store = EventStore(client.events, finality=2)
    sent = client.token.transfer(receiver, 1)
    store.refresh()
    assert store.find("Transfer", to=receiver, final=True) == []
    anvil_network.rpc.request("anvil_mine", "0x2")
    store.refresh()
    assert [event.tx_hash for event in store.find("Transfer", to=receiver, final=True)] == [sent.tx_hash]


def read_for_ever(url: str, deployment: Path, folder: Path) -> None:
    client = connect(url, deployment, state_dir=folder)
    while True:
        client.history.refresh()


def test_a_process_killed_while_it_reads_leaves_a_store_to_go_on_with(network: Network, tmp_path: Path) -> None:
    client = network.client(tokens=100)
    receiver = Wallet.create().address
    deployment = tmp_path / "deployment.json"
    network.deployment.save(deployment)
    heir = connect(network.url, deployment, state_dir=tmp_path / "state")
    sent = []
    for _ in range(3):
        reader = READER.Process(target=read_for_ever, args=(network.url, deployment, tmp_path / "state"))
        reader.start()
        try:
            sent += [client.token.transfer(receiver, 1).tx_hash for _ in range(5)]
            assert transfers_to(heir, receiver) == sent
        finally:
            os.kill(reader.pid or 0, signal.SIGKILL)
            reader.join()
    assert heir.history.all() == client.events.poll(0)
    again = connect(network.url, deployment, state_dir=tmp_path / "state")
    assert transfers_to(again, receiver) == sent
