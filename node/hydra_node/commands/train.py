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
    del job, stake, cpu_limit, claim, adversary, wallet, rpc, deployment, keystore, password_file, data_dir
    del bootstrap, listen, yes, as_json
    raise typer.Exit(3)
