"""Which posted segments count in which settlement round: pure functions of the chain's events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hydra_node.chain.enums import Role
from hydra_node.chain.events import Event


@dataclass(frozen=True, slots=True)
class Window:
    """One settlement round: it opens with a post and closes `postSeconds` of chain time later.

    `seed` is the hash of the block that holds the first post: it draws what is audited, and it was not known when
    that post's digest was fixed. Posts are RecordPosted events in chain order.
    """

    number: int
    seed: bytes
    cutoff: int
    posts: tuple[Event, ...]


def windows(posts: Iterable[Event], post_seconds: int) -> list[Window]:
    """Cut a job's posts, given in chain order, into windows; the newest may still be open.

    A post later than its neighbours' cutoff counts in the next window, which it opens.
    """
    found: list[Window] = []
    group: list[Event] = []
    for post in posts:
        if group and post.timestamp > group[0].timestamp + post_seconds:
            found.append(_window(len(found), group, post_seconds))
            group = []
        group.append(post)
    if group:
        found.append(_window(len(found), group, post_seconds))
    return found


def due(found: Sequence[Window], number: int, now: int, *, complete: bool, patience: int) -> Window | None:
    """Round `number`, if it can be settled at chain time `now`.

    Once the round before held the records of all steps (`complete`), only those who post within `patience` seconds of
    its cutoff are still waited for. If nobody does, a round without posts closes the job; later posts do not count.
    """
    candidate = found[number] if number < len(found) else None
    if complete and 0 < number <= len(found):
        limit = found[number - 1].cutoff + patience
        if candidate is None or candidate.posts[0].timestamp > limit:
            candidate = Window(number, found[number - 1].seed, limit, ())
    return candidate if candidate is not None and now > candidate.cutoff else None


def active_validators(events: Iterable[Event], until: int) -> list[str]:
    """Who has active validator stake after the blocks up to chain time `until`: addresses in lower case, sorted.

    Read from the stake manager's events rather than asked of a node, because a node may have forgotten old state.
    """
    active: dict[str, int] = {}
    thawing: dict[str, int] = {}
    for event in events:
        if event.contract != "StakeManager" or event.timestamp > until:
            continue
        args = event.args
        if "operator" not in args or int(args["role"]) != Role.VALIDATOR or "amount" not in args:
            continue
        who, amount = str(args["operator"]).lower(), int(args["amount"])
        if event.name == "Staked":
            active[who] = active.get(who, 0) + amount
        elif event.name == "WithdrawRequested":
            active[who] = active.get(who, 0) - amount
            thawing[who] = thawing.get(who, 0) + amount
        elif event.name == "Withdrawn":
            thawing[who] = 0
        elif event.name == "Slashed":
            # The contract cuts active stake first.
            active[who] = active.get(who, 0) - amount
            if active[who] < 0:
                thawing[who] = thawing.get(who, 0) + active[who]
                active[who] = 0
    return sorted(who for who, amount in active.items() if amount > 0)


def funded(events: Iterable[Event], job_id: int, until: int) -> int:
    """The wei a job may give out in all: deposited and not refunded up to chain time `until`."""
    total = 0
    for event in events:
        if event.contract != "JobEscrow" or event.timestamp > until or event.args.get("jobId") != job_id:
            continue
        if event.name in {"JobOpened", "ToppedUp"}:
            total += int(event.args["amount"])
        elif event.name == "Refunded":
            total -= int(event.args["amount"])
    return total


def _window(number: int, group: Sequence[Event], post_seconds: int) -> Window:
    return Window(number, group[0].block_hash, group[0].timestamp + post_seconds, tuple(group))
