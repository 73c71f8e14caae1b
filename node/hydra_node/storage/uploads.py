"""The `add` call: a multipart upload of files and directories becomes UnixFS trees in one batch of blocks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from aiohttp import BodyPartReader, MultipartReader

from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import Batch, BlockStore
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import MalformedNode, TooLarge
from hydra_node.storage.unixfs import Entry

MAX_ENTRIES = 100_000
MAX_NAME_DEPTH = 64
_WRITE_BYTES = 1024 * 1024

_Tree: TypeAlias = dict[str, "Entry | _Tree"]


@dataclass(frozen=True, slots=True)
class AddOptions:
    """How to store an upload."""

    version: int = 1
    raw_leaves: bool = True
    pin: bool = True
    only_hash: bool = False
    wrap: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """One line of the answer: a path in the upload and what it became."""

    name: str
    entry: Entry


@asynccontextmanager
async def batch_of(store: BlockStore) -> AsyncIterator[Batch]:
    """`store.batch()` for an event loop: its disk work runs in threads."""
    batch = store.batch()
    await asyncio.to_thread(batch.__enter__)
    try:
        yield batch
    except BaseException as error:
        await asyncio.to_thread(batch.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(batch.__exit__, None, None, None)


async def add(store: BlockStore, reader: MultipartReader, options: AddOptions, max_bytes: int) -> list[Added]:
    """Store every file and directory of the upload; durable when this returns. Children come before parents.

    Raises TooLarge, QuotaExceeded, MalformedNode.
    """
    if options.only_hash:
        return await _Upload(lambda _cid, _block: None, options, max_bytes).run(reader)
    async with batch_of(store) as batch:
        upload = _Upload(batch.put, options, max_bytes)
        added = await upload.run(reader)
        if options.pin:
            for root in upload.roots:
                batch.pin(root)
    return added


class _Upload:
    def __init__(self, put: Callable[[Cid, bytes], None], options: AddOptions, max_bytes: int) -> None:
        self.roots: list[Cid] = []
        self._put = put
        self._options = options
        self._left = self._max_bytes = max_bytes
        self._tree: _Tree = {}
        self._added: list[Added] = []

    async def run(self, reader: MultipartReader) -> list[Added]:
        count = 0
        while (part := await reader.next()) is not None:
            count += 1
            if count > MAX_ENTRIES:
                raise TooLarge("an upload of too many files", expected=f"at most {MAX_ENTRIES}")
            if not isinstance(part, BodyPartReader):
                raise MalformedNode("a nested multipart upload", expected="files and directories")
            await self._part(part)
        await asyncio.to_thread(self._directories)
        return self._added

    async def _part(self, part: BodyPartReader) -> None:
        kind = part.headers.get("Content-Type", "")
        name = unquote(part.filename or "")
        if kind == "application/x-directory":
            self._place(name, {})
        elif kind in ("application/symlink", "application/x-symlink"):
            raise MalformedNode(f"{name} is a symbolic link", expected="files and directories")
        else:
            entry = await self._file(part)
            if "/" in name or self._options.wrap:
                self._place(name or str(entry.cid), entry)
            else:
                self.roots.append(entry.cid)
            self._added.append(Added(name or str(entry.cid), entry))

    async def _file(self, part: BodyPartReader) -> Entry:
        writer = unixfs.FileWriter(self._put, raw_leaves=self._options.raw_leaves, version=self._options.version)
        pending = bytearray()
        while chunk := await part.read_chunk(unixfs.CHUNK_BYTES):
            self._left -= len(chunk)
            if self._left < 0:
                raise TooLarge("the upload is too large", expected=f"at most {self._max_bytes} bytes")
            pending += chunk
            if len(pending) >= _WRITE_BYTES:
                await asyncio.to_thread(writer.write, bytes(pending))
                pending.clear()
        await asyncio.to_thread(writer.write, bytes(pending))
        return await asyncio.to_thread(writer.finish)

    def _place(self, path: str, value: "Entry | _Tree") -> None:
        parts = path.split("/")
        if len(parts) > MAX_NAME_DEPTH or any(part in ("", ".", "..") for part in parts):
            raise MalformedNode(f"{path[:100]!r} is no path for an upload", expected="names joined by /")
        tree = self._tree
        for part in parts[:-1]:
            below = tree.setdefault(part, {})
            if isinstance(below, Entry):
                raise MalformedNode(f"{path!r} is below a file")
            tree = below
        if isinstance(value, Entry) or parts[-1] not in tree:
            tree[parts[-1]] = value

    def _directories(self) -> None:
        if self._options.wrap:
            self.roots.append(self._directory("", self._tree).cid)
            return
        for name, below in self._tree.items():
            entry = below if isinstance(below, Entry) else self._directory(name, below)
            self.roots.append(entry.cid)

    def _directory(self, path: str, tree: _Tree) -> Entry:
        children = {}
        for name, below in tree.items():
            inner = f"{path}/{name}" if path else name
            children[name] = below if isinstance(below, Entry) else self._directory(inner, below)
        entry = unixfs.put_directory(children, self._put, version=self._options.version)
        self._added.append(Added(path or str(entry.cid), entry))
        return entry
