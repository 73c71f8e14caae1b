"""Asking before anything is spent or agreed to."""

from __future__ import annotations

import typer

from hydra_node.errors import HydraError


class NotConfirmed(HydraError):
    """A command that spends was neither told `--yes` nor had anybody to ask."""


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask, unless told `--yes`. Raises NotConfirmed where nobody can answer, typer.Abort when the answer is no.

    A program that reads JSON cannot answer a question: it has to say `--yes`.
    """
    if yes:
        return
    if as_json:
        raise NotConfirmed(f"not done without a yes: {question}", remedy="say it with --yes")
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        raise NotConfirmed("nobody answered the question", remedy="answer it, or say it with --yes") from None
    if not agreed:
        raise typer.Abort
