"""What takes two transactions: a contract that pulls tokens must be allowed to first."""

from __future__ import annotations

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind, Role
from hydra_node.chain.transactions import Receipt


def allow(client: ChainClient, spender: str, amount: int) -> None:
    """Let `spender` pull at least `amount` wei from the client's account; no transaction if it may already."""
    if client.token.allowance(client.address, spender) < amount:
        client.token.approve(spender, amount)


def stake(client: ChainClient, role: Role, amount: int) -> Receipt:
    """Add `amount` wei to the account's stake. Raises `Reverted`."""
    allow(client, client.stakes.address, amount)
    return client.stakes.stake(role, amount)


def open_job(client: ChainClient, kind: Kind, *, spec_hash: bytes, spec_cid: str, amount: int, exit_time: int) -> int:
    """Open a job that holds `amount` wei; its id. `exit_time` is chain time. Raises `Reverted`."""
    allow(client, client.escrow.address, amount)
    receipt = client.escrow.open(kind, spec_hash, spec_cid, amount, exit_time)
    return int(receipt.event("JobOpened").args["jobId"])


def top_up(client: ChainClient, job_id: int, amount: int) -> Receipt:
    """Add `amount` wei to a job. Raises `Reverted`."""
    allow(client, client.escrow.address, amount)
    return client.escrow.top_up(job_id, amount)


def commit_submission(client: ChainClient, job_id: int, commitment: bytes) -> int:
    """Commit to a submission, leaving the campaign's bond; its id. Once only for a commitment, which a salt makes
    unique: a process that was killed meanwhile finds the one that it sent. Raises `Reverted`."""
    allow(client, client.submissions.address, client.submissions.campaign(job_id).terms.bond)
    receipt = client.submissions.commit(job_id, commitment, key=f"commit-{job_id}-{commitment.hex()}")
    return int(receipt.event("Committed").args["submissionId"])
