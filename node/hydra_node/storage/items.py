"""What a contributor submits: items of fixed form, packed into one dag-cbor payload.

    {"schema": {"dtype": "u1" | "f4", "shape": [8, 8], "scale": 16, "classes": 10},
     "items": [[features, label], ...]}

`features` are the raw bytes of one array in C order, little-endian; dividing by `scale` gives what models see.
A payload comes from a stranger: everything is bounded before it is believed.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hydra_node.storage import dag, merkle
from hydra_node.storage.errors import MalformedNode, MalformedSubmission, UnreadableFile
from hydra_node.storage.tables import Table, read_file

__all__ = [
    "Item", "Payload", "Schema", "SchemaLike", "check", "from_arrays", "from_table", "item_hash", "pack",
    "read_file", "root", "to_arrays", "unpack",
]  # fmt: skip

MAX_ITEMS = 100_000
MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
MAX_ITEM_BYTES = 1024 * 1024
MAX_DIMENSIONS = 4
MAX_CLASSES = 100_000
_VALUES_PER_ITEM = 3  # the pair, its features, its label
_OTHER_VALUES = 64  # the maps, the schema
_NAMED_ITEMS = 10

_HASH_DOMAIN = b"hydra-item-1"


class SchemaLike(Protocol):
    """Anything with a schema's four fields, such as a campaign policy's item schema."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def scale(self) -> float: ...
    @property
    def classes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Schema:
    """The form of every item: `dtype` is "u1" or "f4" (little-endian), labels are 0 .. classes-1."""

    dtype: str
    shape: tuple[int, ...]
    scale: float
    classes: int

    def __post_init__(self) -> None:
        if self.dtype not in ("u1", "f4"):
            raise MalformedSubmission(f"schema: dtype {self.dtype!r}", expected='"u1" or "f4"')
        whole = all(type(n) is int and n > 0 for n in self.shape)
        if not whole or not 1 <= len(self.shape) <= MAX_DIMENSIONS or item_bytes(self) > MAX_ITEM_BYTES:
            raise MalformedSubmission(
                f"schema: shape {list(self.shape)[:8]}",
                expected=f"1 to {MAX_DIMENSIONS} positive sizes, at most {MAX_ITEM_BYTES} bytes an item",
            )
        if type(self.scale) not in (int, float) or not (math.isfinite(self.scale) and self.scale > 0):
            raise MalformedSubmission(f"schema: scale {self.scale!r}", expected="a positive number")
        if type(self.classes) is not int or not 1 <= self.classes <= MAX_CLASSES:
            raise MalformedSubmission(f"schema: classes {self.classes!r}", expected=f"1 to {MAX_CLASSES}")

    @classmethod
    def of(cls, schema: SchemaLike) -> "Schema":
        """The same form as a Schema; raises MalformedSubmission."""
        return cls(schema.dtype, tuple(schema.shape), schema.scale, schema.classes)

    @classmethod
    def from_node(cls, node: object) -> "Schema":
        """Read the dag-cbor form; raises MalformedSubmission."""
        if not isinstance(node, dict) or set(node) != {"dtype", "shape", "scale", "classes"}:
            raise MalformedSubmission("schema: wrong fields", expected="dtype, shape, scale, classes")
        if not isinstance(node["shape"], list):
            raise MalformedSubmission("schema: shape is no list")
        return cls(node["dtype"], tuple(node["shape"]), node["scale"], node["classes"])

    def to_node(self) -> dict[str, dag.Node]:
        """The dag-cbor form; whole scales are written as integers, so that equal schemas have equal bytes."""
        scale = int(self.scale) if float(self.scale).is_integer() else self.scale
        return {"dtype": self.dtype, "shape": list(self.shape), "scale": scale, "classes": self.classes}


def numpy_dtype(schema: SchemaLike) -> np.dtype[Any]:
    """The dtype of the stored features."""
    return np.dtype("u1") if schema.dtype == "u1" else np.dtype("<f4")


def item_bytes(schema: SchemaLike) -> int:
    """The length of one item's features."""
    return math.prod(schema.shape) * (1 if schema.dtype == "u1" else 4)


@dataclass(frozen=True, slots=True)
class Item:
    """One example: the raw bytes of its features, and its class number."""

    features: bytes
    label: int


class Payload(NamedTuple):
    """An unpacked submission."""

    schema: Schema
    items: tuple[Item, ...]


def pack(schema: SchemaLike, items: Sequence[Item]) -> bytes:
    """The payload's bytes, the same for the same items. Raises MalformedSubmission for what `unpack` would refuse."""
    own = Schema.of(schema)
    if not 1 <= len(items) <= MAX_ITEMS:
        raise MalformedSubmission(f"{len(items)} items", expected=f"1 to {MAX_ITEMS}")
    check(own, items)
    return dag.encode({"schema": own.to_node(), "items": [[item.features, item.label] for item in items]})


def unpack(
    data: bytes,
    *,
    max_items: int = MAX_ITEMS,
    max_bytes: int = MAX_PAYLOAD_BYTES,
    schema: SchemaLike | None = None,
    check_items: bool = True,
) -> Payload:
    """Read a payload; raises MalformedSubmission with the reason, and `items` where single items are at fault.

    With `schema`, the payload must have that one. With `check_items=False`, lengths, values and labels of items
    are left to the caller, who may want to refuse items one by one.
    """
    if len(data) > max_bytes:
        raise MalformedSubmission(f"payload of {len(data)} bytes", expected=f"at most {max_bytes}")
    try:
        node = dag.decode(data, max_items * _VALUES_PER_ITEM + _OTHER_VALUES)
    except MalformedNode as error:
        raise MalformedSubmission(f"payload: {error.what}", expected=error.expected) from error
    if not isinstance(node, dict) or set(node) != {"schema", "items"}:
        raise MalformedSubmission("payload: wrong fields", expected="schema, items")
    found = Schema.from_node(node["schema"])
    if schema is not None and found != Schema.of(schema):
        raise MalformedSubmission(f"schema: {found}", expected=f"the campaign's, {Schema.of(schema)}")
    items = _items(node["items"], max_items)
    if check_items:
        check(found, items)
    return Payload(found, items)


def _items(node: dag.Node, max_items: int) -> tuple[Item, ...]:
    if not isinstance(node, list) or not 1 <= len(node) <= max_items:
        count = len(node) if isinstance(node, list) else "no list of"
        raise MalformedSubmission(f"{count} items", expected=f"1 to {max_items}")
    bad = [i for i, pair in enumerate(node) if not _is_pair(pair)]
    _refuse(bad, "not a pair of bytes and a whole number")
    return tuple(Item(features, label) for features, label in cast(list[tuple[bytes, int]], node))


def _is_pair(value: dag.Node) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and isinstance(value[0], bytes) and type(value[1]) is int
    )  # a bool is an int to isinstance


def check(schema: SchemaLike, items: Sequence[Item]) -> None:
    """Every item has the schema's length, finite features and a label in range; raises MalformedSubmission."""
    length = item_bytes(schema)
    _refuse(
        [i for i, item in enumerate(items) if len(item.features) != length], f"features are not {length} bytes long"
    )
    _refuse(
        [i for i, item in enumerate(items) if not 0 <= item.label < schema.classes],
        f"label is not in 0..{schema.classes - 1}",
    )
    if schema.dtype == "f4":
        dtype = numpy_dtype(schema)
        _refuse(
            [i for i, item in enumerate(items) if not np.isfinite(np.frombuffer(item.features, dtype)).all()],
            "features are not finite",
        )


def _refuse(bad: Sequence[int], reason: str) -> None:
    if bad:
        named = ", ".join(map(str, bad[:_NAMED_ITEMS])) + (", ..." if len(bad) > _NAMED_ITEMS else "")
        raise MalformedSubmission(f"{len(bad)} items ({named}): {reason}", items=tuple(bad))


def item_hash(item: Item) -> bytes:
    """SHA-256 of an item's canonical bytes: domain, label (8 bytes, big-endian, signed), features.

    The schema is bound by the campaign that the hash is used in. Never raises: a label beyond 64 bits is hashed
    by its decimal text, in another domain.
    """
    if -(2**63) <= item.label < 2**63:
        prefix = _HASH_DOMAIN + struct.pack(">q", item.label)
    else:
        prefix = _HASH_DOMAIN + b"-big" + str(item.label).encode() + b":"
    return hashlib.sha256(prefix + item.features).digest()


def root(hashes: Sequence[bytes]) -> bytes:
    """The 32-byte Merkle root over item hashes in item order: what a submission commits to."""
    return merkle.root(hashes)


def to_arrays(schema: SchemaLike, items: Sequence[Item]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features (n, *shape), divided by the scale, and labels (n,), of items that passed `check`."""
    raw = np.frombuffer(b"".join(item.features for item in items), numpy_dtype(schema))
    features = raw.reshape((len(items), *schema.shape)).astype(np.float32) / np.float32(schema.scale)
    return features, np.array([item.label for item in items], dtype=np.int64)


def from_arrays(schema: SchemaLike, features: NDArray[Any], labels: NDArray[Any]) -> tuple[Item, ...]:
    """Items from unscaled features (n, ...) and labels (n,); raises MalformedSubmission when they do not fit."""
    width = math.prod(schema.shape)
    count = len(labels)
    if len(features) != count or features.size != count * width:
        raise MalformedSubmission(
            f"features of shape {list(features.shape)} and {count} labels", expected=f"{width} features an item"
        )
    rows = features.reshape(count, width)
    with np.errstate(invalid="ignore", over="ignore"):  # what does not fit is refused below, by name
        stored = rows.astype(numpy_dtype(schema))
    if schema.dtype == "u1":
        exact: NDArray[np.bool_] = (rows >= 0) & (rows <= 255) & (rows == stored)
        _refuse(np.flatnonzero(~exact.all(axis=1)).tolist(), "features are not whole numbers in 0..255")
    made = tuple(Item(row.tobytes(), int(label)) for row, label in zip(stored, labels, strict=True))
    check(schema, made)
    return made


def from_table(schema: SchemaLike, table: Table, path: Path) -> tuple[Item, ...]:
    """The items of the file at `path`; raises UnreadableFile, which names it, when they do not fit the schema."""
    try:
        return from_arrays(schema, table.features, table.labels)
    except MalformedSubmission as error:
        raise UnreadableFile(f"{path}: {error.what}", expected=error.expected, remedy=error.remedy) from error
