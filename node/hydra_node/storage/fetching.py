"""Reading content whose blocks may still be with peers: from the store, or fetched into it first."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import BlockStore, links_of
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import BlockNotFound, ContentNotFound, CorruptBlock, InvalidCid

READ_AHEAD = 16
"""Blocks asked for at once."""


class Fetch(Protocol):
    """Brings one block from peers into the store, verified; raises ContentNotFound when no peer has it.

    It may be called several times at once and is cancelled when the caller's time is up.
    """

    async def __call__(self, cid: Cid, /) -> None: ...


class FetchingReader:
    """Async reads over a store with an optional `fetch` for what is missing. Disk work runs in threads."""

    def __init__(self, store: BlockStore, fetch: Fetch | None = None) -> None:
        self._store = store
        self._fetch = fetch

    async def get(self, cid: Cid) -> bytes:
        """A verified block. Raises ContentNotFound, or what `fetch` raises."""
        try:
            return await asyncio.to_thread(self._store.get, cid)
        except BlockNotFound as error:
            if self._fetch is None:
                raise ContentNotFound(f"block {cid} is not found") from error
        except CorruptBlock:
            if self._fetch is None:
                raise
        await self._fetch(cid)
        try:
            return await asyncio.to_thread(self._store.get, cid)
        except BlockNotFound as error:
            raise ContentNotFound(f"block {cid} is not found: no peer delivered it") from error

    async def ahead(self, cids: Sequence[Cid]) -> None:
        """Fetch those of `cids` that are missing, side by side."""
        if self._fetch is None:
            return
        missing = await asyncio.to_thread(lambda: [cid for cid in dict.fromkeys(cids) if not self._store.has(cid)])
        try:
            async with asyncio.TaskGroup() as tasks:
                for cid in missing:
                    tasks.create_task(_fetch_one(self._fetch, cid))
        except ExceptionGroup as group:
            raise _first(group) from group

    async def file(self, cid: Cid) -> AsyncIterator[bytes]:
        """A file's bytes, a chunk at a time."""
        walk = unixfs.FileWalk(cid)
        while (wanted := walk.wanted) is not None:
            await self.ahead(walk.upcoming(READ_AHEAD))
            yield walk.feed(await self.get(wanted))

    async def whole(self, root: Cid) -> None:
        """Bring `root` and every block below it into the store."""
        seen = {root.digest}
        frontier = [root]
        while frontier:
            part, frontier = frontier[-READ_AHEAD:], frontier[:-READ_AHEAD]
            await self.ahead(part)
            for cid in part:
                if cid.codec is Codec.RAW and await asyncio.to_thread(self._store.has, cid):
                    continue
                for link in links_of(cid, await self.get(cid)):
                    if link.digest not in seen:
                        seen.add(link.digest)
                        frontier.append(link)

    async def resolve(self, path: str) -> Cid:
        """The CID that `CID`, `/ipfs/CID` or `/ipfs/CID/name/...` stands for."""
        parts = [part for part in path.split("/") if part]
        if parts and parts[0] == "ipfs":
            parts = parts[1:]
        if not parts:
            raise InvalidCid(f"{path!r} names no content", expected="a CID or /ipfs/CID/path")
        cid = Cid.parse(parts[0])
        for name in parts[1:]:
            entries = {link.name: link.cid for link in unixfs.list_directory(cid, await self.get(cid))}
            if name not in entries:
                raise ContentNotFound(f"{path} is not found: no entry {name!r} in {cid}")
            cid = entries[name]
        return cid


async def _fetch_one(fetch: Fetch, cid: Cid) -> None:
    await fetch(cid)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
