"""Compare the books that a client's events add up to with what the contracts' own views say."""

from __future__ import annotations

from dataclasses import replace

from hydra_node.chain.books import books
from hydra_node.chain.clock import chain_time
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import RoundState


def assert_books_are_the_contracts(client: ChainClient) -> None:
    """Every job, campaign, submission, round, stake, root and claim, number by number."""
    client.history.refresh()
    held = books(client.history.all())
    assert held.jobs == {number: client.escrow.job(number) for number in range(1, client.escrow.job_count() + 1)}
    assert held.campaigns == {number: client.submissions.campaign(number) for number in held.campaigns}
    assert held.trainings == {number: client.training.terms(number) for number in held.trainings}
    listed = [each for number in held.campaigns for each in client.submissions.submissions_of(number)]
    assert held.submissions == {number: client.submissions.submission(number) for number in listed}
    assert_rounds(client)
    for (role, operator), stake in held.stakes.items():
        assert stake.active == client.stakes.stake_of(role, operator)
        assert (stake.thawing, stake.ready_at) == client.stakes.thawing_of(role, operator)
        assert stake.locked_until == client.stakes.locked_until(role, operator)
    for role in {role for role, _operator in held.stakes}:
        total = sum(stake.active for (its, _operator), stake in held.stakes.items() if its == role)
        assert total == client.stakes.total_staked(role)
    for number in held.jobs:
        root, total, active_at = client.rewards.current(number)
        if number in held.rewards:
            known = held.rewards[number]
            assert (known.root, known.total, known.active_at) == (root, total, active_at)
        assert client.rewards.claimed_total(number) == sum(
            amount for (job, _account), amount in held.claimed.items() if job == number
        )
    for (job, account), amount in held.claimed.items():
        assert client.rewards.claimed(job, account) == amount


def assert_rounds(client: ChainClient) -> None:
    """A round's view tells also whether its commit window has ended."""
    held = books(client.history.all())
    now = chain_time(client.rpc)
    assert len(held.rounds) == client.quality.round_count()
    for number, known in held.rounds.items():
        closed = known.state is RoundState.COMMIT and now >= known.commit_end
        expected = replace(known, state=RoundState.REVEAL) if closed else known
        assert client.quality.round(number) == expected
        assert tuple(client.quality.committee(number)) == held.committees[number]
