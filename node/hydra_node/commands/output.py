"""How a command speaks: a sentence for people, or with `--json` one JSON object a line for programs.

Facts carry their unit in their name: `paid_wei` is an amount, `exit_at` chain time, `commit_seconds` a duration.
Programs get the integers, people "1.5 HYDRA", a date, "60 s".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_WIDE = 1_000
"""Columns where no terminal sets the width: a program or a file that reads a table wants whole addresses."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's words go. `as_json` makes every event one JSON line on standard output."""

    as_json: bool

    def event(self, kind: str, text: str = "", **fields: Any) -> None:
        """Tell of one thing that happened; `text` is for people, `fields` for programs."""
        if self.as_json:
            sys.stdout.write(json.dumps({"event": kind, **fields}, default=str) + "\n")
            sys.stdout.flush()
        elif text:
            Console().print(escape(text), soft_wrap=True)

    def facts(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Tell the facts of one thing, a line each."""
        lines = [f"{label(name)}: {shown(name, value)}" for name, value in facts.items() if value is not None]
        self.event(kind, "\n".join(lines), **facts)

    def table(self, kind: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
        """Show rows; as JSON one object with a list of objects keyed by column."""
        if self.as_json:
            items = [dict(zip(columns, row, strict=True)) for row in rows]
            sys.stdout.write(json.dumps({"event": kind, "items": items}, default=str) + "\n")
            sys.stdout.flush()
            return
        if not rows:
            Console().print(empty)
            return
        table = Table()
        for column in columns:
            # Folded, never cut: half an address is of no use.
            table.add_column(label(column), overflow="fold")
        for row in rows:
            table.add_row(*(escape(shown(name, cell)) for name, cell in zip(columns, row, strict=True)))
        Console(width=None if sys.stdout.isatty() else _WIDE).print(table)

    def reporter(self) -> Callable[[str, str, dict[str, Any]], None]:
        """What an agent calls to tell of its progress: (kind, text, fields)."""
        return lambda kind, text, fields: self.event(kind, text, **fields)


def label(name: str) -> str:
    """A fact's name for people."""
    return name.removesuffix("_wei").removesuffix("_at").removesuffix("_seconds").replace("_", " ")


def shown(name: str, value: Any) -> str:
    """A fact's value for people."""
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.chain.clock import moment

    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value) or "none"
    if name.endswith("_wei"):
        return format_hydra(value)
    if name.endswith("_at"):
        return moment(value)
    if name.endswith("_seconds"):
        return f"{value} s"
    return str(value)
