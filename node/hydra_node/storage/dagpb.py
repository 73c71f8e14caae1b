"""dag-pb: the protobuf node that UnixFS files and directories are made of.

Source: the DAG-PB specification (ipld.io/specs/codecs/dag-pb). Its canonical form writes `Links` (field 2) before
`Data` (field 1), which no protobuf serialiser does by itself; but the serialisations of two messages, one after
the other, are the serialisation of their union. So a node is written as its links followed by its data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import InvalidCid, MalformedNode

_Field = descriptor_pb2.FieldDescriptorProto


@dataclass(frozen=True, slots=True)
class Link:
    """A child: its CID, its name (directories only), and the bytes of all blocks from it down."""

    cid: Cid
    name: str
    total_size: int


@dataclass(frozen=True, slots=True)
class PbNode:
    """A dag-pb node: ordered links, and the data that UnixFS keeps its own message in."""

    links: tuple[Link, ...]
    data: bytes | None


def message_class(package: str, schema: dict[str, dict[str, tuple[int, int, int, str]]], name: str) -> Any:
    """The protobuf class `name` of a proto2 `schema`: {message: {field: (number, type, label, type name)}}.

    Built at run time, so that nothing needs protoc.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for message_name, fields in schema.items():
        message = file.message_type.add(name=message_name)
        for field_name, (number, kind, label, type_name) in fields.items():
            field = message.field.add(name=field_name, number=number)
            field.type = cast(Any, kind)
            field.label = cast(Any, label)
            if type_name:
                field.type_name = f".{package}.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


_OPTIONAL, _REPEATED = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED
_PBNode = message_class(
    "hydra.dagpb",
    {
        "PBLink": {
            "Hash": (1, _Field.TYPE_BYTES, _OPTIONAL, ""),
            "Name": (2, _Field.TYPE_STRING, _OPTIONAL, ""),
            "Tsize": (3, _Field.TYPE_UINT64, _OPTIONAL, ""),
        },
        "PBNode": {
            "Data": (1, _Field.TYPE_BYTES, _OPTIONAL, ""),
            "Links": (2, _Field.TYPE_MESSAGE, _REPEATED, "PBLink"),
        },
    },
    "PBNode",
)


def encode(links: Sequence[Link], data: bytes | None) -> bytes:
    """The canonical bytes of a node."""
    head = _PBNode()
    for link in links:
        head.Links.add(Hash=bytes(link.cid), Name=link.name, Tsize=link.total_size)
    encoded: bytes = head.SerializeToString()
    if data is not None:
        encoded += _PBNode(Data=data).SerializeToString()
    return encoded


def decode(block: bytes) -> PbNode:
    """Read a node; raises MalformedNode, also for a link to something this system does not store."""
    node = _PBNode()
    try:
        node.ParseFromString(block)
    except DecodeError as error:
        raise MalformedNode(f"not a dag-pb node ({error})") from error
    try:
        links = tuple(Link(Cid.from_bytes(link.Hash), link.Name, link.Tsize) for link in node.Links)
    except InvalidCid as error:
        raise MalformedNode(f"a link in dag-pb: {error.what}", expected=error.expected) from error
    return PbNode(links, node.Data if node.HasField("Data") else None)
