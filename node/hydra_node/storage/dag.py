"""dag-cbor and dag-json nodes with our own `Cid` values in them, decoded within bounds.

Source: the DAG-CBOR and DAG-JSON codec specifications (ipld.io/specs/codecs).
"""

import base64
from typing import Any, TypeAlias, Union, cast

import dag_cbor
import multiformats
from dag_cbor.decoding import CBORDecodingError
from dag_cbor.encoding import CBOREncodingError

from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import InvalidCid, MalformedNode

Node: TypeAlias = Union[bool, int, float, str, bytes, Cid, "list[Node]", "dict[str, Node]", None]

DEFAULT_MAX_VALUES = 2_000_000


class _TooManyValues(Exception):
    """Stops the decoder in the middle; becomes MalformedNode."""


class _Budget:
    """Counts decoded values: a megabyte of CBOR can otherwise become many megabytes of Python objects."""

    def __init__(self, values: int) -> None:
        self.left = values

    def __call__(self, value: object, num_bytes_read: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooManyValues


def encode(node: Node) -> bytes:
    """Canonical dag-cbor; raises MalformedNode for what dag-cbor cannot hold (NaN, other types)."""
    try:
        return dag_cbor.encode(cast(Any, _to_library(node)))
    except (CBOREncodingError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedNode(f"value cannot be written as dag-cbor ({error})") from error


def decode(data: bytes, max_values: int = DEFAULT_MAX_VALUES) -> Node:
    """Read canonical dag-cbor; raises MalformedNode for anything else, and above `max_values` values."""
    try:
        return _from_library(dag_cbor.decode(data, callback=_Budget(max_values)))
    except _TooManyValues as error:
        raise MalformedNode("dag-cbor holds too many values", expected=f"at most {max_values}") from error
    except InvalidCid as error:
        raise MalformedNode(f"a link in dag-cbor: {error.what}", expected=error.expected) from error
    # Beside its own error the library lets lower-level ones through for hostile input: lengths above a machine
    # word, empty CIDs, nesting without end.
    except (CBORDecodingError, ValueError, LookupError, OverflowError, RecursionError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MalformedNode(f"not canonical dag-cbor ({reason})") from error


def links(node: Node) -> list[Cid]:
    """Every CID in a node, in order of appearance."""
    found: list[Cid] = []
    pending: list[Node] = [node]
    while pending:
        value = pending.pop()
        if isinstance(value, Cid):
            found.append(value)
        elif isinstance(value, dict):
            pending.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            pending.extend(reversed(value))
    return found


def to_json(node: Node) -> Any:
    """dag-json form: bytes and CIDs become {"/": ...} maps."""
    if isinstance(node, Cid):
        return {"/": str(node)}
    if isinstance(node, bytes):
        return {"/": {"bytes": base64.b64encode(node).decode("ascii").rstrip("=")}}
    if isinstance(node, list):
        return [to_json(item) for item in node]
    if isinstance(node, dict):
        return {key: to_json(value) for key, value in node.items()}
    return node


def from_json(value: Any) -> Node:
    """The node that a dag-json value stands for; raises MalformedNode, InvalidCid."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return cast(Node, value)
    if set(value) != {"/"}:
        return {key: from_json(item) for key, item in value.items()}
    special = value["/"]
    if isinstance(special, str):
        return Cid.parse(special)
    if isinstance(special, dict) and set(special) == {"bytes"} and isinstance(special["bytes"], str):
        text = special["bytes"]
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except ValueError as error:
            raise MalformedNode(f"dag-json bytes are not base64 ({error})") from error
    raise MalformedNode('dag-json map with the reserved key "/"', expected="a CID or bytes")


def _to_library(node: Node) -> object:
    if isinstance(node, Cid):
        return multiformats.CID.decode(bytes(node))
    if isinstance(node, list | tuple):
        return [_to_library(item) for item in node]
    if isinstance(node, dict):
        return {key: _to_library(value) for key, value in node.items()}
    return node


def _from_library(value: object) -> Node:
    if isinstance(value, multiformats.CID):
        return Cid.from_bytes(bytes(value))
    if isinstance(value, list):
        return [_from_library(item) for item in value]
    if isinstance(value, dict):
        return {key: _from_library(item) for key, item in value.items()}
    return cast(Node, value)
