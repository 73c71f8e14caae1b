"""`hydra-node stake-and-train`: lend a machine to a training job and be paid for what was verified."""

from __future__ import annotations

from typing import Annotated

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


def stake_and_train(
    job: Annotated[str, typer.Option("--job", help="Number of the job, or auto: the next one that is open.")] = "auto",
    stake: Annotated[str, typer.Option("--stake", help="Stake this much first, unless it is staked already.")] = "",
    cpu_limit: Annotated[
        float, typer.Option("--cpu-limit", min=0.01, max=1.0, help="Busy at most this share of the time.")
    ] = 1.0,
    claim: Annotated[bool, typer.Option("--claim/--no-claim", help="Claim once the job is settled.")] = True,
    adversary: Annotated[
        str, typer.Option("--adversary", hidden=True, help="Misbehave (devnets only), such as sign-flip@75.")
    ] = "",
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
    """Stake, join a training job, train with the others, be audited, claim. Stop and come back at any time.

    Example: hydra-node stake-and-train --job auto --stake "100 HYDRA"
    """
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.commands import session
    from hydra_node.commands.confirm import confirm
    from hydra_node.commands.money import BadChoice, positive_amount
    from hydra_node.commands.node_options import NodeOptions

    if job != "auto" and not (job.isdecimal() and int(job) > 0):
        raise BadChoice(f"{job!r} is no job", expected="a number or auto", remedy="see: hydra-node job list")
    wei = positive_amount(stake) if stake else 0
    node = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = node.client()
    if wei:
        confirm(f"Stake up to {format_hydra(wei)} from {client.address}?", yes=yes, as_json=as_json)
    # torch takes seconds to load: what is wrong with wallet or chain is said before
    from hydra_node.training.adversary import Adversary
    from hydra_node.training.trainer import Trainer, TrainerOptions
    from hydra_node.training.workload import Manner

    options = TrainerOptions(
        folder=node.folder / "training",
        job_id=None if job == "auto" else int(job),
        stake=wei,
        manner=Manner(cpu_limit=cpu_limit, adversary=Adversary.parse(adversary) if adversary else None),
        claim=claim,
    )
    output = Output(as_json)

    async def main() -> None:
        async with node.host() as host:
            output.event("trainer_started", f"peer {host.peer_id} at {host.address}", peer=str(host.peer_id))
            outcome = await Trainer(host, client, options, output.reporter()).run()
            output.event("done", "", job=outcome.job_id, steps=outcome.steps, claimed_wei=outcome.claimed)

    session.run(main())
