"""The books that the events add up to are the contracts' own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from books_check import assert_books_are_the_contracts

from hydra_node.chain.actions import commit_submission, open_job, stake, top_up
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.books import books
from hydra_node.chain.clock import chain_time
from hydra_node.chain.enums import Kind, Role

if TYPE_CHECKING:
    from conftest import Network

HYDRA = 10**18


def test_money_stakes_and_submissions(network: Network) -> None:
    sponsor, contributor = network.client(tokens=100 * HYDRA), network.client(tokens=100 * HYDRA)
    stake(contributor, Role.VALIDATOR, 30 * HYDRA)
    stake(contributor, Role.TRAINER, 5 * HYDRA)
    contributor.stakes.request_withdraw(Role.VALIDATOR, 20 * HYDRA)
    exit_time = chain_time(network.rpc) + 100_000
    terms = {"spec_hash": bytes(32), "spec_cid": "bafy", "amount": 20 * HYDRA, "exit_time": exit_time}
    campaign = open_job(sponsor, Kind.CAMPAIGN, **terms)
    training = open_job(sponsor, Kind.TRAINING, **terms)
    top_up(contributor, training, HYDRA)
    sponsor.submissions.open_campaign(campaign, CampaignTerms(600, 60, 60, 60, HYDRA, 10, HYDRA, HYDRA, 0, 0))
    kept = commit_submission(contributor, campaign, b"\x07" * 32)
    revoked = commit_submission(contributor, campaign, b"\x08" * 32)
    contributor.submissions.revoke(revoked)

    sponsor.history.refresh()
    held = books(sponsor.history.all())
    assert {campaign, training} <= held.jobs.keys()
    assert {kept, revoked} <= held.submissions.keys()
    assert held.stake(Role.VALIDATOR, contributor.address).thawing == 20 * HYDRA
    assert held.stake(Role.TRAINER, sponsor.address).active == 0
    assert_books_are_the_contracts(sponsor)
