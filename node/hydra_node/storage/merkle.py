"""Merkle trees over SHA-256, as in RFC 6962 (Certificate Transparency), section 2.1.

Leaves keep their order, so a proof also shows the leaf's index. Leaves and inner nodes are hashed in separate
domains (0x00, 0x01): no inner node can pass for a leaf.
"""

import hashlib
from collections.abc import Sequence

HASH_BYTES = 32


def root(leaves: Sequence[bytes]) -> bytes:
    """The 32-byte root; of no leaves, SHA-256 of nothing."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = [_leaf(leaf) for leaf in leaves]
    while len(level) > 1:
        level = _parents(level)
    return level[0]


def proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The sibling hashes from leaf `index` up to the root; raises IndexError."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    level = [_leaf(leaf) for leaf in leaves]
    path = []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level = _parents(level)
        index //= 2
    return path


def verify(leaf: bytes, index: int, size: int, path: Sequence[bytes], expected_root: bytes) -> bool:
    """Whether `leaf` is number `index` of the `size` leaves under `expected_root`."""
    if not 0 <= index < size:
        return False
    node = _leaf(leaf)
    remaining = list(path)
    while size > 1:
        if index ^ 1 < size:
            if not remaining:
                return False
            sibling = remaining.pop(0)
            node = _inner(node, sibling) if index % 2 == 0 else _inner(sibling, node)
        index //= 2
        size = (size + 1) // 2
    return not remaining and node == expected_root


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _parents(level: list[bytes]) -> list[bytes]:
    """One level up; an odd node at the end moves up unchanged, which gives RFC 6962's tree from below."""
    parents = [_inner(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        parents.append(level[-1])
    return parents
