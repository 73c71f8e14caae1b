"""The demo empties its own folder only, and two demos never share one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_node.devnet import workspace
from hydra_node.devnet.demo import DemoOptions, UnknownPart


def test_what_an_earlier_run_left_is_deleted_and_nothing_beside_it(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("years of work")
    with workspace.held(report) as folder:
        (folder / "logs").mkdir()
        (folder / "logs" / "chain.log").write_text("old")
        (folder / "link").symlink_to(tmp_path / "demo")
    with workspace.held(report) as folder:
        workspace.empty(folder)
        assert [path.name for path in folder.iterdir()] == [workspace.MARK]
    assert (tmp_path / "demo" / "thesis.txt").read_text() == "years of work"


def test_a_folder_that_no_demo_made_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    workspace.beside(report).mkdir()
    (workspace.beside(report) / "thesis.txt").write_text("years of work")
    with pytest.raises(workspace.NotOurFolder, match="was not made by a demo"), workspace.held(report):
        pass
    assert (workspace.beside(report) / "thesis.txt").exists()


def test_reports_in_one_folder_have_workspaces_of_their_own(tmp_path: Path) -> None:
    assert workspace.beside(tmp_path / "a.json") != workspace.beside(tmp_path / "b.json")


def test_a_second_demo_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with (
        workspace.held(report),
        pytest.raises(workspace.DemoRunning, match="another demo"),
        workspace.held(report),
    ):
        pass


def test_a_folder_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(workspace.BadReportPath, match="is a folder"), workspace.held(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["nonsense", "contract:Nope", ""])
def test_leaving_out_what_takes_no_part_is_refused(name: str) -> None:
    with pytest.raises(UnknownPart, match="takes no part"):
        DemoOptions(without=frozenset({name}))
