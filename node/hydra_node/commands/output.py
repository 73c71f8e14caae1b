"""How a command speaks: a sentence for people, or with `--json` one JSON object a line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


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
        table = Table(*columns)
        for row in rows:
            table.add_row(*(escape(str(cell)) for cell in row))
        Console().print(table)

    def reporter(self) -> Callable[[str, str, dict[str, Any]], None]:
        """What an agent calls to tell of its progress: (kind, text, fields)."""
        return lambda kind, text, fields: self.event(kind, text, **fields)
