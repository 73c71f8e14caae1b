"""The Merkle tree from which every reward is claimed: OpenZeppelin's StandardMerkleTree.

Leaves are hashed twice, so that no inner node can be presented as a leaf; pairs are sorted before they are
hashed, so that a proof needs no directions. Source: OpenZeppelin `merkle-tree` (`StandardMerkleTree`) and
`contracts/utils/cryptography/MerkleProof.sol`. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from eth_hash.auto import keccak

from hydra_node.errors import HydraError

MAX_PROOF = 64


class BadLeaf(HydraError):
    """A value that does not fit a leaf of the rewards tree, or a tree without leaves."""


def leaf(job_id: int, account: str, cumulative: int, evidence: bytes) -> bytes:
    """keccak256(keccak256(abi.encode(jobId, account, cumulative, evidence))), 32 bytes.

    `account` is a hex address, `cumulative` wei over all rounds of the job, `evidence` the 32-byte root of what
    the amount was counted from. Raises `BadLeaf` for values that Solidity could not hold.
    """
    words = (_uint256(job_id, "job id"), _address(account), _uint256(cumulative, "amount"), _bytes32(evidence))
    return keccak(keccak(b"".join(words)))


def hash_pair(a: bytes, b: bytes) -> bytes:
    """The parent of two nodes, whichever way round they are given."""
    return keccak(a + b if a < b else b + a)


def verify(root: bytes, leaf_hash: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` leads from `leaf_hash` to `root`, as `MerkleProof.verify` on chain decides it."""
    if len(proof) > MAX_PROOF or any(len(node) != 32 for node in (leaf_hash, *proof)):
        return False
    node = leaf_hash
    for sibling in proof:
        node = hash_pair(node, sibling)
    return node == root


class MerkleTree:
    """A tree over leaf hashes; `proof(i)` is for the i-th leaf in the order given to the constructor.

    The nodes lie in one array: the root first, the children of node i at 2i + 1 and 2i + 2, the leaves last in
    descending order of their hashes.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        if not leaves:
            raise BadLeaf("a Merkle tree needs at least one leaf")
        if any(len(each) != 32 for each in leaves):
            raise BadLeaf("a leaf of a Merkle tree is not a hash", expected="32 bytes")
        size = 2 * len(leaves) - 1
        self._nodes = [b""] * size
        self._positions = [0] * len(leaves)
        for rank, index in enumerate(sorted(range(len(leaves)), key=lambda i: leaves[i])):
            self._positions[index] = size - 1 - rank
            self._nodes[size - 1 - rank] = leaves[index]
        for parent in reversed(range(len(leaves) - 1)):
            self._nodes[parent] = hash_pair(self._nodes[2 * parent + 1], self._nodes[2 * parent + 2])

    @property
    def root(self) -> bytes:
        """The 32 bytes that the chain keeps."""
        return self._nodes[0]

    def proof(self, index: int) -> list[bytes]:
        """The siblings from the `index`-th leaf up to the root. Raises `IndexError` outside the leaves."""
        if index < 0:
            raise IndexError(index)
        node = self._positions[index]
        siblings = []
        while node:
            siblings.append(self._nodes[node + 1 if node % 2 else node - 1])
            node = (node - 1) // 2
        return siblings


def _uint256(value: int, what: str) -> bytes:
    if not 0 <= value < 2**256:
        raise BadLeaf(f"the {what} {value} does not fit a leaf", expected="a uint256")
    return value.to_bytes(32, "big")


def _address(account: str) -> bytes:
    try:
        raw = bytes.fromhex(account.removeprefix("0x"))
    except ValueError:
        raw = b""
    if len(raw) != 20:
        raise BadLeaf(f"{account[:80]!r} is not an account", expected="an address of 20 bytes in hex")
    return raw.rjust(32, b"\0")


def _bytes32(value: bytes) -> bytes:
    if len(value) != 32:
        raise BadLeaf(f"the evidence has {len(value)} bytes", expected="32 bytes")
    return bytes(value)
