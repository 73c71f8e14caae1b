"""Events: decoded, complete over chunks, and followed through a reorganisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_node.chain.actions import commit_submission, open_job, stake, top_up
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.clock import chain_time
from hydra_node.chain.enums import Kind, Role
from hydra_node.chain.events import EventLog
from hydra_node.chain.feed import EventFeed
from hydra_node.chain.wallet import Wallet

if TYPE_CHECKING:
    from conftest import Network

HYDRA = 10**18


def test_events_of_all_contracts_come_in_the_order_of_the_chain(network: Network) -> None:
    client = network.client(tokens=100 * HYDRA)
    start = client.events.head() + 1
    stake(client, Role.VALIDATOR, 30 * HYDRA)
    exit_time = chain_time(network.rpc) + 100_000
    job_id = open_job(
        client, Kind.CAMPAIGN, spec_hash=bytes(32), spec_cid="bafy", amount=20 * HYDRA, exit_time=exit_time
    )
    top_up(client, job_id, HYDRA)
    client.submissions.open_campaign(job_id, CampaignTerms(60, 60, 60, 60, HYDRA, 10, HYDRA, HYDRA, 0, 0))
    submission_id = commit_submission(client, job_id, b"\x07" * 32)

    events = client.events.poll(start)
    assert [event.name for event in events if event.contract != "HydraToken"] == [
        "Staked",
        "JobOpened",
        "ToppedUp",
        "CampaignOpened",
        "StateChanged",
        "Committed",
    ]
    assert {event.name for event in events if event.contract == "HydraToken"} == {"Approval", "Transfer"}
    committed = next(event for event in events if event.name == "Committed")
    assert committed.args == {
        "submissionId": submission_id,
        "jobId": job_id,
        "contributor": client.address,
        "commitment": b"\x07" * 32,
    }
    block = network.rpc.request("eth_getBlockByNumber", hex(committed.block), False)
    assert committed.block_hash == bytes.fromhex(block["hash"][2:])
    assert committed.timestamp == int(block["timestamp"], 16)
    order = [(event.block, event.log_index) for event in events]
    assert order == sorted(order)


def test_chunks_lose_and_repeat_nothing(network: Network) -> None:
    client = network.client(tokens=10)
    start = client.events.head() + 1
    receiver = Wallet.create().address
    for _ in range(7):
        client.token.transfer(receiver, 1)
    whole = EventLog(network.rpc, network.deployment).poll(start)
    assert len(whole) == 7
    assert EventLog(network.rpc, network.deployment, chunk=2).poll(start) == whole
    assert EventLog(network.rpc, network.deployment).poll(start, start + 2) == whole[:3]
    assert client.events.poll(client.events.head() + 5) == []


def test_a_string_that_is_not_utf8_blinds_nobody(network: Network) -> None:
    """A sponsor may put any bytes into a CID; the log must stay readable for the others."""
    client = network.client(tokens=10 * HYDRA)
    client.token.approve(client.escrow.address, 10 * HYDRA)
    call = client.escrow.call("open", Kind.CAMPAIGN, bytes(32), "bafy", HYDRA, chain_time(network.rpc) + 100_000)
    assert client.sender is not None
    hostile = type(call)(call.title, call.address, call.data.replace(b"bafy", b"\xff\xfe\xfd\xfc"))
    receipt = client.sender.send(hostile)
    (opened,) = [event for event in client.events.poll(receipt.block, receipt.block) if event.name == "JobOpened"]
    assert opened.args["sponsor"] == client.address


def test_a_feed_gives_each_event_once(network: Network) -> None:
    client = network.client(tokens=10)
    feed = EventFeed(client.events, client.events.head() + 1)
    receiver = Wallet.create().address
    assert feed.poll().added == ()
    first = client.token.transfer(receiver, 1)
    assert [event.tx_hash for event in feed.poll().added] == [first.tx_hash]
    assert feed.poll().added == ()
    second = client.token.transfer(receiver, 1)
    update = feed.poll()
    assert [event.tx_hash for event in update.added] == [second.tx_hash]
    assert update.removed == ()


def test_a_feed_takes_back_what_a_reorganisation_takes_back(anvil_network: Network) -> None:
    client = anvil_network.client(tokens=10)
    feed = EventFeed(client.events, client.events.head() + 1)
    receiver = Wallet.create().address
    kept = client.token.transfer(receiver, 1)
    snapshot = anvil_network.rpc.request("evm_snapshot")
    lost = client.token.transfer(receiver, 2)
    assert [event.tx_hash for event in feed.poll().added] == [kept.tx_hash, lost.tx_hash]

    anvil_network.rpc.request("evm_revert", snapshot)
    anvil_network.rpc.request("evm_increaseTime", 5)
    instead = client.token.transfer(receiver, 3)
    assert instead.block == lost.block
    assert instead.block_hash != lost.block_hash
    update = feed.poll()
    assert [(event.tx_hash, event.block_hash) for event in update.removed] == [(lost.tx_hash, lost.block_hash)]
    assert [(event.tx_hash, event.block_hash) for event in update.added] == [(instead.tx_hash, instead.block_hash)]
    assert feed.poll().added == feed.poll().removed == ()


def test_a_feed_with_confirmations_holds_events_back(anvil_network: Network) -> None:
    client = anvil_network.client(tokens=10)
    feed = EventFeed(client.events, client.events.head() + 1, confirmations=2)
    sent = client.token.transfer(Wallet.create().address, 1)
    assert feed.poll().added == ()
    anvil_network.rpc.request("anvil_mine", "0x2")
    assert [event.tx_hash for event in feed.poll().added] == [sent.tx_hash]
