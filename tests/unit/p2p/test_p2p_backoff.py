"""When an unreachable peer may be tried again."""

import random

from hydra_node.p2p.backoff import FIRST, LONGEST, MAX_PEERS, Backoff
from hydra_node.p2p.errors import PeerUnreachable
from hydra_node.p2p.identity import Identity, PeerId

PEER = Identity.from_seed(bytes(32)).peer_id


def test_delays_grow_to_a_bound_and_success_ends_them() -> None:
    backoff = Backoff(random.Random(1))
    delays = []
    for _ in range(12):
        backoff.failed(PEER, 100.0, PeerUnreachable("away"))
        delays.append(backoff.delay(PEER, 100.0))
    assert FIRST / 2 <= delays[0] <= FIRST
    assert LONGEST / 2 <= delays[-1] <= LONGEST
    assert backoff.delay(PEER, 100.0 + LONGEST) == 0
    backoff.succeeded(PEER)
    assert backoff.delay(PEER, 100.0) == 0


def test_who_asked_before_the_failure_shares_it() -> None:
    backoff = Backoff(random.Random(1))
    error = PeerUnreachable("away")
    backoff.failed(PEER, 100.0, error)
    assert backoff.error_since(PEER, 99.0) is error
    assert backoff.error_since(PEER, 101.0) is None


def test_memory_is_bounded() -> None:
    backoff = Backoff(random.Random(1))
    for number in range(MAX_PEERS + 10):
        backoff.failed(PeerId(str(number)), 0.0, PeerUnreachable("away"))
    assert backoff.delay(PeerId("0"), 0.0) == 0
    assert backoff.delay(PeerId(str(MAX_PEERS + 9)), 0.0) > 0
