"""Small private files that survive a crash: written beside, fsynced, renamed, readable by their owner alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Make `path` with mode 0700 if it is not there; an existing directory keeps its mode."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: after a crash at any moment the old or the new content is there, whole, mode 0600."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and removals in `path` durable, where the platform can open a directory."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
