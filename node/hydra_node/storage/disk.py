"""File operations that a crash cannot leave half done."""

import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_SYNCS_AT_ONCE = 8


def move(path: Path, target: Path) -> None:
    """Rename within one file system."""
    path.replace(target)
    sync_directory(path.parent)


def write(path: Path, data: bytes, *, sync: bool) -> None:
    """Make a new file; with `sync`, its bytes are on the disk when this returns."""
    with path.open("xb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until a directory's entries (creations, renames, removals) are on the disk."""
    if os.name == "nt":
        return  # Windows has no handle on a directory to sync
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_each(sync: Callable[[Path], None], paths: Collection[Path]) -> None:
    """`sync` every path; side by side, since a disk orders many waiting writes better than one at a time."""
    if len(paths) < 2:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(_SYNCS_AT_ONCE, thread_name_prefix="sync") as threads:
        for _ in threads.map(sync, paths):
            pass  # raises what a sync raised
