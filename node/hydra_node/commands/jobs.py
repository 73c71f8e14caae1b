"""What `campaign` and `job` share: a job of either kind, as the escrow knows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_node.commands import session
from hydra_node.commands.output import Output
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient
    from hydra_node.chain.enums import Kind

NOUN = {"CAMPAIGN": "campaign", "TRAINING": "job"}


class NoSuchJob(HydraError):
    """A number that names no job of that kind on this chain."""


def list_jobs(kind: Kind, rpc: str, deployment: Path | None, as_json: bool) -> None:
    """Print every job of a kind."""
    from hydra_node.chain.amounts import format_hydra

    client = session.chain(rpc, deployment)
    rows = []
    for number in range(1, client.escrow.job_count() + 1):
        job = client.escrow.job(number)
        if job.kind == kind:
            rows.append(
                (number, job.state.name.lower(), format_hydra(job.deposited), format_hydra(job.paid), job.sponsor)
            )
    noun = NOUN[kind.name]
    Output(as_json).table(f"{noun}s", (noun, "state", "deposited", "paid", "sponsor"), rows, f"no {noun}s yet")


def require_job(client: ChainClient, number: int, kind: Kind) -> dict[str, Any]:
    """The facts of one job. Raises NoSuchJob."""
    noun = NOUN[kind.name]
    job = client.escrow.job(number) if 1 <= number <= client.escrow.job_count() else None
    if job is None or job.kind != kind:
        raise NoSuchJob(f"there is no {noun} {number} on this chain", remedy=f"see: hydra-node {noun} list")
    return {
        "number": number,
        "state": job.state.name.lower(),
        "sponsor": job.sponsor,
        "deposited_wei": job.deposited,
        "reserved_wei": job.reserved,
        "paid_wei": job.paid,
        "refunded_wei": job.refunded,
        "spec_hash": job.spec_hash.hex(),
    }


def show_job(noun: str, facts: dict[str, Any], as_json: bool) -> None:
    """Print the facts of one job, amounts in tokens for people."""
    from hydra_node.chain.amounts import format_hydra

    lines = [
        f"{name.removesuffix('_wei')}: {format_hydra(value) if name.endswith('_wei') else value}"
        for name, value in facts.items()
    ]
    Output(as_json).event(noun, "\n".join(lines), **facts)
