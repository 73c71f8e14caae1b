"""What a person sees of the demo: a live table of the participants, then the report as tables."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hydra_node.chain.amounts import format_hydra
from hydra_node.devnet.cast import EVERYONE
from hydra_node.devnet.supervisor import Event

_SHOWN = ("step", "loss", "share", "accepted", "items", "submission", "campaign", "job", "round", "verified", "total")


class Screen:
    """A live table on a terminal; one line a stage elsewhere (a log file, a CI run)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._stage = ""
        self._newest: dict[str, str] = {}
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, text: str) -> None:
        """A new part of the story begins."""
        self._stage = text
        line = Text(f"{time.monotonic() - self._started:6.1f} s  {text}")
        (self._live.console if self._live is not None else self._console).print(line, soft_wrap=True)
        self._refresh()

    def event(self, name: str, event: Event) -> None:
        """A participant has said something."""
        self._newest[name] = sentence(event)
        self._refresh()

    def _refresh(self) -> None:
        if self._live is None:
            return
        table = Table("participant", "is", "latest", expand=True, box=None, pad_edge=False)
        kinds = {role.name: ", ".join(filter(None, (role.kind, role.adversary, role.fate))) for role in EVERYONE}
        for name, kind in kinds.items():
            if name in self._newest:
                table.add_row(name, kind, escape(self._newest[name]))
        self._live.update(Group(Text(self._stage, style="bold"), table))


def print_report(console: Console, report: dict[str, Any], path: Path) -> None:
    """The report as tables; what failed last, where the eye is."""
    for title, columns in _TABLES.items():
        people = report.get(title, {})
        if people:
            console.print(_people(title, columns, people))
    model = report.get("model", {})
    if "test_accuracy" in model:
        console.print(
            f"test accuracy {model['test_accuracy']:.4f}, the same job in one process "
            f"{model.get('single_process_accuracy', float('nan')):.4f}, {model['steps']} steps"
        )
    checks = Table("check", "", "figures", title="checks")
    for check in report["checks"]:
        mark = "[green]passed[/]" if check["passed"] else "[bold red]FAILED[/]"
        checks.add_row(escape(check["name"]), mark, escape(check["detail"]))
    console.print(checks)
    failed = sum(1 for check in report["checks"] if not check["passed"])
    verdict = "every check passed" if not failed else f"{failed} checks FAILED"
    balanced = "balanced" if report.get("books", {}).get("balanced") else "NOT balanced"
    console.print(f"{verdict}; the books are {balanced}; {report.get('wall_s', 0):.0f} s; report: {path}")


_TABLES = {
    "contributors": ("items", "accepted", "paid_wei"),
    "validators": ("commits", "reveals", "paid_wei", "slashed_wei"),
    "trainers": ("samples_verified", "steps", "restarts", "paid_wei", "slashed_wei"),
}


def _people(title: str, columns: tuple[str, ...], people: dict[str, dict[str, Any]]) -> Table:
    table = Table("", *(column.removesuffix("_wei") for column in columns), title=title)
    for name, facts in people.items():
        cells = [format_hydra(facts[c]) if c.endswith("_wei") else str(facts[c]) for c in columns]
        table.add_row(name, *cells)
    return table


def sentence(event: Event) -> str:
    """What a participant has said, in a few words: "step 63, loss 0.412, share 128"."""
    kind = str(event.get("event", "")).replace("_", " ")
    facts = {key: _short(event[key]) for key in _SHOWN if event.get(key) is not None}
    head = f"{kind} {facts.pop(kind)}" if kind in facts else kind
    return ", ".join([head, *(f"{key} {value}" for key, value in facts.items())])


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)[:40]
