"""`hydra-validator`: score data campaigns and audit training jobs, for fees, with a stake that lies would cost."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
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
)
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.commands.output import Output
    from hydra_validator.watch import Report

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Score data campaigns and audit training jobs, for fees.",
)


class Adversary(StrEnum):
    """Ways to misbehave on a devnet."""

    COPY_COMMITMENT = "copy-commitment"


@app.callback()
def top() -> None:
    """Score data campaigns and audit training jobs, for fees."""


@app.command()
def run(
    *,
    stake: Annotated[str, typer.Option("--stake", help="Stake this much first, unless it is staked already.")] = "",
    campaign: Annotated[
        list[int], typer.Option("--campaign", help="Score only this campaign; may be given several times.")
    ] = [],  # noqa: B006  typer reads the default and never changes it
    adversary: Annotated[
        Adversary | None, typer.Option("--adversary", hidden=True, help="Misbehave (devnets only).")
    ] = None,
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    data_dir: DataDirOption = None,
    bootstrap: BootstrapOption = [],  # noqa: B006  as above
    listen: ListenOption = "127.0.0.1:0",
    as_json: JsonOption = False,
) -> None:
    """Score every campaign and audit every training job until stopped. May be stopped and started at any time.

    Example: hydra-validator run --wallet me --stake "300 HYDRA"
    """
    from hydra_node.chain.amounts import parse_hydra
    from hydra_node.commands import session
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.commands.output import Output

    wei = parse_hydra(stake) if stake else 0
    behaviour = adversary.value if adversary else ""
    node = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    session.run(_serve(node, wei, frozenset(campaign), behaviour, _reporter(Output(as_json))))


def _reporter(output: Output) -> Report:
    """Programs get the sentence too: it is where a failure says its reason."""
    return lambda kind, text, fields: output.event(kind, text, **{"message": text, **fields})


async def _serve(node: NodeOptions, stake: int, campaigns: frozenset[int], adversary: str, report: Report) -> None:
    client = await asyncio.to_thread(node.client)
    # scikit-learn takes seconds to load: what is wrong with wallet or chain is said before
    from hydra_validator.validator import Validator, ValidatorOptions

    options = ValidatorOptions(stake, campaigns, adversary)
    async with node.host() as host:
        facts = {"address": client.address, "peer": str(host.peer_id), "listen": str(host.address)}
        report("validator_started", f"validator {client.address} at {host.address}", facts)
        await Validator(host, client, node.secrets(), options, report).run()


def main() -> None:
    """Run the command line; a HydraError becomes one line on standard error and exit status 2."""
    try:
        app()
    except HydraError as error:
        sys.stderr.write(f"hydra-validator: {error}\n")
        sys.exit(2)
