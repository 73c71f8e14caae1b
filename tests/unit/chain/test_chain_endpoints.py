"""Which endpoint is asked, by the rules alone: no sockets, and the time is an argument."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hydra_node.chain.endpoints import FIRST_REST, LONGEST_REST, MAX_BLOCKS_BEHIND, Endpoints, Served

HERE = Served(1337, "0xaa", 100)


def test_the_first_is_preferred_and_used_again_after_its_rest() -> None:
    endpoints = Endpoints.untried(3, None)
    assert endpoints.best(0.0) == 0
    endpoints = endpoints.failed(0, 0.0)
    assert endpoints.best(0.0) == 1
    endpoints = endpoints.failed(1, 0.0)
    assert endpoints.best(FIRST_REST - 0.01) == 2
    assert endpoints.best(FIRST_REST) == 0


def test_when_all_rest_the_one_that_is_done_first_is_asked() -> None:
    endpoints = Endpoints.untried(2, None).failed(0, 0.0).failed(0, 1.0).failed(1, 1.5)
    assert (endpoints.rests(0, 2.0), endpoints.rests(1, 2.0)) == (True, True)
    assert endpoints.best(2.0) == 1


def test_a_failure_after_an_answer_is_the_first_again() -> None:
    endpoints = Endpoints.untried(1, None).failed(0, 0.0).failed(0, 0.0).failed(0, 0.0)
    assert endpoints.known[0].rests_until == 4 * FIRST_REST
    endpoints = endpoints.answered(0).failed(0, 10.0)
    assert endpoints.known[0].rests_until == 10.0 + FIRST_REST


@given(failures=st.integers(1, 200))
def test_no_endpoint_is_left_alone_for_longer_than_a_minute(failures: int) -> None:
    endpoints = Endpoints.untried(1, None)
    for _ in range(failures):
        endpoints = endpoints.failed(0, 0.0)
    assert FIRST_REST <= endpoints.known[0].rests_until <= LONGEST_REST


def test_the_first_that_is_admitted_settles_which_chain_it_is() -> None:
    endpoints = Endpoints.untried(3, None).introduced(1, HERE)
    assert (endpoints.chain_id, endpoints.genesis) == (1337, "0xaa")
    assert endpoints.known[1].admitted
    endpoints = endpoints.introduced(0, replace(HERE, chain_id=5))
    assert endpoints.known[0].barred == "serves chain 5, not 1337"
    endpoints = endpoints.introduced(2, replace(HERE, genesis="0xbb"))
    assert "another first block" in (endpoints.known[2].barred or "")
    assert endpoints.failed(1, 0.0).best(0.0) == 1


def test_the_chain_that_was_asked_for_settles_it_before() -> None:
    endpoints = Endpoints.untried(1, 5).introduced(0, HERE)
    assert not endpoints.known[0].admitted
    assert endpoints.best(0.0) is None


def test_one_that_is_far_behind_is_admitted_when_it_has_caught_up() -> None:
    endpoints = Endpoints.untried(2, None).introduced(0, HERE).answered(0, 200)
    late = replace(HERE, head=200 - MAX_BLOCKS_BEHIND - 1)
    assert not endpoints.introduced(1, late).known[1].admitted
    assert endpoints.introduced(1, replace(late, head=late.head + 1)).known[1].admitted


class AnyHistory(RuleBasedStateMachine):
    """Whatever endpoints do, one is asked while any may be, and never one that serves another chain."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints = Endpoints.untried(3, None)
        self.now = 0.0

    @rule(seconds=st.floats(0.0, 100.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(index=st.integers(0, 2))
    def fails(self, index: int) -> None:
        self.endpoints = self.endpoints.failed(index, self.now)
        assert not self.endpoints.known[index].admitted
        assert self.endpoints.rests(index, self.now)

    @rule(index=st.integers(0, 2), head=st.integers(0, 50))
    def answers(self, index: int, head: int) -> None:
        if self.endpoints.known[index].admitted:
            self.endpoints = self.endpoints.answered(index, head)

    @rule(index=st.integers(0, 2), chain_id=st.integers(1, 2), genesis=st.sampled_from("ab"), head=st.integers(0, 50))
    def introduces_itself(self, index: int, chain_id: int, genesis: str, head: int) -> None:
        if self.endpoints.known[index].barred is None:
            before = self.endpoints
            self.endpoints = before.introduced(index, Served(chain_id, genesis, head))
            after = self.endpoints.known[index]
            if after.admitted:
                assert (chain_id, genesis) == (self.endpoints.chain_id, self.endpoints.genesis)
                assert head + MAX_BLOCKS_BEHIND >= before.highest

    @invariant()
    def one_is_asked_while_any_may_be(self) -> None:
        allowed = [index for index, endpoint in enumerate(self.endpoints.known) if endpoint.barred is None]
        best = self.endpoints.best(self.now)
        assert (best in allowed) if allowed else (best is None)
        awake = [index for index in allowed if not self.endpoints.rests(index, self.now)]
        assert not awake or best == awake[0]

    @invariant()
    def none_is_both_used_and_barred(self) -> None:
        assert not any(endpoint.admitted and endpoint.barred for endpoint in self.endpoints.known)


TestAnyHistory = AnyHistory.TestCase
