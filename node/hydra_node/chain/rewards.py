"""The tree that rewards are claimed from, and the published document that shows it.

Whoever publishes a root puts the leaves in the store, so that anybody can rebuild the tree and claim. Amounts there
are decimal strings: dag-cbor integers end at 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydra_node.chain import merkle
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient

NO_ROOT = bytes(32)  # of a tree without leaves: nobody earned anything, and nobody can claim from it
MAX_LEAVES = 100_000


class BadRewards(HydraError):
    """Rewards that no tree can hold, or a document that is not the one behind a root."""


@dataclass(frozen=True, slots=True)
class Reward:
    """What `account` (lower-case hex) has earned in a job so far, in wei; `evidence` is the root of why."""

    account: str
    cumulative: int
    evidence: bytes


class RewardTree:
    """The tree of a job's rewards, one leaf an account, in order of accounts; zero rewards have no leaf."""

    def __init__(self, job_id: int, rewards: Iterable[Reward]) -> None:
        self.job_id = job_id
        self.rewards = tuple(sorted((r for r in rewards if r.cumulative), key=lambda r: r.account))
        accounts = [reward.account for reward in self.rewards]
        if len(set(accounts)) != len(accounts):
            raise BadRewards("an account has two rewards in one job", expected="one leaf an account")
        leaves = [merkle.leaf(job_id, r.account, r.cumulative, r.evidence) for r in self.rewards]
        self._tree = merkle.MerkleTree(leaves) if leaves else None

    @classmethod
    def from_document(cls, job_id: int, document: object, root: bytes) -> RewardTree:
        """The tree in a published document's `leaves`, if it leads to `root`. Raises BadRewards."""
        leaves = document.get("leaves") if isinstance(document, Mapping) else None
        if not isinstance(leaves, list | tuple) or len(leaves) > MAX_LEAVES:
            raise BadRewards("the document behind the root has no list of leaves")
        tree = cls(job_id, [_reward(entry) for entry in leaves])
        if tree.root != root:
            raise BadRewards(
                f"the document leads to the root {tree.root.hex()}",
                expected=root.hex(),
                remedy="fetch the document named by the newest settlement",
            )
        return tree

    @property
    def root(self) -> bytes:
        """The 32 bytes for the chain; NO_ROOT when nobody earned anything."""
        return self._tree.root if self._tree else NO_ROOT

    @property
    def total(self) -> int:
        """The sum of all rewards, in wei."""
        return sum(reward.cumulative for reward in self.rewards)

    def reward_of(self, account: str) -> Reward | None:
        """The leaf of an account, or None when it earned nothing."""
        return next((reward for reward in self.rewards if reward.account == account.lower()), None)

    def proof(self, account: str) -> list[bytes]:
        """The path of an account's leaf. Raises KeyError for an account without a reward."""
        for place, reward in enumerate(self.rewards):
            if reward.account == account.lower() and self._tree:
                return self._tree.proof(place)
        raise KeyError(account)

    def leaves(self) -> list[dict[str, str | bytes]]:
        """The form in which the leaves are published."""
        return [{"account": r.account, "cumulative": str(r.cumulative), "evidence": r.evidence} for r in self.rewards]


def claim(client: ChainClient, tree: RewardTree, account: str) -> int:
    """Claim what `tree` gives `account` beyond what it has claimed; the wei that were paid, 0 if there is nothing."""
    reward = tree.reward_of(account)
    if reward is None or client.rewards.claimed(tree.job_id, account) >= reward.cumulative:
        return 0
    receipt = client.rewards.claim(tree.job_id, account, reward.cumulative, reward.evidence, tree.proof(account))
    return int(receipt.event("Claimed").args["amount"])


def _reward(entry: object) -> Reward:
    if not isinstance(entry, Mapping):
        raise BadRewards("a leaf of the document is not a map")
    account, cumulative, evidence = entry.get("account"), entry.get("cumulative"), entry.get("evidence")
    if not (
        isinstance(account, str)
        and isinstance(cumulative, str)
        and cumulative.isascii()
        and cumulative.isdecimal()
        and len(cumulative) <= 78
        and isinstance(evidence, bytes)
    ):
        raise BadRewards("a leaf of the document is malformed", expected="account, cumulative (decimal), evidence")
    return Reward(account.lower(), int(cumulative), evidence)
