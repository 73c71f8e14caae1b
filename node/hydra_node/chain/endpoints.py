"""Which of a chain's endpoints to ask: the first of the list that serves the chain and is not resting after a failure.

Pure: each function takes what is known and the time, and returns what is known then. Time is in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_REST = 1.0
LONGEST_REST = 60.0
MAX_BLOCKS_BEHIND = 8


@dataclass(frozen=True, slots=True)
class Served:
    """What an endpoint says that it serves: the chain's id, the hash of its first block, its newest block."""

    chain_id: int
    genesis: str
    head: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What is known of one endpoint. `failures` counts those since it last answered; it is left alone until
    `rests_until`. `barred` says why it is never asked again. `admitted` is whether it has shown that it serves the
    chain, since its last failure."""

    failures: int = 0
    rests_until: float = 0.0
    admitted: bool = False
    barred: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoints:
    """All endpoints of a chain, the preferred one first. `chain_id` and `genesis` are those of the first one admitted,
    unless the id was known before; `highest` is the newest block that any of them has shown."""

    known: tuple[Endpoint, ...]
    chain_id: int | None
    genesis: str | None = None
    highest: int = 0

    @classmethod
    def untried(cls, count: int, chain_id: int | None) -> Endpoints:
        return cls((Endpoint(),) * count, chain_id)

    def best(self, now: float) -> int | None:
        """The first that does not rest, else the one whose rest ends first. None when all are barred."""
        allowed = [index for index, endpoint in enumerate(self.known) if endpoint.barred is None]
        awake = [index for index in allowed if not self.rests(index, now)]
        if awake:
            return awake[0]
        return min(allowed, key=lambda index: self.known[index].rests_until, default=None)

    def rests(self, index: int, now: float) -> bool:
        """Whether it failed so recently that another is better asked."""
        return now < self.known[index].rests_until

    def introduced(self, index: int, served: Served) -> Endpoints:
        """It has shown what it serves: it is admitted, or not while it is far behind the others, or barred for good
        when it serves another chain."""
        endpoint = self.known[index]
        if served.chain_id != (self.chain_id or served.chain_id):
            reason = f"serves chain {served.chain_id}, not {self.chain_id}"
            return self._with(index, replace(endpoint, admitted=False, barred=reason))
        if served.genesis != (self.genesis or served.genesis):
            reason = f"serves another chain {served.chain_id}, with another first block"
            return self._with(index, replace(endpoint, admitted=False, barred=reason))
        if self.highest - served.head > MAX_BLOCKS_BEHIND:
            return self._with(index, replace(endpoint, admitted=False))
        admitted = self._with(index, replace(endpoint, admitted=True))
        highest = max(self.highest, served.head)
        return replace(admitted, chain_id=served.chain_id, genesis=served.genesis, highest=highest)

    def answered(self, index: int, head: int = 0) -> Endpoints:
        """It works, and may have shown its newest block: the next failure is its first."""
        working = self._with(index, replace(self.known[index], failures=0, rests_until=0.0))
        return replace(working, highest=max(self.highest, head))

    def failed(self, index: int, now: float) -> Endpoints:
        """It did not answer. It rests twice as long each time in a row, and then has to be admitted again."""
        endpoint = self.known[index]
        rest = min(FIRST_REST * 2.0 ** min(endpoint.failures, 16), LONGEST_REST)
        rested = replace(endpoint, failures=endpoint.failures + 1, rests_until=now + rest, admitted=False)
        return self._with(index, rested)

    def _with(self, index: int, endpoint: Endpoint) -> Endpoints:
        return replace(self, known=(*self.known[:index], endpoint, *self.known[index + 1 :]))
