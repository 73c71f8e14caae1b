"""Events: decoded, and complete over chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_node.chain.actions import commit_submission, open_job, stake, top_up
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.clock import chain_time
from hydra_node.chain.enums import Kind, Role
from hydra_node.chain.events import EventLog
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
