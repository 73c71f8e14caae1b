"""The account of samples: every position of the global order is counted once, waits, or is named as skipped."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Self

import msgspec

from hydra_node.errors import HydraError

Range = tuple[int, int]
Ranges = tuple[Range, ...]


class BadPlan(HydraError):
    """A step's ranges are not what the ledger has to give out."""


class Retry(msgspec.Struct, frozen=True, array_like=True):
    """Positions start <= p < stop that `peer` did not deliver; they are given out once more."""

    start: int
    stop: int
    peer: str


class Skip(msgspec.Struct, frozen=True, array_like=True):
    """Positions start <= p < stop that are never trained on, and why."""

    start: int
    stop: int
    reason: str


class Ledger(msgspec.Struct, frozen=True):
    """What became of the positions below `cursor`; those from it on have not been given out.

    A value: `after` returns the next one. Everything below the cursor that is neither in `retries` nor in
    `skipped` was counted exactly once. `credited` holds the counted samples of each peer.
    """

    cursor: int = 0
    retries: tuple[Retry, ...] = ()
    skipped: tuple[Skip, ...] = ()
    credited: dict[str, int] = {}

    def plan(self, shares: Mapping[str, int]) -> dict[str, Ranges]:
        """Cuts the head of the queue into `shares`: first what must be tried again, then fresh positions.

        A retry goes to another member than the one that missed it, if there is one with room.
        """
        room = {peer: share for peer, share in shares.items() if share > 0}
        planned: dict[str, list[Range]] = {peer: [] for peer in shares}
        for retry in self.retries:
            start = retry.start
            while start < retry.stop:
                others = [peer for peer in room if peer != retry.peer or len(shares) == 1]
                if not others:
                    break
                peer = max(others, key=room.__getitem__)
                start = _give(planned[peer], room, peer, (start, retry.stop))
        cursor = self.cursor
        for peer in list(room):
            cursor = _give(planned[peer], room, peer, (cursor, cursor + room[peer]))
        return {peer: merged(ranges) for peer, ranges in planned.items()}

    def offers(self, ranges: Iterable[Range], ahead: int) -> bool:
        """Whether all of `ranges` wait in the queue, at most `ahead` positions beyond the cursor."""
        queue = merged([*((retry.start, retry.stop) for retry in self.retries), (self.cursor, self.cursor + ahead)])
        asked = list(ranges)
        return all(start < stop for start, stop in asked) and not without(asked, queue)

    def after(self, ranges: Mapping[str, Ranges], contributors: Collection[str], ahead: int) -> Self:
        """The ledger once a step has been committed.

        `ranges` is what the step gave to each peer and `contributors` those whose contribution is in the
        result. Fresh positions that the step passed over without giving them to anybody wait again too.
        `ahead` bounds how far one step may reach beyond the cursor: the global batch.
        """
        everything = sorted(part for parts in ranges.values() for part in parts)
        if not self.offers(everything, ahead) or any(b[0] < a[1] for a, b in itertools.pairwise(everything)):
            raise BadPlan(
                f"ranges {everything[:4]} overlap or are not waiting",
                expected=f"positions from the queue at {self.cursor}, at most {ahead} ahead",
                remedy="leave the view of the member that planned this step",
            )
        cursor = max([self.cursor, *(stop for _, stop in everything)])
        waiting = [(retry.start, retry.stop) for retry in self.retries]
        retries = [
            Retry(start, stop, retry.peer)
            for retry in self.retries
            for start, stop in without([(retry.start, retry.stop)], everything)
        ]
        retries += [Retry(start, stop, "") for start, stop in without([(self.cursor, cursor)], everything)]
        skipped, credited = list(self.skipped), dict(self.credited)
        for peer, parts in sorted(ranges.items()):
            if peer in contributors:
                credited[peer] = credited.get(peer, 0) + length(parts)
                continue
            retries += [Retry(start, stop, peer) for start, stop in without(parts, waiting)]
            missed = without(parts, [(self.cursor, cursor)])
            skipped += [Skip(start, stop, f"missed twice, the second time by {peer}") for start, stop in missed]
        return type(self)(cursor, tuple(sorted(retries, key=_start)), tuple(sorted(skipped, key=_start)), credited)

    def counted(self) -> Ranges:
        """The positions that were trained on, each once."""
        rest: list[Retry | Skip] = [*self.retries, *self.skipped]
        return tuple(without([(0, self.cursor)], [(part.start, part.stop) for part in rest]))

    def closed(self, reason: str = "the training ended") -> Self:
        """The ledger at the end of a job: what still waits for its second try is skipped by name."""
        ended = [Skip(retry.start, retry.stop, reason) for retry in self.retries]
        return type(self)(self.cursor, (), tuple(sorted([*self.skipped, *ended], key=_start)), self.credited)


def length(ranges: Iterable[Range]) -> int:
    """How many positions the ranges hold."""
    return sum(stop - start for start, stop in ranges)


def merged(ranges: Iterable[Range]) -> Ranges:
    """The same positions as sorted ranges that do not touch."""
    result: list[Range] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(stop, result[-1][1]))
        else:
            result.append((start, stop))
    return tuple(result)


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """The positions of `ranges` that are not in `taken`."""
    holes = merged(taken)
    result: list[Range] = []
    for start, stop in merged(ranges):
        place = start
        for hole_start, hole_stop in holes:
            if hole_stop <= place or hole_start >= stop:
                continue
            if hole_start > place:
                result.append((place, hole_start))
            place = hole_stop
        if place < stop:
            result.append((place, stop))
    return result


def _give(planned: list[Range], room: dict[str, int], peer: str, offer: Range) -> int:
    """Gives `peer` as much of `offer` as it has room for; returns where the rest of the offer starts."""
    start, stop = offer
    end = min(stop, start + room[peer])
    planned.append((start, end))
    room[peer] -= end - start
    if room[peer] == 0:
        del room[peer]
    return end


def _start(part: Retry | Skip) -> tuple[int, int]:
    return part.start, part.stop
