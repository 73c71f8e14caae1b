"""The folder that one run of the demo works in: marked as the demo's own, and held by one run at a time.

A run begins by deleting what an earlier one left. A folder without the mark is somebody else's and is never touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hydra_node.errors import HydraError

MARK = ".made-by-hydra-demo"


class NotOurFolder(HydraError):
    """The folder that the demo would empty was not made by a demo."""


class DemoRunning(HydraError):
    """Another demo works in the same folder."""


class BadReportPath(HydraError):
    """A report cannot be written there."""


def beside(report: Path) -> Path:
    """Where the demo that writes `report` keeps its files: build/demo-report.json has build/demo-report.files."""
    return report.parent / f"{report.stem}.files"


@contextmanager
def held(report: Path) -> Iterator[Path]:
    """The workspace of `report`, ours alone within the context; nothing in it is deleted yet.

    Raises BadReportPath, NotOurFolder, DemoRunning.
    """
    if report.is_dir():
        raise BadReportPath(f"{report} is a folder", expected="the name of a file for the report")
    folder = beside(report)
    if folder.exists() and not (folder / MARK).is_file():
        raise NotOurFolder(f"{folder} was not made by a demo", remedy="move it away, or choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / MARK)
        lock.acquire(timeout=0)
    except Timeout:
        raise DemoRunning(f"another demo works in {folder}", remedy="wait for it, or choose another --out") from None
    except OSError as error:
        raise BadReportPath(
            f"{folder} cannot be made ({error.strerror})", remedy="choose another --out that you may write to"
        ) from None
    try:
        yield folder
    finally:
        lock.release()
        # Some versions of the lock remove its file: the mark must outlive the run.
        (folder / MARK).touch()


def empty(folder: Path) -> None:
    """Delete everything in a held workspace but the mark."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
