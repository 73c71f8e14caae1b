"""From what was earned to the tree it is claimed from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hydra_node.chain import merkle
from hydra_node.errors import HydraError

NO_ROOT = bytes(32)  # of a tree without leaves: nobody earned anything, and nobody can claim from it


class BadRewards(HydraError):
    """Rewards that no tree can hold."""


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

    @property
    def root(self) -> bytes:
        """The 32 bytes for the chain; NO_ROOT when nobody earned anything."""
        return self._tree.root if self._tree else NO_ROOT

    @property
    def total(self) -> int:
        """The sum of all rewards, in wei."""
        return sum(reward.cumulative for reward in self.rewards)

    def proof(self, account: str) -> list[bytes]:
        """The path of an account's leaf. Raises KeyError for an account without a reward."""
        for place, reward in enumerate(self.rewards):
            if reward.account == account.lower() and self._tree:
                return self._tree.proof(place)
        raise KeyError(account)


def split(reward: int, weights: Sequence[int]) -> list[int]:
    """floor(reward x weight / all weights) each: in proportion, and rounding favours the contract.

    >>> split(100, [1, 1, 1])
    [33, 33, 33]
    """
    total = sum(weights)
    return [reward * weight // total if total else 0 for weight in weights]
