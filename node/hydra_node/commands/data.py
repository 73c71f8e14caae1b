"""`hydra-node data`: submit data to a campaign from a wallet, and see what became of it."""

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
    wallet_address,
)
from hydra_node.commands.output import Output

app = typer.Typer(no_args_is_help=True, help="Submit data, see what became of it.")

CampaignOption = Annotated[int, typer.Option("--campaign", min=1, help="Number of the campaign.")]


@app.command()
def submit(
    campaign: CampaignOption,
    file: Annotated[
        Path, typer.Option("--file", help="An .npz file with arrays X and y, or a .csv with a label column.")
    ],
    licence: Annotated[str, typer.Option("--licence", help="Licence under which you give the data.")] = "CC0-1.0",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Serve the data until it is scored.")] = True,
    claim: Annotated[bool, typer.Option("--claim/--no-claim", help="Claim the reward once it is final.")] = True,
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
    """Commit to your data, reveal it when the time has come, serve it until it is scored, claim the reward.

    Interrupted, the same command goes on where it stopped.

    Example: hydra-node data submit --campaign 1 --file my-digits.npz --licence CC0-1.0
    """
    from hydra_node.campaigns.submit import Submitter, prepare
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.commands import session
    from hydra_node.commands.confirm import confirm
    from hydra_node.commands.node_options import NodeOptions
    from hydra_node.storage import tables

    options = NodeOptions(wallet, rpc, deployment, keystore, password_file, data_dir, tuple(bootstrap), listen)
    tables.read_file(file)  # a bad file is refused before anything is sent
    client = options.client()
    output = Output(as_json)

    async def main() -> None:
        async with options.host() as host:
            submitter = Submitter(host, client, options.secrets(), campaign, output.reporter())
            policy = await submitter.policy()
            prepared = prepare(policy, file, licence)
            bond = client.submissions.campaign(campaign).terms.bond
            question = (
                f"Submit {prepared.item_count} items under {licence} to '{policy.title}', "
                f"bond {format_hydra(bond)}? You agree: {policy.consent}"
            )
            with session.default_signals():
                confirm(question, yes=yes, as_json=as_json)
            submission = await submitter.submit(prepared)
            if not wait:
                output.event("not_serving", _UNSERVED, submission=submission)
                return
            outcome = await submitter.outcome(submission)
            if claim and outcome.amount:
                paid = await submitter.claim()
                text = f"{format_hydra(paid)} claimed" if paid else "claimed already"
                output.event("claimed", text, job=campaign, amount_wei=paid)
            output.event("done", "", submission=submission)

    session.run(main())


_UNSERVED = "nobody can fetch your data while this node is down; to serve it until it is scored: the same with --wait"


@app.command()
def status(
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List this wallet's submissions. Needs no password.

    Example: hydra-node data status --wallet me
    """
    from hydra_node.chain.books import books
    from hydra_node.commands import session

    address = wallet_address(keystore, wallet)
    client = session.chain(rpc, deployment)
    client.history.refresh()
    held = books(client.history.all())
    rows = [
        (number, each.job_id, each.state.name.lower(), each.item_count, held.claimed.get((each.job_id, address), 0))
        for number, each in held.submissions.items()
        if each.contributor == address
    ]
    Output(as_json).table(
        "submissions", ("submission", "campaign", "state", "items", "claimed_wei"), rows, "no submissions yet"
    )
