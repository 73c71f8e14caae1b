"""`hydra-node job`: open a training job and see how it goes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hydra_node.commands.options import (
    BootstrapOption,
    DataDirOption,
    DeploymentOption,
    JsonOption,
    KeystoreOption,
    ListenOption,
    PasswordFileOption,
    RpcOption,
    WalletOption,
    YesOption,
)
from hydra_node.commands.output import Output

if TYPE_CHECKING:
    from hydra_node.campaigns.sponsor import Sponsor

app = typer.Typer(no_args_is_help=True, help="Open training jobs, see them, and take back what they did not spend.")

NumberArgument = Annotated[int, typer.Argument(min=1, help="Number of the job.")]
SettledTimeout = Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait for the settlement.")]


@app.command()
def create(
    spec: Annotated[
        Path | None, typer.Option("--spec", help="The job as a JSON file; see docs/training.md. Or give --dataset.")
    ] = None,
    dataset: Annotated[str, typer.Option("--dataset", help="CID of a dataset of digits, for the built-in job.")] = "",
    reward: Annotated[str, typer.Option("--reward", help="What the job may pay in all.")] = "2000 HYDRA",
    rate: Annotated[str, typer.Option("--rate", help="Pay of one verified sample.")] = "0.02 HYDRA",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of the built-in job.")] = 300,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Samples of one step of the built-in job.")] = 128,
    round_steps: Annotated[int, typer.Option("--round-steps", min=1, help="Steps of one settlement round.")] = 50,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the built-in job.")] = 1,
    audit_rate: Annotated[float, typer.Option("--audit-rate", min=0, max=1, help="Share that is audited.")] = 0.1,
    min_trainers: Annotated[int, typer.Option("--min-trainers", min=1, help="Trainers that begin together.")] = 2,
    min_stake: Annotated[str, typer.Option("--min-stake", help="Stake that a trainer needs.")] = "100 HYDRA",
    penalty: Annotated[str, typer.Option("--penalty", help="Stake that a cheat loses.")] = "60 HYDRA",
    audit_fee: Annotated[str, typer.Option("--audit-fee", help="Fee of each auditor a round.")] = "5 HYDRA",
    post_seconds: Annotated[
        int, typer.Option("--post-seconds", min=1, help="How long a round waits for late step records.")
    ] = 60,
    timeout: SettledTimeout = 86_400,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Serve the dataset until the job is settled.")] = True,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    data_dir: DataDirOption = None,
    bootstrap: BootstrapOption = [],
    listen: ListenOption = "127.0.0.1:0",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Escrow a reward and open a training job; once it is settled, get back the unspent rest.

    Example: hydra-node job create --dataset bafy... --reward "2000 HYDRA"
    """
    from hydra_node.campaigns.sponsor import Sponsor
    from hydra_node.campaigns.terms import check_training
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.chain.bindings.structs import TrainingTerms
    from hydra_node.commands import session
    from hydra_node.commands.confirm import confirm
    from hydra_node.commands.money import BadChoice, positive_amount
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.storage.cid import Cid
    from hydra_node.training.presets import digits_spec
    from hydra_node.training.spec import parse

    if spec is not None:
        try:
            job_spec = parse(spec.read_bytes())
        except OSError as error:
            raise BadChoice(f"{spec} cannot be read ({error.strerror})", remedy="check the path") from None
    elif dataset:
        job_spec = digits_spec(
            dataset,
            seed=seed,
            steps=steps,
            global_batch=batch,
            round_steps=round_steps,
            audit_rate=audit_rate,
            scale=1.0,
            min_trainers=min_trainers,
        )
    else:
        raise BadChoice("no job is described", remedy="give --spec FILE or --dataset CID")
    wei = positive_amount(reward)
    terms = TrainingTerms(
        rate_per_sample=positive_amount(rate),
        min_stake=positive_amount(min_stake),
        penalty=positive_amount(penalty),
        audit_fee=positive_amount(audit_fee),
        steps=job_spec.steps,
        round_steps=job_spec.round_steps,
        post_seconds=post_seconds,
    )
    options = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = options.client()
    # The sponsor checks again before it pays; here so that nobody says yes to what is then refused.
    check_training(client, terms, wei, job_spec.steps * job_spec.global_batch)
    Cid.parse(job_spec.dataset)
    confirm(f"Escrow {format_hydra(wei)} for {job_spec.steps} steps?", yes=yes, as_json=as_json)
    output = Output(as_json)

    async def main() -> None:
        from hydra_node.training.job import load_samples

        async with options.host() as host:
            # Fetched, checked and pinned: nothing is paid for a job that nobody could begin.
            await asyncio.to_thread(load_samples, host.ipfs, job_spec)
            sponsor = Sponsor(host, client, output.reporter())
            number = await sponsor.open_job(
                job_spec.canonical_bytes(), job_spec.digest(), wei, terms, job_spec.global_batch
            )
            if wait:
                await _finish(sponsor, output, number, timeout)
            else:
                output.event("not_serving", _UNSERVED.format(number), job=number)

    session.run(main())


_UNSERVED = (
    "nobody can fetch the job while this node is down; serve it until it is settled with: hydra-node job wait {}"
)


async def _finish(sponsor: Sponsor, output: Output, number: int, timeout: float) -> None:
    state = await sponsor.settled(number, timeout)
    output.event("job_settled", f"job {number}: {state.name.lower()}", job=number, state=state.name)
    await sponsor.refund(number)


@app.command()
def wait(
    number: NumberArgument,
    timeout: SettledTimeout = 86_400,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    data_dir: DataDirOption = None,
    bootstrap: BootstrapOption = [],
    listen: ListenOption = "127.0.0.1:0",
    as_json: JsonOption = False,
) -> None:
    """Go on with a job of yours: serve its dataset until it is settled, take back the rest.

    Example: hydra-node job wait 2
    """
    from hydra_node.campaigns.sponsor import Sponsor
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import require_job
    from hydra_node.commands.node_options import NodeOptions

    options = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = options.client()
    require_job(client, number, Kind.TRAINING)
    output = Output(as_json)

    async def main() -> None:
        async with options.host() as host:
            await _finish(Sponsor(host, client, output.reporter()), output, number, timeout)

    session.run(main())


@app.command()
def refund(
    number: NumberArgument,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back what a job of yours did not spend, once it is over.

    Example: hydra-node job refund 2
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import refund_job

    client = session.chain(rpc, deployment, keystore=keystore, wallet=wallet, password_file=password_file)
    refund_job(client, number, Kind.TRAINING, as_json)


@app.command("list")
def list_training(rpc: RpcOption = "", deployment: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """List the training jobs on this chain.

    Example: hydra-node job list
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.commands.jobs import list_jobs

    list_jobs(Kind.TRAINING, rpc, deployment, as_json)


@app.command()
def show(
    number: NumberArgument,
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Show one training job: its model and dataset, its money, its terms, its trainers.

    Example: hydra-node job show 2
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import VISIT_SECONDS, require_job, visiting_host
    from hydra_node.errors import HydraError
    from hydra_node.training.job import load_spec

    client = session.chain(rpc, deployment)
    facts = require_job(client, number, Kind.TRAINING)
    terms = client.training.terms(number)
    facts |= {
        "rate_per_sample_wei": terms.rate_per_sample,
        "min_stake_wei": terms.min_stake,
        "penalty_wei": terms.penalty,
        "audit_fee_wei": terms.audit_fee,
        "steps": terms.steps,
        "round_steps": terms.round_steps,
        "settled_rounds": client.training.settled_rounds(number),
        "trainers": list(client.training.trainers(number)),
    }

    async def main() -> None:
        async with visiting_host(bootstrap) as host:
            try:
                async with asyncio.timeout(VISIT_SECONDS):
                    spec, _terms = await asyncio.to_thread(load_spec, client, host.ipfs, number)
            except (HydraError, TimeoutError):
                facts["spec"] = "nobody serves it now"
            else:
                facts.update(
                    dataset=spec.dataset,
                    model=spec.model.family,
                    optimiser=spec.optimiser.name,
                    global_batch=spec.global_batch,
                    min_trainers=spec.min_trainers,
                    audit_rate=spec.audit_rate,
                )
        Output(as_json).facts("job", facts)

    session.run(main())


@app.command()
def model(
    number: NumberArgument,
    out: Annotated[Path, typer.Option("--out", help="File for the model, in the safetensors format.")],
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Save the model that a job has trained, under torch's names of its parameters.

    Example: hydra-node job model 2 --out model.safetensors
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.chain.files import write_private
    from hydra_node.commands import session
    from hydra_node.commands.jobs import require_job, visiting_host
    from hydra_node.training.model import final_checkpoint

    client = session.chain(rpc, deployment)
    require_job(client, number, Kind.TRAINING)

    async def main() -> None:
        async with visiting_host(bootstrap) as host:
            cid, data = await final_checkpoint(client, host.ipfs, number)
        write_private(out, data)
        text = f"{out}: {len(data)} bytes, {cid}"
        Output(as_json).event("model", text, job=number, cid=str(cid), bytes=len(data), file=str(out))

    session.run(main())
