"""Reading a contributor's own file into arrays: NumPy archives and CSV."""

import csv
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hydra_node.storage.errors import UnreadableFile

MAX_TABLE_BYTES = 1024 * 1024 * 1024
MAX_CSV_COLUMNS = 1_000_000


class Table(NamedTuple):
    """Features (n, ...) as stored, not scaled, and labels (n,)."""

    features: NDArray[Any]
    labels: NDArray[np.int64]


def read_file(path: Path | str, *, label_column: str = "label") -> Table:
    """Read an .npz archive with arrays X and y, or a .csv file with a header and a label column.

    Raises UnreadableFile, in one line, for a file that is missing, empty, corrupt, too large or of another kind.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise UnreadableFile(f"{path} is not a file", expected="an .npz or .csv file")
        if size == 0:
            raise UnreadableFile(f"{path} is empty", expected="at least one item")
        if size > MAX_TABLE_BYTES:
            raise UnreadableFile(f"{path} has {size} bytes", expected=f"at most {MAX_TABLE_BYTES}", remedy="split it")
        table = _reader(path)(path, label_column)
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path} does not exist", remedy="check the path") from error
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror or error})") from error
    if len(table.labels) == 0:
        raise UnreadableFile(f"{path} holds no items", expected="at least one")
    return table


def _reader(path: Path) -> Callable[[Path, str], Table]:
    readers = {".npz": _read_npz, ".csv": _read_csv}
    try:
        return readers[path.suffix.lower()]
    except KeyError as error:
        raise UnreadableFile(f"{path} is of an unknown kind", expected=" or ".join(readers)) from error


def _read_npz(path: Path, _label_column: str) -> Table:
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > MAX_TABLE_BYTES:
            raise UnreadableFile(f"{path} unpacks to {unpacked} bytes", expected=f"at most {MAX_TABLE_BYTES}")
        with np.load(path, allow_pickle=False) as arrays:
            missing = {"X", "y"} - set(arrays.files)
            if missing:
                raise UnreadableFile(f"{path} has no array {' or '.join(sorted(missing))}", expected="arrays X and y")
            features, labels = arrays["X"], arrays["y"]
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, SyntaxError, NotImplementedError) as error:
        raise UnreadableFile(f"{path} is corrupt ({_first_line(error)})", expected="a NumPy .npz archive") from error
    if features.ndim < 2 or labels.ndim != 1 or len(features) != len(labels):
        raise UnreadableFile(
            f"{path} has X of shape {features.shape} and y of shape {labels.shape}", expected="X (n, ...) and y (n,)"
        )
    if features.dtype.kind not in "uif":
        raise UnreadableFile(f"{path} has X of type {features.dtype}", expected="numbers")
    return Table(features, _whole(path, labels))


def _read_csv(path: Path, label_column: str) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = [name.strip() for name in next(csv.reader(file), [])]
            if label_column not in header:
                shown = ", ".join(header[:8])
                raise UnreadableFile(f"{path} has no column {label_column!r}", expected=f"one of its header: {shown}")
            if not 1 < len(header) <= MAX_CSV_COLUMNS:
                raise UnreadableFile(f"{path} has {len(header)} columns", expected="features and a label")
            with warnings.catch_warnings(action="ignore"):  # "no data" is our own error, below
                values = np.loadtxt(file, dtype=np.float64, delimiter=",", ndmin=2, comments=None, quotechar='"')
    except (ValueError, csv.Error) as error:  # a UnicodeDecodeError is a ValueError
        raise UnreadableFile(
            f"{path} is corrupt ({_first_line(error)})", expected="UTF-8 text with numbers below one header line"
        ) from error
    if values.size == 0:
        raise UnreadableFile(f"{path} holds no items", expected="lines below the header")
    if values.shape[1] != len(header):
        raise UnreadableFile(f"{path} has {values.shape[1]} values a line", expected=f"{len(header)}, as in the header")
    column = header.index(label_column)
    return Table(np.delete(values, column, axis=1), _whole(path, values[:, column]))


def _whole(path: Path, labels: NDArray[Any]) -> NDArray[np.int64]:
    if labels.dtype.kind in "ui":
        return labels.astype(np.int64)
    if labels.dtype.kind != "f" or not np.isfinite(labels).all() or (labels != np.rint(labels)).any():
        raise UnreadableFile(f"{path} has labels that are not whole numbers", expected="class numbers 0, 1, ...")
    return labels.astype(np.int64)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
