"""When a peer that could not be reached may be tried again."""

import random
from collections import OrderedDict
from dataclasses import dataclass

from hydra_node.p2p.errors import PeerUnreachable
from hydra_node.p2p.identity import PeerId

FIRST = 0.1
LONGEST = 5.0
MAX_PEERS = 4096


@dataclass(frozen=True, slots=True)
class _Failure:
    count: int
    at: float
    retry_at: float
    error: PeerUnreachable


class Backoff:
    """Exponential delays with jitter, by peer. Times come in as arguments, in seconds of one clock."""

    def __init__(self, jitter: random.Random | None = None) -> None:
        self._jitter = jitter or random.Random()
        self._failures: OrderedDict[PeerId, _Failure] = OrderedDict()

    def failed(self, peer_id: PeerId, now: float, error: PeerUnreachable) -> None:
        """Note a failed attempt."""
        previous = self._failures.pop(peer_id, None)
        count = previous.count + 1 if previous else 1
        delay = min(LONGEST, FIRST * 2 ** min(count - 1, 16)) * self._jitter.uniform(0.5, 1.0)
        self._failures[peer_id] = _Failure(count, now, now + delay, error)
        while len(self._failures) > MAX_PEERS:
            self._failures.popitem(last=False)

    def succeeded(self, peer_id: PeerId) -> None:
        """Forget the failures of a peer."""
        self._failures.pop(peer_id, None)

    def delay(self, peer_id: PeerId, now: float) -> float:
        """Seconds until the next attempt may be made; 0 if it may now."""
        failure = self._failures.get(peer_id)
        return 0.0 if failure is None else max(0.0, failure.retry_at - now)

    def error_since(self, peer_id: PeerId, moment: float) -> PeerUnreachable | None:
        """The error of an attempt that failed after `moment`: who asked before need not try the same again."""
        failure = self._failures.get(peer_id)
        return failure.error if failure is not None and failure.at >= moment else None
