"""UnixFS: files as balanced trees of 256 KiB leaves with 174 links a node, and directories.

The same bytes get the same CID as from Kubo's `ipfs add --cid-version=1 --raw-leaves`. Sources: the UnixFS
specification (specs.ipfs.tech/unixfs) and the balanced layout that Kubo uses. Memory is bounded by one chunk and
one node per level, whatever the file's size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from hydra_node.storage import dagpb
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.dagpb import Link
from hydra_node.storage.errors import MalformedNode, TooLarge, UnreadableFile

CHUNK_BYTES = 256 * 1024
LINKS_PER_NODE = 174
MAX_DIRECTORY_BYTES = 256 * 1024
"""Names and CIDs a directory may hold; Kubo shards larger ones (HAMT), which is not supported here."""
MAX_DEPTH = 16
"""Levels of a file's tree; 174^7 leaves are already beyond any disk."""

Put = Callable[[Cid, bytes], object]
Get = Callable[[Cid], bytes]


class Kind(IntEnum):
    """The `Type` field of the UnixFS message."""

    RAW = 0
    DIRECTORY = 1
    FILE = 2
    METADATA = 3
    SYMLINK = 4
    SHARD = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored file or directory: `size` bytes of content, `total_size` bytes of blocks."""

    cid: Cid
    kind: Kind
    size: int
    total_size: int


@dataclass(frozen=True, slots=True)
class FsNode:
    """One block read as UnixFS; for an inner node, `block_sizes[i]` is the content below `links[i]`."""

    kind: Kind
    data: bytes
    size: int
    links: tuple[Link, ...]
    block_sizes: tuple[int, ...]


_Field = descriptor_pb2.FieldDescriptorProto
_UnixFs: Any = dagpb.message_class(
    "hydra.unixfs",
    {
        "Data": {
            # An enum on the wire is a varint like any other, so the numbers of `Kind` need no enum descriptor.
            "Type": (1, _Field.TYPE_UINT64, _Field.LABEL_OPTIONAL, ""),
            "Data": (2, _Field.TYPE_BYTES, _Field.LABEL_OPTIONAL, ""),
            "filesize": (3, _Field.TYPE_UINT64, _Field.LABEL_OPTIONAL, ""),
            "blocksizes": (4, _Field.TYPE_UINT64, _Field.LABEL_REPEATED, ""),
        }
    },
    "Data",
)


class FileWriter:
    """Builds a file's tree from bytes pushed into it, handing each finished block to `put`.

    `raw_leaves=False, version=0` is what `ipfs add` does without options.
    """

    def __init__(self, put: Put, *, raw_leaves: bool = True, version: int = 1) -> None:
        self._put = put
        self._raw_leaves = raw_leaves
        self._version = version
        self._pending = bytearray()
        self._levels: list[list[Entry]] = [[]]

    def write(self, data: bytes) -> None:
        """Add `data` to the end of the file."""
        self._pending += data
        while len(self._pending) >= CHUNK_BYTES:
            self._leaf(bytes(self._pending[:CHUNK_BYTES]))
            del self._pending[:CHUNK_BYTES]

    def finish(self) -> Entry:
        """Write what is left; returns the root."""
        if self._pending or self._levels == [[]]:
            self._leaf(bytes(self._pending))
            self._pending.clear()
        level = 0
        while level < len(self._levels) - 1:
            if self._levels[level]:
                self._close(level)
            level += 1
        if len(self._levels[-1]) > 1:
            self._close(level)
        return self._levels[-1][0]

    def _leaf(self, chunk: bytes) -> None:
        if self._raw_leaves:
            block, codec, version = chunk, Codec.RAW, 1
        else:
            message = _UnixFs(Type=Kind.FILE, filesize=len(chunk))
            if chunk:
                message.Data = chunk
            block, codec, version = dagpb.encode((), message.SerializeToString()), Codec.DAG_PB, self._version
        cid = Cid.of(codec, block, version)
        self._put(cid, block)
        self._push(0, Entry(cid, Kind.FILE, len(chunk), len(block)))

    def _push(self, level: int, entry: Entry) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(entry)
        if len(self._levels[level]) == LINKS_PER_NODE:
            self._close(level)

    def _close(self, level: int) -> None:
        children = self._levels[level]
        self._levels[level] = []
        size = sum(child.size for child in children)
        message = _UnixFs(Type=Kind.FILE, filesize=size, blocksizes=[child.size for child in children])
        links = [Link(child.cid, "", child.total_size) for child in children]
        cid, total = _put_node(self._put, links, message.SerializeToString(), self._version)
        self._push(level + 1, Entry(cid, Kind.FILE, size, total))


def import_file(stream: BinaryIO, put: Put) -> Cid:
    """Store a file; `put` gets every block, children before parents. Returns the root's CID."""
    return import_stream(stream, put).cid


def import_stream(stream: BinaryIO, put: Put, *, raw_leaves: bool = True, version: int = 1) -> Entry:
    """Like `import_file`, with the sizes a directory needs and a choice of form."""
    writer = FileWriter(put, raw_leaves=raw_leaves, version=version)
    while chunk := stream.read(CHUNK_BYTES):
        writer.write(chunk)
    return writer.finish()


def import_directory(path: Path, put: Put) -> Entry:
    """Store a directory tree, hidden files included; raises UnreadableFile for anything but files and directories."""
    children: dict[str, Entry] = {}
    for child in sorted(path.iterdir()):
        if child.is_symlink() or not (child.is_file() or child.is_dir()):
            raise UnreadableFile(f"{child} is neither a file nor a directory", remedy="leave it out")
        if child.is_dir():
            children[child.name] = import_directory(child, put)
        else:
            with child.open("rb") as stream:
                children[child.name] = import_stream(stream, put)
    return put_directory(children, put)


def put_directory(children: Mapping[str, Entry], put: Put, *, version: int = 1) -> Entry:
    """Store a directory of already stored children; raises TooLarge beyond MAX_DIRECTORY_BYTES."""
    links = [Link(entry.cid, name, entry.total_size) for name, entry in children.items()]
    links.sort(key=lambda link: link.name.encode())
    estimate = sum(len(link.name.encode()) + len(bytes(link.cid)) for link in links)
    if estimate > MAX_DIRECTORY_BYTES:
        raise TooLarge(
            f"a directory of {len(links)} entries", expected=f"{MAX_DIRECTORY_BYTES} bytes of names", remedy="split it"
        )
    cid, total = _put_node(put, links, _UnixFs(Type=Kind.DIRECTORY).SerializeToString(), version)
    return Entry(cid, Kind.DIRECTORY, 0, total)


def _put_node(put: Put, links: Sequence[Link], data: bytes, version: int) -> tuple[Cid, int]:
    block = dagpb.encode(links, data)
    cid = Cid.of(Codec.DAG_PB, block, version)
    put(cid, block)
    return cid, len(block) + sum(link.total_size for link in links)


def read_node(cid: Cid, block: bytes) -> FsNode:
    """Read a verified block as UnixFS; raises MalformedNode."""
    if cid.codec is Codec.RAW:
        return FsNode(Kind.FILE, block, len(block), (), ())
    if cid.codec is not Codec.DAG_PB:
        raise MalformedNode(f"{cid} is a {cid.codec.name} node", expected="a UnixFS file or directory")
    node = dagpb.decode(block)
    message = _UnixFs()
    try:
        message.ParseFromString(node.data or b"")
        kind = Kind(message.Type)
    except (DecodeError, ValueError) as error:
        raise MalformedNode(f"{cid} holds no UnixFS node ({error})") from error
    if node.data is None or not message.HasField("Type"):
        raise MalformedNode(f"{cid} holds no UnixFS node")
    fs = FsNode(kind, message.Data, message.filesize, node.links, tuple(message.blocksizes))
    if kind in (Kind.FILE, Kind.RAW):
        _check_file_node(cid, fs)
    return fs


def _check_file_node(cid: Cid, node: FsNode) -> None:
    """Sizes must add up, and no child may be empty: a few blocks could else unfold into endless work."""
    if len(node.block_sizes) != len(node.links):
        raise MalformedNode(f"{cid} has {len(node.links)} links and {len(node.block_sizes)} block sizes")
    if node.size != len(node.data) + sum(node.block_sizes):
        raise MalformedNode(f"{cid} says {node.size} bytes and its parts sum to another number")
    if not all(node.block_sizes):
        raise MalformedNode(f"{cid} has an empty child")


@dataclass(frozen=True, slots=True)
class _Todo:
    cid: Cid
    size: int | None  # what the parent promised
    depth: int


class FileWalk:
    """Reads a file block by block without doing any IO.

    While `wanted` is not None: get that block, verified, and `feed` it; what comes back is the next piece of the
    file (possibly empty). Raises MalformedNode, and TooLarge as soon as the root says more than `max_bytes`.
    """

    def __init__(self, cid: Cid, max_bytes: int | None = None) -> None:
        self._stack = [_Todo(cid, None, 0)]
        self._max_bytes = max_bytes

    @property
    def wanted(self) -> Cid | None:
        return self._stack[-1].cid if self._stack else None

    def upcoming(self, count: int) -> list[Cid]:
        """The next blocks that will be wanted, as far as known: for fetching ahead."""
        return [todo.cid for todo in self._stack[: -count - 1 : -1]]

    def feed(self, block: bytes) -> bytes:
        todo = self._stack.pop()
        node = read_node(todo.cid, block)
        if node.kind not in (Kind.FILE, Kind.RAW):
            raise MalformedNode(f"{todo.cid} is a {node.kind.name.lower()}", expected="a file")
        if todo.size is None and self._max_bytes is not None and node.size > self._max_bytes:
            raise TooLarge(f"{todo.cid} has {node.size} bytes", expected=f"at most {self._max_bytes}")
        if todo.size is not None and todo.size != node.size:
            raise MalformedNode(f"{todo.cid} has {node.size} bytes", expected=f"{todo.size}, as its parent says")
        if node.links and todo.depth >= MAX_DEPTH:
            raise MalformedNode(f"a file tree deeper than {MAX_DEPTH} levels")
        children = zip(node.links, node.block_sizes, strict=True)
        self._stack.extend(reversed([_Todo(link.cid, size, todo.depth + 1) for link, size in children]))
        return node.data


def export_file(cid: Cid, get: Get, max_bytes: int | None = None) -> Iterator[bytes]:
    """The file's bytes, a chunk at a time; `get` must return verified blocks. Raises as FileWalk does."""
    walk = FileWalk(cid, max_bytes)
    while (wanted := walk.wanted) is not None:
        if chunk := walk.feed(get(wanted)):
            yield chunk


def list_directory(cid: Cid, block: bytes) -> tuple[Link, ...]:
    """The entries of a directory's block; raises MalformedNode when it is something else."""
    node = read_node(cid, block)
    if node.kind is Kind.SHARD:
        raise MalformedNode(f"{cid} is a sharded directory", expected="a plain one (up to some 4,000 entries)")
    if node.kind is not Kind.DIRECTORY:
        raise MalformedNode(f"{cid} is a {node.kind.name.lower()}", expected="a directory")
    return node.links


def cid_of(data: bytes) -> Cid:
    """The CID that `import_file` gives these bytes, storing nothing."""
    writer = FileWriter(lambda _cid, _block: None)
    view = memoryview(data)
    for start in range(0, len(data), CHUNK_BYTES):
        writer.write(bytes(view[start : start + CHUNK_BYTES]))
    return writer.finish().cid
