"""The way in and out of a program: its version, and what fails in one line with status 2."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from hydra_node.errors import HydraError


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(version("hydra-node") + "\n")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
]


def run(app: typer.Typer, program: str) -> None:
    """Run a command line; a HydraError, or a file that the system refuses, is one line on standard error, status 2."""
    try:
        app()
    except HydraError as error:
        sys.stderr.write(f"{program}: {error}\n")
    except OSError as error:
        if error.filename is None:
            raise
        sys.stderr.write(f"{program}: {error.filename}: {error.strerror}; check the path, its permissions, the disk\n")
    else:
        return
    sys.exit(2)
