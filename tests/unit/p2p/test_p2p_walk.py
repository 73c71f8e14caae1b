"""The Kademlia lookup without a network."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.p2p.walk import Contact, Walk

ME = bytes(20)


def network(count: int, rng: random.Random) -> list[Contact]:
    return [Contact(rng.randbytes(20), "127.0.0.1", 1000 + n) for n in range(count)]


@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), dead_share=st.floats(0, 0.5))
@settings(max_examples=50)
def test_the_nearest_living_nodes_are_found(seed: int, count: int, dead_share: float) -> None:
    """Each node names the 16 nodes nearest to the target; the start is one living node."""
    rng = random.Random(seed)
    nodes = network(count, rng)
    target = rng.randbytes(20)
    dead = {node for node in nodes[1:] if rng.random() < dead_share}
    walk = Walk(target, ME, nodes[:1], width=8, alpha=3)
    underway: list[Contact] = []
    while (asked := walk.next()) or underway:
        underway += asked
        assert len(underway) <= 3
        node = underway.pop(rng.randrange(len(underway)))
        if node in dead:
            walk.failed(node)
        else:
            walk.answered(node, sorted(nodes, key=lambda n: n.distance(target))[:16])
    assert walk.settled
    living = [n for n in sorted(nodes, key=lambda n: n.distance(target)) if n not in dead]
    reachable = [n for n in living if n in sorted(nodes, key=lambda n: n.distance(target))[:16] or n == nodes[0]]
    assert walk.nearest() == reachable[:8]


def test_nobody_is_asked_twice_and_never_oneself() -> None:
    a = Contact(b"a" * 20, "127.0.0.1", 1)
    walk = Walk(bytes(20), ME, [a, a, Contact(ME, "127.0.0.1", 2)], width=8, alpha=3)
    assert walk.next() == [a]
    walk.answered(a, [a, Contact(ME, "127.0.0.1", 2)])
    assert walk.next() == []
    assert walk.settled


def test_a_node_that_does_not_answer_holds_up_one_place_only() -> None:
    nodes = network(10, random.Random(1))
    walk = Walk(bytes(20), ME, nodes, width=8, alpha=2)
    silent, other = walk.next()
    for _ in range(3):
        walk.answered(other, [])
        (other,) = walk.next()
        assert other != silent
