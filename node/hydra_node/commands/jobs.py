"""What `campaign` and `job` share: a job of either kind, as the escrow knows it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_node.commands import session
from hydra_node.commands.output import Output
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient
    from hydra_node.chain.enums import Kind
    from hydra_node.p2p.host import Host

VISIT_SECONDS = 8.0
"""How long a document is looked for that a command shows if it is there."""
NOUN = {"CAMPAIGN": "campaign", "TRAINING": "job"}


class NoSuchJob(HydraError):
    """A number that names no job of that kind on this chain."""


def list_jobs(kind: Kind, rpc: str, deployment: Path | None, as_json: bool) -> None:
    """Print every job of a kind."""
    from hydra_node.chain.books import books

    client = session.chain(rpc, deployment)
    client.history.refresh()
    rows = [
        (number, job.state.name.lower(), job.deposited, job.paid, job.refunded, job.sponsor)
        for number, job in books(client.history.all()).jobs.items()
        if job.kind == kind
    ]
    noun = NOUN[kind.name]
    columns = (noun, "state", "deposited_wei", "paid_wei", "refunded_wei", "sponsor")
    Output(as_json).table(f"{noun}s", columns, rows, f"no {noun}s yet; open one: hydra-node {noun} create --help")


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
        "refundable_at": job.exit_time,
        "spec_hash": job.spec_hash.hex(),
    }


def refund_job(client: ChainClient, number: int, kind: Kind, as_json: bool) -> None:
    """Take back what a job did not spend. Raises NoSuchJob, NotRefundable."""
    from hydra_node.campaigns.refund import refund, refunded

    require_job(client, number, kind)

    async def main() -> None:
        amount = await refund(client, number)
        Output(as_json).event("refunded", refunded(number, amount), job=number, amount_wei=amount)

    session.run(main())


@contextlib.asynccontextmanager
async def visiting_host(bootstrap: list[str]) -> AsyncIterator[Host]:
    """A peer for the length of one command, that keeps nothing: to read a document from the others."""
    from hydra_node.p2p.host import Host

    with tempfile.TemporaryDirectory(prefix="hydra-") as folder:
        async with Host.start(Path(folder), bootstrap=session.bootstrap(bootstrap)) as host:
            yield host
