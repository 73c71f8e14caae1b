"""Sending: nonces across processes, stuck and lost transactions, failures after the simulation."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.outbox import OutboxDamaged, TxState
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.rpc import SEND, Rpc, RpcUnavailable
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import ContractCall, TransactionReplaced, TransactionTimeout
from hydra_node.chain.wallet import Kdf, Wallet, WalletStore

if TYPE_CHECKING:
    from conftest import Network

PASSWORD = "only for tests"
SECONDS = 600

SEND_MANY = """
import os, sys
from pathlib import Path
from hydra_node.chain.contracts import connect
from hydra_node.chain.wallet import WalletStore

url, directory, receiver, count, how = sys.argv[1:]
wallet = WalletStore(Path(directory)).load("ada", os.environ["HYDRA_PASSWORD"])
client = connect(url, Path(directory) / "deployment.json", wallet, Path(directory) / "state")
if how == "one by one":
    for _ in range(int(count)):
        client.token.transfer(receiver, 1)
else:
    client.sender.send_all([client.token.call("transfer", receiver, 1)] * int(count))
"""


def send_from_two_processes(network: Network, directory: Path, count: int, how: str) -> None:
    """Two processes with the same account and state directory each send `count` transfers at the same time."""
    account = network.account(gas=10**19, tokens=2 * count)
    WalletStore(directory, kdf=Kdf.LIGHT).import_key("ada", account.key, PASSWORD)
    network.deployment.save(directory / "deployment.json")
    receiver = Wallet.create().address
    arguments = [network.url, str(directory), receiver, str(count), how]
    senders = [
        subprocess.Popen(
            [sys.executable, "-c", SEND_MANY, *arguments],
            env={**os.environ, "HYDRA_PASSWORD": PASSWORD},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    errors = [sender.communicate(timeout=SECONDS)[1] for sender in senders]
    assert ([sender.returncode for sender in senders], errors) == ([0, 0], ["", ""])
    reader = ChainClient(network.rpc, network.deployment)
    assert reader.token.balance_of(receiver) == 2 * count
    sender = Sender(network.rpc, account.wallet, directory / "state")
    assert sorted(entry.nonce for entry in sender.outbox.in_state(TxState.FINAL)) == list(range(2 * count))
    assert int(network.rpc.request("eth_getTransactionCount", account.wallet.address, "latest"), 16) == 2 * count


def test_two_processes_on_one_account_never_meet_on_a_nonce(network: Network, tmp_path: Path) -> None:
    send_from_two_processes(network, tmp_path, 50, "one by one")


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_nor_when_each_sends_two_hundred(network: Network, tmp_path: Path) -> None:
    send_from_two_processes(network, tmp_path, 200, "one by one")


def test_nor_when_many_transactions_wait_for_one_block(paced_network: Network, tmp_path: Path) -> None:
    send_from_two_processes(paced_network, tmp_path, 25, "all at once")


def test_threads_share_a_sender(network: Network) -> None:
    client = network.client(tokens=20)
    receiver = Wallet.create().address
    with ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lambda _: client.token.transfer(receiver, 1), range(20)))
    assert len({receipt.tx_hash for receipt in receipts}) == 20
    assert client.token.balance_of(receiver) == 20


def test_somebody_who_ignores_the_lock_costs_a_retry_not_the_transaction(network: Network, tmp_path: Path) -> None:
    wallet = network.account().wallet
    ours, theirs = (Sender(network.rpc, wallet, tmp_path / name) for name in ("ours", "theirs"))
    call = ContractCall("gift", network.treasury.address, b"", value=1)
    for sender in (ours, theirs, theirs, ours, theirs, ours):
        sender.send(call)
    assert int(network.rpc.request("eth_getTransactionCount", wallet.address, "latest"), 16) == 6


class ReplyLost(Rpc):
    """The chain takes every transaction, and no answer to one ever comes."""

    def request(self, method: str, *params: Any) -> Any:
        answer = super().request(method, *params)
        if method == SEND:
            raise RpcUnavailable("the answer got lost")
        return answer


class RequestLost(Rpc):
    """Every second transaction is lost on the way to the chain."""

    sent = 0

    def request(self, method: str, *params: Any) -> Any:
        if method == SEND:
            self.sent += 1
            if self.sent % 2:
                raise RpcUnavailable("the request got lost")
        return super().request(method, *params)


@pytest.mark.parametrize("loss", [ReplyLost, RequestLost])
def test_a_transaction_with_a_lost_request_or_answer_is_sent_once(
    network: Network, tmp_path: Path, loss: type[Rpc]
) -> None:
    account = network.account()
    sender = Sender(loss(network.url), account.wallet, tmp_path)
    for _ in range(3):
        sender.send(network.treasury.token.call("approve", sender.address, 1))
    assert int(network.rpc.request("eth_getTransactionCount", sender.address, "latest"), 16) == 3


@pytest.mark.parametrize("loss", [ReplyLost, RequestLost])
def test_and_when_it_waits_for_its_block(paced_network: Network, tmp_path: Path, loss: type[Rpc]) -> None:
    account = paced_network.account()
    sender = Sender(loss(paced_network.url), account.wallet, tmp_path)
    sender.send_all([paced_network.treasury.token.call("approve", sender.address, amount) for amount in range(3)])
    assert int(paced_network.rpc.request("eth_getTransactionCount", sender.address, "latest"), 16) == 3


def test_a_damaged_outbox_is_named_not_overwritten(network: Network, tmp_path: Path) -> None:
    """It may have held what was sent: nobody but its owner can say that this does not matter."""
    wallet = network.account().wallet
    Sender(network.rpc, wallet, tmp_path).send(ContractCall("gift", network.treasury.address, b"", value=1))
    (file,) = (tmp_path / "outbox").glob("*.sqlite")
    for side in tmp_path.glob("outbox/*.sqlite-*"):
        side.unlink()
    file.write_bytes(b"\x00garbage" * 1000)
    with pytest.raises(OutboxDamaged, match=file.name):
        Sender(network.rpc, wallet, tmp_path)
    assert file.read_bytes() == b"\x00garbage" * 1000


def test_what_fails_only_when_mined_is_an_error_with_its_reason(anvil_network: Network) -> None:
    """Two transfers of everything pass the simulation; the second fails in the block."""
    network = anvil_network
    client = network.client(tokens=10)
    assert client.sender is not None
    with mining_stopped(network):
        simulated = client.sender.simulate(client.token.call("transfer", network.treasury.address, 10))
        sent = [client.sender.submit(simulated) for _ in range(2)]
        network.rpc.request("anvil_mine", "0x1")
    assert client.sender.wait(sent[0]).event("Transfer").args["value"] == 10
    with pytest.raises(Reverted) as caught:
        client.sender.wait(sent[1])
    assert caught.value.error_name == "ERC20InsufficientBalance"
    assert caught.value.error_args["balance"] == 0
    assert caught.value.transaction == f"0x{sent[1].hashes[0].hex()}"


def test_a_stuck_transaction_is_offered_again_for_more_and_mined_once(anvil_network: Network, tmp_path: Path) -> None:
    network = anvil_network
    wallet, receiver = network.account().wallet, Wallet.create().address
    sender = Sender(network.rpc, wallet, tmp_path, bump_seconds=0.0, bump_blocks=0)
    with mining_stopped(network):
        sent = sender.submit(sender.simulate(ContractCall("gift", receiver, b"", value=7)))
        with pytest.raises(TransactionTimeout, match="may still be mined") as caught:
            sender.wait(sent, timeout=0.3)
        offered = caught.value.sent
        assert len(offered.hashes) > 1
        fees = [offer.fees.limit for offer in sender.outbox.entry(sent.number).offers]
        assert fees == sorted(set(fees)), "each offer is higher than the one before"
        network.rpc.request("anvil_mine", "0x1")
    receipt = sender.wait(offered)
    assert receipt.tx_hash in offered.hashes
    assert int(network.rpc.request("eth_getBalance", receiver, "latest"), 16) == 7


def test_a_transaction_whose_nonce_was_taken_is_named(anvil_network: Network, tmp_path: Path) -> None:
    network = anvil_network
    wallet, receiver = network.account().wallet, Wallet.create().address
    sender = Sender(network.rpc, wallet, tmp_path / "ours", bump_seconds=0.0, bump_blocks=0)
    with mining_stopped(network):
        sent = sender.submit(sender.simulate(ContractCall("gift", receiver, b"", value=7)))
        network.rpc.request("anvil_dropTransaction", f"0x{sent.hashes[0].hex()}")
        theirs = Sender(network.rpc, wallet, tmp_path / "theirs")
        theirs.submit(theirs.simulate(ContractCall("gift", receiver, b"", value=1)))
        network.rpc.request("anvil_mine", "0x1")
    with pytest.raises(TransactionReplaced, match="took the nonce 0"):
        sender.wait(sent, timeout=10)


def test_confirmations_are_waited_for(anvil_network: Network, tmp_path: Path) -> None:
    network = anvil_network
    sender = Sender(network.rpc, network.account().wallet, tmp_path)
    sent = sender.submit(sender.simulate(ContractCall("gift", network.treasury.address, b"", value=1)))
    with pytest.raises(TransactionTimeout):
        sender.wait(sent, timeout=0.3, confirmations=2)
    network.rpc.request("anvil_mine", "0x2")
    assert sender.wait(sent, timeout=10, confirmations=2).block > 0


class mining_stopped:
    """Anvil makes no blocks inside, except when asked to."""

    def __init__(self, network: Network) -> None:
        self._rpc = network.rpc

    def __enter__(self) -> None:
        self._rpc.request("evm_setAutomine", False)

    def __exit__(self, *error: object) -> None:
        self._rpc.request("evm_setAutomine", True)
