"""`hydra-node campaign`: ask for data, and get a dataset."""

from __future__ import annotations

from pathlib import Path
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

app = typer.Typer(no_args_is_help=True, help="Open data campaigns and see them.")


@app.command()
def create(
    reference: Annotated[Path, typer.Option("--reference", help="Your clean reference set, .npz or .csv.")],
    reward: Annotated[str, typer.Option("--reward", help='What the campaign pays in all, such as "1000 HYDRA".')],
    title: Annotated[str, typer.Option("--title", help="What the data shows.")] = "labelled data",
    classes: Annotated[int, typer.Option("--classes", min=2, help="Number of classes.")] = 10,
    scale: Annotated[float, typer.Option("--scale", help="Features are divided by this.")] = 1.0,
    licence: Annotated[list[str], typer.Option("--licence", help="An accepted licence; several times.")] = ["CC0-1.0"],
    consent: Annotated[
        str, typer.Option("--consent", help="What a contributor agrees to.")
    ] = "I made this data or may give it away, and it shows nobody against their will.",
    max_items: Annotated[int, typer.Option("--max-items", min=1, help="Most items of one submission.")] = 10_000,
    bond: Annotated[str, typer.Option("--bond", help="What a contributor deposits until the reveal.")] = "2 HYDRA",
    commit_seconds: Annotated[int, typer.Option("--commit-seconds", min=1, help="Window for commitments.")] = 3600,
    reveal_seconds: Annotated[int, typer.Option("--reveal-seconds", min=1, help="Window for reveals.")] = 3600,
    score_commit_seconds: Annotated[
        int, typer.Option("--score-commit-seconds", min=1, help="Window for the validators' commitments.")
    ] = 3600,
    score_reveal_seconds: Annotated[
        int, typer.Option("--score-reveal-seconds", min=1, help="Window for the validators' reveals.")
    ] = 3600,
    validator_fee: Annotated[str, typer.Option("--validator-fee", help="Fee of each honest validator.")] = "10 HYDRA",
    validator_penalty: Annotated[
        str, typer.Option("--validator-penalty", help="Stake a lying or silent validator loses.")
    ] = "40 HYDRA",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Serve until scored and build the dataset.")] = True,
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
    """Escrow a reward and ask for data; once it is scored, get back the unspent rest and the accepted dataset.

    Example: hydra-node campaign create --reference clean.npz --reward "1000 HYDRA" --title "handwritten digits"
    """
    from hydra_node.campaigns.policy import CampaignPolicy, ItemSchema
    from hydra_node.campaigns.sponsor import Sponsor, read_reference
    from hydra_node.chain.amounts import format_hydra, parse_hydra
    from hydra_node.chain.bindings.structs import CampaignTerms
    from hydra_node.commands import session
    from hydra_node.commands.money import confirm, positive_amount
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.storage import tables

    wei = positive_amount(reward)
    terms = CampaignTerms(
        commit_seconds=commit_seconds,
        reveal_seconds=reveal_seconds,
        score_commit_seconds=score_commit_seconds,
        score_reveal_seconds=score_reveal_seconds,
        bond=parse_hydra(bond),
        max_items=max_items,
        validator_fee=parse_hydra(validator_fee),
        validator_penalty=parse_hydra(validator_penalty),
    )
    table = tables.read_file(reference)
    small = table.features.dtype == "uint8"
    schema = ItemSchema(dtype="u1" if small else "f4", shape=table.features.shape[1:], scale=scale, classes=classes)
    packed = read_reference(reference, schema)
    options = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = options.client()
    confirm(yes, as_json, f"Escrow {format_hydra(wei)} for '{title}'?")

    async def main() -> None:
        async with options.host() as host:
            sponsor = Sponsor(host, client, Output(as_json).reporter())
            policy = CampaignPolicy(
                title=title,
                item_schema=schema,
                reference=str(await sponsor.add(packed)),
                licences=tuple(licence),
                consent=consent,
                max_items=max_items,
            )
            campaign = await sponsor.open_campaign(policy, wei, terms)
            if wait:
                await sponsor.dataset_of(campaign)
                await sponsor.refund(campaign)

    session.run(main())


@app.command("list")
def list_campaigns(rpc: RpcOption = "", deployment: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """List the campaigns on this chain.

    Example: hydra-node campaign list
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.commands.jobs import list_jobs

    list_jobs(Kind.CAMPAIGN, rpc, deployment, as_json)


@app.command()
def show(
    number: Annotated[int, typer.Argument(min=1, help="Number of the campaign.")],
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one campaign: its money, its windows, its submissions.

    Example: hydra-node campaign show 1
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import require_job, show_job

    client = session.chain(rpc, deployment)
    facts = require_job(client, number, Kind.CAMPAIGN)
    campaign = client.submissions.campaign(number)
    facts |= {
        "commit_end": campaign.commit_end,
        "reveal_end": campaign.reveal_end,
        "bond_wei": campaign.terms.bond,
        "submissions": len(client.submissions.submissions_of(number)),
        "revealed": client.submissions.revealed_count(number),
    }
    show_job("campaign", facts, as_json)
