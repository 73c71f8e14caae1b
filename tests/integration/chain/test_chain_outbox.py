"""What an account has sent, across restarts, reorganisations, bumps and cancellations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_chain_sender import mining_stopped

from hydra_node.chain.actions import commit_submission, open_job
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.clock import chain_time
from hydra_node.chain.enums import Kind, Role
from hydra_node.chain.outbox import TxState
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import (
    ContractCall,
    FeeTooLow,
    NotPending,
    TransactionReplaced,
    TransactionTimeout,
)
from hydra_node.chain.wallet import Wallet

if TYPE_CHECKING:
    from conftest import Network

GWEI = 10**9
HYDRA = 10**18


def gift(receiver: str, value: int = 7) -> ContractCall:
    return ContractCall("gift", receiver, b"", value=value, gas=21_000)


def balance(network: Network, account: str) -> int:
    return int(network.rpc.request("eth_getBalance", account, "latest"), 16)


def test_a_key_is_done_once_however_often_it_is_asked_for(network: Network, tmp_path: Path) -> None:
    wallet, receiver = network.account().wallet, Wallet.create().address
    first = Sender(network.rpc, wallet, tmp_path).send(gift(receiver), key="pay")
    again = Sender(network.rpc, wallet, tmp_path).send(gift(receiver), key="pay")
    assert again.tx_hash == first.tx_hash
    assert balance(network, receiver) == 7


def test_a_key_means_something_else_in_another_contract(network: Network) -> None:
    client = network.client(tokens=5)
    receiver = Wallet.create().address
    first = client.token.transfer(receiver, 1, key="once")
    assert client.token.transfer(receiver, 1, key="once").tx_hash == first.tx_hash
    client.token.approve(client.stakes.address, 4)
    with pytest.raises(Reverted, match="minimum"):
        client.stakes.stake(Role.TRAINER, 1, key="once")
    assert client.token.balance_of(receiver) == 1


def test_a_commitment_asked_for_twice_leaves_one_bond(network: Network) -> None:
    sponsor, contributor = network.client(tokens=20 * HYDRA), network.client(tokens=20 * HYDRA)
    exit_time = chain_time(network.rpc) + 100_000
    campaign = open_job(
        sponsor, Kind.CAMPAIGN, spec_hash=bytes(32), spec_cid="bafy", amount=20 * HYDRA, exit_time=exit_time
    )
    sponsor.submissions.open_campaign(campaign, CampaignTerms(600, 60, 60, 60, HYDRA, 10, HYDRA, HYDRA, 0, 0))
    numbers = [commit_submission(contributor, campaign, b"\x07" * 32) for _ in range(2)]
    assert len(set(numbers)) == 1
    assert contributor.token.balance_of(contributor.address) == 19 * HYDRA


def test_what_was_refused_may_be_asked_for_again(network: Network, tmp_path: Path) -> None:
    account = network.account(tokens=5)
    sender = Sender(network.rpc, account.wallet, tmp_path)
    token = network.treasury.token
    with pytest.raises(Reverted):
        sender.send(token.call("transfer", network.treasury.address, 6), key="pay")
    (refused,) = sender.outbox.entries()
    assert refused.state is TxState.FAILED
    assert "are needed" in (refused.reason or "")
    sender.send(token.call("transfer", network.treasury.address, 5), key="pay")
    assert [entry.state for entry in sender.outbox.entries()] == [TxState.FAILED, TxState.FINAL]


def test_what_a_dead_process_never_sent_is_given_up_by_name(network: Network, tmp_path: Path) -> None:
    """One that was asked for with a key waits to be asked for again; one without is nobody's any more."""
    wallet = network.account().wallet
    script = (
        "import os, sys; from pathlib import Path; from hydra_node.chain.outbox import Outbox;"
        "from hydra_node.chain.transactions import ContractCall;"
        "box = Outbox(Path(sys.argv[1])); call = ContractCall('gift', sys.argv[2], b'', value=1, gas=21000);"
        "box.prepare(call); box.prepare(call, 'named'); os.kill(os.getpid(), 9)"
    )
    sender = Sender(network.rpc, wallet, tmp_path)
    (file,) = (tmp_path / "outbox").glob("*.sqlite")
    done = subprocess.run([sys.executable, "-c", script, str(file), wallet.address], env=dict(os.environ), check=False)
    assert done.returncode == -9
    assert sender.settle() == []
    nameless, named = sender.outbox.entries()
    assert (nameless.state, named.state) == (TxState.FAILED, TxState.PREPARED)
    assert "ended before it was sent" in (nameless.reason or "")


def test_a_reorganisation_does_not_lose_a_transaction(anvil_network: Network, tmp_path: Path) -> None:
    """Three blocks are replaced by others without it: it is sent again, the same bytes, and becomes final later."""
    network = anvil_network
    wallet, receiver = network.account().wallet, Wallet.create().address
    sender = Sender(network.rpc, wallet, tmp_path, finality=4)
    receipt = sender.send(gift(receiver))
    network.rpc.request("anvil_mine", "0x2")
    assert sender.outbox.entries()[0].state is TxState.MINED
    with mining_stopped(network):
        network.rpc.request("anvil_rollback", 3)
        network.rpc.request("anvil_mine", "0x5")
        assert balance(network, receiver) == 0
        (open_again,) = sender.settle()
        assert open_again.state is TxState.SENT
        network.rpc.request("anvil_mine", "0x1")
    sender.settle()
    (entry,) = sender.outbox.entries()
    assert entry.state is TxState.MINED
    assert [offer.tx_hash for offer in entry.offers] == [receipt.tx_hash]
    assert balance(network, receiver) == 7
    network.rpc.request("anvil_mine", "0x4")
    assert sender.settle() == []
    assert sender.outbox.entries()[0].state is TxState.FINAL


def test_a_stuck_transaction_is_bumped_up_to_the_limit(anvil_network: Network, tmp_path: Path) -> None:
    network = anvil_network
    wallet, receiver = network.account().wallet, Wallet.create().address
    sender = Sender(network.rpc, wallet, tmp_path)
    with mining_stopped(network):
        sent = sender.submit(sender.simulate(gift(receiver)))
        offered = sender.outbox.entry(sent.number).offers[-1].fees.limit
        sender.max_fee = offered
        with pytest.raises(FeeTooLow, match="gwei"):
            sender.bump(sent.number)
        sender.max_fee = 2 * offered
        assert sender.bump(sent.number).offers[-1].fees.limit > offered
        network.rpc.request("anvil_mine", "0x1")
    assert sender.wait(sent).tx_hash == sender.outbox.entry(sent.number).offers[-1].tx_hash
    with pytest.raises(NotPending, match="final"):
        sender.bump(sent.number)


def test_the_limit_holds_while_it_waits(anvil_network: Network, tmp_path: Path) -> None:
    """Stuck under its limit, it keeps its offer and is mined when blocks come again."""
    network = anvil_network
    wallet, receiver = network.account().wallet, Wallet.create().address
    sender = Sender(network.rpc, wallet, tmp_path, bump_seconds=0.0, bump_blocks=0, max_fee=3 * GWEI)
    with mining_stopped(network):
        sent = sender.submit(sender.simulate(gift(receiver)))
        with pytest.raises(TransactionTimeout):
            sender.wait(sent, timeout=0.5)
        assert all(offer.fees.limit <= 3 * GWEI for offer in sender.outbox.entry(sent.number).offers)
        network.rpc.request("anvil_mine", "0x1")
    sender.wait(sent, timeout=10)
    assert balance(network, receiver) == 7


def test_a_cancelled_transaction_does_nothing(anvil_network: Network, tmp_path: Path) -> None:
    network = anvil_network
    wallet, receiver = network.account().wallet, Wallet.create().address
    sender = Sender(network.rpc, wallet, tmp_path)
    with mining_stopped(network):
        sent = sender.submit(sender.simulate(gift(receiver)))
        sender.cancel(sent.number)
        network.rpc.request("anvil_mine", "0x1")
    with pytest.raises(TransactionReplaced, match="cancelled"):
        sender.wait(sent, timeout=10)
    entry = sender.outbox.entry(sent.number)
    assert (entry.state, entry.reason) == (TxState.REPLACED, "gift was cancelled")
    assert balance(network, receiver) == 0
    sender.send(gift(receiver))
    assert balance(network, receiver) == 7
