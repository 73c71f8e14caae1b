"""What a round settles: the cumulative rewards of trainers and auditors, and who cheated.

Pure and deterministic: from what is on chain and in the store, every honest auditor computes the same root, total,
cheats and last flag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra_node.chain.rewards import Reward, RewardTree
from hydra_node.storage import dag, merkle
from hydra_validator.rewards import split

MAX_CHEATS = 32  # of one attestation, as in the contract; more wait for the next round


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a training job that money depends on; wei."""

    chain_id: int
    job_id: int
    rate_per_sample: int
    audit_fee: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a trainer's wallet is credited with: samples by step; `cheat` once one contribution was contradicted."""

    wallet: str
    peer: str
    credited: Mapping[int, int]
    counts: Mapping[str, int]  # contributions by verdict
    cheat: bool = False

    @property
    def samples(self) -> int:
        return sum(self.credited.values())


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an auditor attests, and the document behind it."""

    round_number: int
    tree: RewardTree
    cheats: tuple[str, ...]
    last: bool
    document: dict[str, Any]


def settle(
    terms: Terms,
    round_number: int,
    work: Sequence[Work],
    auditors: Sequence[Collection[str]],
    *,
    previous: Mapping[str, int],
    cap: int,
    banned: Collection[str],
    last: bool,
    seed: bytes,
    covered: int,
) -> Settlement:
    """Settle round `round_number`.

    `auditors[k]` are those paid the fee of round k, `previous` the cumulative rewards of the round before (wei by
    account), `cap` all that the job may give out, `banned` the wallets whose ban is on chain. Nobody's cumulative
    reward falls. A cheat keeps what was settled before and earns nothing more. Where the money does not reach for
    all, what is new is cut in proportion. `covered` is the number of steps whose records are known.
    """
    out = {wallet.lower() for wallet in banned}
    cheats = out | {entry.wallet.lower() for entry in work if entry.cheat}
    earned: dict[str, int] = {}
    reasons: dict[str, list[bytes]] = {}

    def earn(who: str, amount: int, reason: list[str | int]) -> None:
        if who not in cheats:
            earned[who] = earned.get(who, 0) + amount
            reasons.setdefault(who, []).append(dag.encode(list(reason)))

    for entry in work:
        for step, samples in sorted(entry.credited.items()):
            earn(entry.wallet.lower(), samples * terms.rate_per_sample, ["samples", step, samples])
    for number, paid in enumerate(auditors):
        for auditor in paid:
            earn(auditor.lower(), terms.audit_fee, ["audit", number, str(terms.audit_fee)])
    amounts = _affordable(earned, previous, cap)
    tree = RewardTree(
        terms.job_id, [Reward(who, amount, merkle.root(reasons.get(who, []))) for who, amount in amounts.items()]
    )
    fresh = sorted(cheats - out)[:MAX_CHEATS]
    document = {
        "version": 1,
        "kind": "training",
        "chain": terms.chain_id,
        "job": terms.job_id,
        "round": round_number,
        "seed": seed,
        "steps": covered,
        "last": last,
        "rate": str(terms.rate_per_sample),
        "fee": str(terms.audit_fee),
        "trainers": [_trainer(entry, cheats, amounts, terms) for entry in sorted(work, key=lambda w: w.wallet.lower())],
        "auditors": [sorted(who.lower() for who in each) for each in auditors],
        "cheats": fresh,
        "leaves": tree.leaves(),
        "total": str(tree.total),
    }
    return Settlement(round_number, tree, tuple(fresh), last, document)


def _affordable(earned: Mapping[str, int], previous: Mapping[str, int], cap: int) -> dict[str, int]:
    """What was earned, never below what was settled before, and within `cap` altogether."""
    accounts = sorted({*earned, *previous})
    rises = [max(0, earned.get(who, 0) - previous.get(who, 0)) for who in accounts]
    left = max(0, cap - sum(previous.values()))
    if sum(rises) > left:
        rises = split(left, rises)
    return {who: previous.get(who, 0) + rise for who, rise in zip(accounts, rises, strict=True)}


def _trainer(entry: Work, cheats: Collection[str], amounts: Mapping[str, int], terms: Terms) -> dict[str, Any]:
    cheat = entry.wallet.lower() in cheats
    paid = amounts.get(entry.wallet.lower(), 0)
    return {
        "account": entry.wallet.lower(),
        "peer": entry.peer,
        "cheat": cheat,
        "samples": entry.samples,
        "samples_paid": paid // terms.rate_per_sample if cheat and terms.rate_per_sample else entry.samples,
        "credited": [] if cheat else [[step, n] for step, n in sorted(entry.credited.items())],
        "verdicts": dict(entry.counts),
    }
