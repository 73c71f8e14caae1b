"""`hydra-node`: everything a sponsor, a contributor or a trainer does."""

from __future__ import annotations

import typer

from hydra_node.commands import campaign, data, demo, devnet, entry, job, money, serve, train, tx, wallet

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    # Plain help: the other form cuts names of options on a narrow terminal.
    rich_markup_mode=None,
    help="Train a model together with people you do not have to trust; be paid for what was verified.",
)
app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.add_typer(devnet.app, name="devnet")
app.add_typer(wallet.app, name="wallet")
app.add_typer(campaign.app, name="campaign")
app.add_typer(data.app, name="data")
app.add_typer(job.app, name="job")
app.command("stake")(money.stake)
app.command("unstake")(money.unstake)
app.command("claim")(money.claim)
app.command("balance")(money.balance)
app.add_typer(tx.app, name="tx")
app.command("stake-and-train")(train.stake_and_train)


@app.callback()
def top(*, version: entry.VersionOption = False) -> None:
    """Train a model together with people you do not have to trust; be paid for what was verified."""


def main() -> None:
    """Run the command line."""
    entry.run(app, "hydra-node")
