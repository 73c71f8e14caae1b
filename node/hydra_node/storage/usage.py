"""How much a block store holds, without counting everything each time."""

import time
from dataclasses import dataclass
from pathlib import Path

_SETTLED_SECONDS = 2.0
"""A directory changed less than this ago is counted anew: file systems tell times in ticks, and two changes may
share one."""


@dataclass(frozen=True, slots=True)
class Usage:
    """`blocks` files of `size` bytes in all."""

    blocks: int
    size: int


class UsageMeter:
    """Sums the files of a directory of shards; only shards that changed since the last time are read.

    Files never change once they are in a shard, so a shard's own modification time tells whether its sum is still
    true, whichever process wrote to it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, tuple[int, Usage]] = {}

    def measure(self) -> Usage:
        """The sum over all shards now."""
        blocks = size = 0
        for shard in self._directory.iterdir():
            usage = self._shard(shard)
            blocks += usage.blocks
            size += usage.size
        return Usage(blocks, size)

    def _shard(self, shard: Path) -> Usage:
        changed = shard.stat().st_mtime_ns
        known = self._known.get(shard.name)
        if known is not None and known[0] == changed:
            return known[1]
        sizes = [_size(path) for path in shard.iterdir()]
        usage = Usage(len(sizes), sum(sizes))
        if time.time() - changed / 1e9 > _SETTLED_SECONDS:
            self._known[shard.name] = (changed, usage)
        return usage


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # removed by another process meanwhile
