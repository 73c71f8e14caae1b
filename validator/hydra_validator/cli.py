"""`hydra-validator`: score data campaigns and audit training jobs, for fees, with a stake that lies would cost."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hydra_node.commands import entry
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

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.commands.output import Output
    from hydra_validator.validator import ValidatorOptions
    from hydra_validator.watch import Report

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Score data campaigns and audit training jobs, for fees.",
)


class Adversary(StrEnum):
    """Ways to misbehave on a devnet."""

    COPY_COMMITMENT = "copy-commitment"


@app.callback()
def top(*, version: entry.VersionOption = False) -> None:
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
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score every campaign and audit every training job until stopped. May be stopped and started at any time.

    Example: hydra-validator run --wallet me --stake "300 HYDRA"
    """
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.commands import session
    from hydra_node.commands.confirm import confirm
    from hydra_node.commands.money import positive_amount
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.commands.output import Output

    wei = positive_amount(stake) if stake else 0
    behaviour = adversary.value if adversary else ""
    node = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = node.client()
    if wei:
        confirm(f"Stake up to {format_hydra(wei)} from {client.address}?", yes=yes, as_json=as_json)
    # scikit-learn takes seconds to load: what is wrong with wallet or chain is said before
    from hydra_validator.validator import ValidatorOptions

    options = ValidatorOptions(wei, frozenset(campaign), behaviour)
    session.run(_serve(node, client, options, _reporter(Output(as_json))))


def _reporter(output: Output) -> Report:
    """Programs get the sentence too: it is where a failure says its reason."""
    return lambda kind, text, fields: output.event(kind, text, **{"message": text, **fields})


async def _serve(node: NodeOptions, client: ChainClient, options: ValidatorOptions, report: Report) -> None:
    from hydra_validator.validator import Validator

    async with node.host() as host:
        facts = {"address": client.address, "peer": str(host.peer_id), "listen": str(host.address)}
        report("validator_started", f"validator {client.address} at {host.address}", facts)
        await Validator(host, client, node.secrets(), options, report).run()


def main() -> None:
    """Run the command line."""
    entry.run(app, "hydra-validator")
