"""`hydra-node campaign`: ask for data, and get a dataset."""

from __future__ import annotations

import asyncio
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

app = typer.Typer(no_args_is_help=True, help="Open data campaigns, see them, and take back what they did not spend.")

NumberArgument = Annotated[int, typer.Argument(min=1, help="Number of the campaign.")]


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
    relay_fee: Annotated[
        str, typer.Option("--relay-fee", help="Most that whoever sends a contributor's signed commitment gets for it.")
    ] = "0 HYDRA",
    gas_pool: Annotated[str, typer.Option("--gas-pool", help="Most that all relay fees take together.")] = "0 HYDRA",
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
    from hydra_node.campaigns.policy import CampaignPolicy
    from hydra_node.campaigns.sponsor import Sponsor, read_reference
    from hydra_node.campaigns.terms import check_campaign
    from hydra_node.chain.amounts import format_hydra, parse_hydra
    from hydra_node.chain.bindings.structs import CampaignTerms
    from hydra_node.commands import session
    from hydra_node.commands.confirm import confirm
    from hydra_node.commands.money import positive_amount
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
        relay_fee=parse_hydra(relay_fee),
        gas_pool=parse_hydra(gas_pool),
    )
    table = tables.read_file(reference)
    policy = CampaignPolicy.checked(
        title=title,
        item_schema={
            "dtype": "u1" if table.features.dtype == "uint8" else "f4",
            "shape": table.features.shape[1:],
            "scale": scale,
            "classes": classes,
        },
        reference="",
        licences=tuple(licence),
        consent=consent,
        max_items=max_items,
    )
    packed = read_reference(reference, policy.item_schema)
    options = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = options.client()
    # The sponsor checks again before it pays; here so that nobody says yes to what is then refused.
    check_campaign(client, terms, wei)
    confirm(f"Escrow {format_hydra(wei)} for '{title}'?", yes=yes, as_json=as_json)
    output = Output(as_json)

    async def main() -> None:
        async with options.host() as host:
            sponsor = Sponsor(host, client, output.reporter())
            reference_cid = str(await sponsor.add(packed))
            campaign = await sponsor.open_campaign(policy.model_copy(update={"reference": reference_cid}), wei, terms)
            if wait:
                await sponsor.dataset_of(campaign)
                await sponsor.refund(campaign)
            else:
                output.event("not_serving", _UNSERVED.format(campaign), campaign=campaign)

    session.run(main())


_UNSERVED = (
    "nobody can fetch the reference set while this node is down; serve it, and get the dataset, with: "
    "hydra-node campaign wait {}"
)


@app.command()
def wait(
    number: NumberArgument,
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
    """Go on with a campaign of yours: serve its reference until it is scored, build the dataset, take back the rest.

    Example: hydra-node campaign wait 1
    """
    from hydra_node.campaigns.sponsor import Sponsor
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import require_job
    from hydra_node.commands.node_options import NodeOptions

    options = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    client = options.client()
    require_job(client, number, Kind.CAMPAIGN)

    async def main() -> None:
        async with options.host() as host:
            sponsor = Sponsor(host, client, Output(as_json).reporter())
            await sponsor.dataset_of(number)
            await sponsor.refund(number)

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
    """Take back what a campaign of yours did not spend, once it is over.

    Example: hydra-node campaign refund 1
    """
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import refund_job

    client = session.chain(rpc, deployment, keystore=keystore, wallet=wallet, password_file=password_file)
    refund_job(client, number, Kind.CAMPAIGN, as_json)


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
    number: NumberArgument,
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Show one campaign: what it asks for, its money, its windows, its submissions.

    Example: hydra-node campaign show 1
    """
    from hydra_node.campaigns.submit import fetch_policy
    from hydra_node.chain.enums import Kind
    from hydra_node.commands import session
    from hydra_node.commands.jobs import VISIT_SECONDS, require_job, visiting_host
    from hydra_node.errors import HydraError

    client = session.chain(rpc, deployment)
    facts = require_job(client, number, Kind.CAMPAIGN)
    campaign = client.submissions.campaign(number)
    terms = campaign.terms
    facts |= {
        "commit_until_at": campaign.commit_end or None,
        "reveal_until_at": campaign.reveal_end or None,
        "score_commit_seconds": terms.score_commit_seconds,
        "score_reveal_seconds": terms.score_reveal_seconds,
        "bond_wei": terms.bond,
        "validator_fee_wei": terms.validator_fee,
        "validator_penalty_wei": terms.validator_penalty,
        "relay_fee_wei": terms.relay_fee,
        "gas_pool_wei": terms.gas_pool,
        "submissions": len(client.submissions.submissions_of(number)),
        "revealed": client.submissions.revealed_count(number),
    }

    async def main() -> None:
        async with visiting_host(bootstrap) as host:
            try:
                async with asyncio.timeout(VISIT_SECONDS):
                    policy = await fetch_policy(client, host, client.history, number)
            except (HydraError, TimeoutError):
                facts["policy"] = "nobody serves it now"
            else:
                facts.update(policy.model_dump(mode="json", exclude={"item_schema", "version"}))
                facts.update(policy.item_schema.model_dump(mode="json"))
        Output(as_json).facts("campaign", facts)

    session.run(main())
