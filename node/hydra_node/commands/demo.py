"""`hydra-node demo`: the whole story on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hydra_node.commands.options import JsonOption


def demo(
    chain: Annotated[
        str, typer.Option("--chain", help="embedded, ganache, anvil, or the URL of a chain with developer accounts.")
    ] = "embedded",
    seed: Annotated[int, typer.Option("--seed", min=0, help="How the data is cut.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Where the report goes; logs go to NAME.files beside it.")] = Path(
        "build/demo-report.json"
    ),
    without: Annotated[
        list[str],
        typer.Option("--without", help="Leave out a participant, a kind of them, or contract:NAME; checks then fail."),
    ] = [],
    as_json: JsonOption = False,
) -> None:
    """Play the whole story: chain, campaign, scoring, training with a death and a cheat, claims, balanced books.

    Exits with status 1 if any check of the report fails.

    Example: hydra-node demo --seed 2
    """
    from hydra_node.commands import session
    from hydra_node.devnet import chains, workspace
    from hydra_node.devnet.demo import Demo, DemoOptions
    from hydra_node.devnet.screen import Screen, print_report
    from hydra_node.devnet.supervisor import Supervisor

    options = DemoOptions(chain=chain, seed=seed, out=out, without=frozenset(without))
    if chains.parse_kind(chain) is None:
        chains.attach(chain)  # a chain that does not answer is named before anything is touched
    report: dict[str, Any] = {}

    async def main() -> None:
        with Screen(Console(stderr=as_json)) as screen:
            supervisor = Supervisor(options.workspace / "logs", screen.event)
            report.update(await Demo(options, supervisor, screen.stage).run())

    with workspace.held(out):
        session.run(main())
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        print_report(Console(), report, out)
    if not all(check["passed"] for check in report["checks"]):
        raise typer.Exit(1)
