"""What the contracts will say to a sponsor's terms, asked before any money is in escrow."""

from __future__ import annotations

from hydra_node.chain.amounts import format_hydra
from hydra_node.chain.bindings.structs import CampaignTerms, TrainingTerms
from hydra_node.chain.contracts import ChainClient
from hydra_node.errors import HydraError

EXIT_SECONDS = 7 * 24 * 3600
"""How long after the last window a sponsor's money can be held up by others."""
MAX_WINDOWS_SECONDS = 365 * 24 * 3600


class BadTerms(HydraError):
    """Terms under which a campaign or a job could not go on to its end."""


def check_campaign(client: ChainClient, terms: CampaignTerms, reward: int) -> None:
    """Raises BadTerms, BadArgument."""
    _check_window("windows", windows(terms))
    if reward <= terms.validator_fee + terms.gas_pool:
        raise BadTerms(
            f"the reward of {format_hydra(reward)} does not pay for one validator and the relays",
            expected=f"more than {format_hydra(terms.validator_fee + terms.gas_pool)}",
            remedy="offer more, or a lower --validator-fee or --gas-pool",
        )
    if terms.relay_fee > terms.bond:
        raise BadTerms(
            f"the relay fee of {format_hydra(terms.relay_fee)} is above the bond",
            expected=f"at most {format_hydra(terms.bond)}: else relaying what is never revealed would pay",
        )
    # Encoded, never sent: a number that the contract's types do not hold is refused here.
    client.submissions.call("openCampaign", 0, terms)


def _check_window(name: str, seconds: int) -> None:
    if not 0 < seconds <= MAX_WINDOWS_SECONDS:
        raise BadTerms(f"{name} of {seconds} s", expected=f"1 s to {MAX_WINDOWS_SECONDS} s")


def check_training(client: ChainClient, terms: TrainingTerms, reward: int, samples: int) -> None:
    """`samples` is what the whole job computes. Raises BadTerms, BadArgument."""
    _check_window("a wait for records (--post-seconds)", terms.post_seconds)
    if terms.penalty > terms.min_stake:
        raise BadTerms(
            f"the penalty of {format_hydra(terms.penalty)} is above the stake",
            expected=f"at most {format_hydra(terms.min_stake)}",
            remedy="lower --penalty, or ask for more with --min-stake",
        )
    if reward < samples * terms.rate_per_sample:
        raise BadTerms(
            f"the reward of {format_hydra(reward)} does not pay for {samples} samples",
            expected=f"at least {format_hydra(samples * terms.rate_per_sample)}, and the auditors' fees",
            remedy="offer more, or a lower --rate",
        )
    # As above.
    client.training.call("openTraining", 0, terms)


def windows(terms: CampaignTerms) -> int:
    """Seconds from the opening of a campaign to the end of its scoring."""
    return terms.commit_seconds + terms.reveal_seconds + terms.score_commit_seconds + terms.score_reveal_seconds
