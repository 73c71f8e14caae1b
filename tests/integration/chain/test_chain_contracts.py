"""The typed classes against the real contracts, on every local chain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from eth_utils.address import to_checksum_address

from hydra_node.chain.abi import names
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.clock import ChainTimeNotReached, chain_time, wait_until
from hydra_node.chain.contract import NotAContract, NoWallet
from hydra_node.chain.contracts import ChainClient, connect, deploy
from hydra_node.chain.deployment import BadDeployment, Deployment
from hydra_node.chain.enums import Kind, Role, State
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.rpc import WrongChain
from hydra_node.chain.transactions import InsufficientFunds
from hydra_node.chain.wallet import Wallet

if TYPE_CHECKING:
    from conftest import Network

HYDRA = 10**18
TERMS = CampaignTerms(60, 60, 60, 60, HYDRA, 1000, HYDRA, HYDRA, HYDRA, 3 * HYDRA)


def test_tokens_move_and_the_receipt_tells(network: Network) -> None:
    client = network.client(tokens=5 * HYDRA)
    other = Wallet.create().address
    receipt = client.token.transfer(other, 2 * HYDRA)
    assert client.token.balance_of(other) == 2 * HYDRA
    assert client.token.balance_of(client.address) == 3 * HYDRA
    transfer = receipt.event("Transfer")
    assert transfer.args == {"from": client.address, "to": other, "value": 2 * HYDRA}
    assert transfer.contract == "HydraToken"
    assert (transfer.block, transfer.block_hash, transfer.timestamp) == (
        receipt.block,
        receipt.block_hash,
        receipt.timestamp,
    )


def test_the_receipt_of_a_creation_names_the_contract_as_people_write_it(network: Network) -> None:
    """Ganache answers in lower case, and an address without its checksum is refused elsewhere."""
    client = network.client()
    assert client.sender is not None
    created = deploy(client.sender, "HydraToken", client.address, HYDRA).contract
    assert created is not None
    assert created == to_checksum_address(created)
    assert int(network.rpc.request("eth_getCode", created, "latest"), 16)


def test_a_view_can_ask_an_older_state(network: Network) -> None:
    client = network.client(tokens=HYDRA)
    receipt = client.token.transfer(Wallet.create().address, HYDRA)
    assert client.token.balance_of(client.address) == 0
    assert client.token.balance_of(client.address, at=receipt.block - 1) == HYDRA


def test_a_job_from_its_opening_to_a_campaign(network: Network) -> None:
    sponsor = network.client(tokens=100 * HYDRA)
    sponsor.token.approve(sponsor.escrow.address, 100 * HYDRA)
    spec_hash = bytes(range(32))
    exit_time = chain_time(network.rpc) + 100_000
    opened = sponsor.escrow.open(Kind.CAMPAIGN, spec_hash, "bafy-spec", 100 * HYDRA, exit_time).event("JobOpened")
    assert opened.args["kind"] is Kind.CAMPAIGN
    assert opened.args["specCid"] == "bafy-spec"
    job_id = opened.args["jobId"]
    job = sponsor.escrow.job(job_id)
    assert (job.sponsor, job.kind, job.state, job.exit_time) == (sponsor.address, Kind.CAMPAIGN, State.OPEN, exit_time)
    assert (job.spec_hash, job.deposited, job.paid) == (spec_hash, 100 * HYDRA, 0)
    assert sponsor.escrow.available(job_id) == 100 * HYDRA

    campaign = sponsor.submissions.open_campaign(job_id, TERMS).event("CampaignOpened")
    assert campaign.args["terms"] == TERMS
    assert sponsor.submissions.campaign(job_id).terms == TERMS
    assert sponsor.submissions.submissions_of(job_id) == []


def test_a_refusal_is_decoded_before_anything_is_sent(network: Network) -> None:
    client = network.client()
    with pytest.raises(Reverted) as caught:
        client.token.transfer(network.treasury.address, HYDRA)
    error = caught.value
    assert error.error_name == "ERC20InsufficientBalance"
    assert error.error_args == {"sender": client.address, "balance": 0, "needed": HYDRA}
    assert error.transaction == ""
    assert str(error) == f"HydraToken.transfer was refused: {client.address} has 0 HYDRA and 1 HYDRA are needed"
    assert int(network.rpc.request("eth_getTransactionCount", client.address, "latest"), 16) == 0


def test_an_error_of_a_contract_further_down_is_decoded(network: Network) -> None:
    client = network.client(tokens=HYDRA)
    with pytest.raises(Reverted) as caught:
        client.stakes.stake(Role.TRAINER, HYDRA)
    assert caught.value.error_name == "ERC20InsufficientAllowance"
    assert caught.value.error_args["spender"] == client.stakes.address


def test_a_refused_view_is_decoded_too(network: Network) -> None:
    with pytest.raises(Reverted) as caught:
        network.client(gas=0).escrow.available(10**9)
    assert caught.value.error_name == "UnknownJob"
    assert caught.value.error_args == {"jobId": 10**9}


def test_staking_by_role(network: Network) -> None:
    client = network.client(tokens=50 * HYDRA)
    client.token.approve(client.stakes.address, 50 * HYDRA)
    staked = client.stakes.stake(Role.TRAINER, 50 * HYDRA).event("Staked")
    assert staked.args["role"] is Role.TRAINER
    assert client.stakes.stake_of(Role.TRAINER, client.address) == 50 * HYDRA
    assert client.address in client.stakes.operators(Role.TRAINER)
    assert client.address not in client.stakes.operators(Role.VALIDATOR)
    asked = client.stakes.request_withdraw(Role.TRAINER, 50 * HYDRA).event("WithdrawRequested")
    assert client.stakes.thawing_of(Role.TRAINER, client.address) == (50 * HYDRA, asked.args["readyAt"])


def test_an_account_without_coins_is_told_so(network: Network) -> None:
    with pytest.raises(InsufficientFunds, match="gas"):
        network.client(gas=0).token.approve(network.treasury.address, 1)


def test_a_client_without_a_wallet_only_reads(network: Network) -> None:
    reader = ChainClient(network.rpc, network.deployment)
    assert reader.token.total_supply() > 0
    with pytest.raises(NoWallet, match="approve needs a wallet"):
        reader.token.approve(network.treasury.address, 1)
    with pytest.raises(NoWallet):
        _ = reader.address


def test_connect_checks_the_chain_and_the_contracts(network: Network, tmp_path: Path) -> None:
    network.deployment.save(tmp_path / "good.json")
    assert connect(network.url, tmp_path / "good.json").token.symbol() == "HYDRA"

    other = network.deployment.model_copy(update={"chain_id": 5})
    other.save(tmp_path / "other.json")
    with pytest.raises(WrongChain, match=f"serves chain {network.rpc.chain_id}; expected chain 5"):
        connect(network.url, tmp_path / "other.json")

    nobody = Wallet.create().address
    addresses = {**network.deployment.addresses, "JobEscrow": nobody}
    Deployment(chain_id=network.rpc.chain_id, block=0, addresses=addresses).save(tmp_path / "gone.json")
    with pytest.raises(BadDeployment, match=f"there is no JobEscrow at {nobody}"):
        connect(network.url, tmp_path / "gone.json")


def test_an_address_without_contract_is_named(network: Network) -> None:
    nobody = Wallet.create().address
    deployment = network.deployment.model_copy(update={"addresses": {"HydraToken": nobody}})
    with pytest.raises(NotAContract, match="no HydraToken at"):
        ChainClient(network.rpc, deployment).token.total_supply()


def test_chain_time_is_that_of_the_newest_block(network: Network) -> None:
    receipt = network.client(tokens=1).token.transfer(network.treasury.address, 1)
    assert chain_time(network.rpc) == receipt.timestamp
    assert asyncio.run(wait_until(network.rpc, receipt.timestamp, timeout=1)) == receipt.timestamp
    with pytest.raises(ChainTimeNotReached, match="check that the chain makes blocks"):
        asyncio.run(wait_until(network.rpc, receipt.timestamp + 10_000, timeout=0.3))


def test_chain_time_passes_without_transactions(paced_network: Network) -> None:
    now = chain_time(paced_network.rpc)
    assert asyncio.run(wait_until(paced_network.rpc, now + 2, timeout=30)) >= now + 2


def test_the_client_has_every_contract(network: Network) -> None:
    client = ChainClient(network.rpc, network.deployment)
    reached = {
        each.NAME
        for each in (
            client.token,
            client.stakes,
            client.escrow,
            client.submissions,
            client.quality,
            client.training,
            client.rewards,
            client.disputes,
            client.arbiter,
        )
    }
    assert reached == set(names())
