"""A Merkle tree in the contracts' form, written anew here: the tests do not trust the client's own."""

from __future__ import annotations

from eth_abi import encode
from eth_utils import keccak


def leaf(job_id: int, account: str, cumulative: int, evidence: bytes) -> bytes:
    """The leaf of one account."""
    return keccak(
        keccak(encode(["uint256", "address", "uint256", "bytes32"], [job_id, str(account), cumulative, evidence]))
    )


def parent(one: bytes, other: bytes) -> bytes:
    """The node above a pair, whichever way round."""
    return keccak(min(one, other) + max(one, other))


class Tree:
    """A tree over rewards {account: cumulative wei}; every account's evidence is 32 bytes of 0xee."""

    EVIDENCE = b"\xee" * 32

    def __init__(self, job_id: int, rewards: dict[str, int]) -> None:
        self.rewards = {str(account): amount for account, amount in rewards.items()}
        self.total = sum(rewards.values())
        self.layers = [[leaf(job_id, account, amount, self.EVIDENCE) for account, amount in self.rewards.items()]]
        while len(layer := self.layers[-1]) > 1:
            pairs = [layer[i : i + 2] for i in range(0, len(layer), 2)]
            self.layers.append([parent(*pair) if len(pair) == 2 else pair[0] for pair in pairs])

    @property
    def root(self) -> bytes:
        return self.layers[-1][0]

    def proof(self, account: str) -> list[bytes]:
        """Siblings on the way from the account's leaf to the root."""
        place = list(self.rewards).index(str(account))
        path = []
        for layer in self.layers[:-1]:
            if place ^ 1 < len(layer):
                path.append(layer[place ^ 1])
            place //= 2
        return path
