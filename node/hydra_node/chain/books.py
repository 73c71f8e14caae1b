"""What the events of a deployment add up to: jobs, campaigns, rounds, stakes and claims, as the contracts hold them.

A pure function of the events: nothing is asked of the chain. The values are the structs that the contracts' own views
return, so that either can be compared with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from hydra_node.chain.bindings.structs import Campaign, Job, Round, Submission, TrainingTerms
from hydra_node.chain.enums import Role, RoundState, State, SubmissionState
from hydra_node.chain.events import Event

NEVER = 2**40 - 1
"""When a disputed root becomes active."""
_NO_ROOT = bytes(32)


@dataclass(frozen=True, slots=True)
class Stake:
    """What an operator has at stake, wei; `ready_at` and `locked_until` are chain time, seconds."""

    active: int = 0
    thawing: int = 0
    ready_at: int = 0
    locked_until: int = 0


@dataclass(frozen=True, slots=True)
class Rewards:
    """The newest root of a job and what it promises in all, wei; the one before pays until `active_at`."""

    root: bytes = _NO_ROOT
    total: int = 0
    active_at: int = 0
    previous_root: bytes = _NO_ROOT
    previous_total: int = 0


@dataclass(frozen=True, slots=True)
class Books:
    """Everything by its number. A round that still takes commitments has the state COMMIT until it is tallied: whether
    its commit window has ended is a question of time."""

    jobs: dict[int, Job] = field(default_factory=dict)
    campaigns: dict[int, Campaign] = field(default_factory=dict)
    trainings: dict[int, TrainingTerms] = field(default_factory=dict)
    submissions: dict[int, Submission] = field(default_factory=dict)
    rounds: dict[int, Round] = field(default_factory=dict)
    committees: dict[int, tuple[str, ...]] = field(default_factory=dict)
    stakes: dict[tuple[Role, str], Stake] = field(default_factory=dict)
    rewards: dict[int, Rewards] = field(default_factory=dict)
    claimed: dict[tuple[int, str], int] = field(default_factory=dict)

    def stake(self, role: Role, operator: str) -> Stake:
        """Nothing for one who never had a stake."""
        return self.stakes.get((role, operator), Stake())


Entry = Callable[[Books, Event], None]


def books(events: Iterable[Event]) -> Books:
    """Add up all events of a deployment, in the order of the chain."""
    result = Books()
    for event in events:
        entry = _ENTRIES.get((event.contract, event.name))
        if entry is not None:
            entry(result, event)
    return result


def _job_opened(held: Books, event: Event) -> None:
    args = event.args
    held.jobs[args["jobId"]] = Job(
        sponsor=args["sponsor"],
        kind=args["kind"],
        state=State.OPEN,
        exit_time=args["exitTime"],
        spec_hash=args["specHash"],
        deposited=args["amount"],
        reserved=0,
        paid=0,
        refunded=0,
    )


def _money(
    *, deposited: int = 0, reserved: int = 0, paid: int = 0, refunded: int = 0
) -> Callable[[Books, Event], None]:
    """An entry that moves the event's amount, times what is given, between the columns of its job."""

    def enter(held: Books, event: Event) -> None:
        number, amount = event.args["jobId"], event.args["amount"]
        job = held.jobs[number]
        held.jobs[number] = replace(
            job,
            deposited=job.deposited + deposited * amount,
            reserved=job.reserved + reserved * amount,
            paid=job.paid + paid * amount,
            refunded=job.refunded + refunded * amount,
        )

    return enter


def _job_state(held: Books, event: Event) -> None:
    number = event.args["jobId"]
    held.jobs[number] = replace(held.jobs[number], state=event.args["state"])


def _campaign_opened(held: Books, event: Event) -> None:
    args = event.args
    held.campaigns[args["jobId"]] = Campaign(args["terms"], args["commitEnd"], args["revealEnd"])


def _training_opened(held: Books, event: Event) -> None:
    held.trainings[event.args["jobId"]] = event.args["terms"]


def _submitted(held: Books, event: Event) -> None:
    args = event.args
    held.submissions[args["submissionId"]] = Submission(
        job_id=args["jobId"],
        contributor=args["contributor"],
        state=SubmissionState.COMMITTED,
        items_root=_NO_ROOT,
        item_count=0,
        commit_block=event.block,
    )


def _submission_revealed(held: Books, event: Event) -> None:
    number = event.args["submissionId"]
    held.submissions[number] = replace(
        held.submissions[number],
        state=SubmissionState.REVEALED,
        items_root=event.args["itemsRoot"],
        item_count=event.args["itemCount"],
    )


def _submission_ended(state: SubmissionState) -> Entry:
    def enter(held: Books, event: Event) -> None:
        number = event.args["submissionId"]
        # A revocation after the commit window forfeits the bond too; it stays a revocation.
        if held.submissions[number].state is not SubmissionState.REVOKED:
            held.submissions[number] = replace(held.submissions[number], state=state)

    return enter


def _round_opened(held: Books, event: Event) -> None:
    args = event.args
    held.rounds[args["roundId"]] = Round(
        job_id=args["jobId"],
        state=RoundState.COMMIT,
        commit_end=args["commitEnd"],
        reveal_end=args["revealEnd"],
        reserved=args["reserved"],
        root=_NO_ROOT,
        total=0,
    )
    held.committees[args["roundId"]] = tuple(args["committee"])


def _commits_closed(held: Books, event: Event) -> None:
    args = event.args
    number = args["roundId"]
    held.rounds[number] = replace(held.rounds[number], commit_end=args["commitEnd"], reveal_end=args["revealEnd"])


def _tallied(held: Books, event: Event) -> None:
    args = event.args
    number = args["roundId"]
    held.rounds[number] = replace(held.rounds[number], state=RoundState.TALLIED, root=args["root"], total=args["total"])


def _round_failed(held: Books, event: Event) -> None:
    number = event.args["roundId"]
    held.rounds[number] = replace(held.rounds[number], state=RoundState.FAILED)


def _stake(change: Callable[[Stake, Event], Stake]) -> Entry:
    def enter(held: Books, event: Event) -> None:
        key = event.args["role"], event.args["operator"]
        held.stakes[key] = change(held.stakes.get(key, Stake()), event)

    return enter


def _staked(stake: Stake, event: Event) -> Stake:
    return replace(stake, active=stake.active + event.args["amount"])


def _unstaking(stake: Stake, event: Event) -> Stake:
    amount = event.args["amount"]
    return replace(stake, active=stake.active - amount, thawing=stake.thawing + amount, ready_at=event.args["readyAt"])


def _withdrawn(stake: Stake, event: Event) -> Stake:
    return replace(stake, thawing=stake.thawing - event.args["amount"])


def _slashed(stake: Stake, event: Event) -> Stake:
    active = min(stake.active, event.args["amount"])
    return replace(stake, active=stake.active - active, thawing=stake.thawing - (event.args["amount"] - active))


def _locked(stake: Stake, event: Event) -> Stake:
    return replace(stake, locked_until=event.args["until"])


def _root(change: Callable[[Rewards, Event], Rewards]) -> Entry:
    def enter(held: Books, event: Event) -> None:
        number = event.args["jobId"]
        held.rewards[number] = change(held.rewards.get(number, Rewards()), event)

    return enter


def _root_published(rewards: Rewards, event: Event) -> Rewards:
    args = event.args
    if event.timestamp >= rewards.active_at:
        rewards = replace(rewards, previous_root=rewards.root, previous_total=rewards.total)
    return replace(rewards, root=args["root"], total=args["total"], active_at=args["activeAt"])


def _root_suspended(rewards: Rewards, _event: Event) -> Rewards:
    return replace(rewards, active_at=NEVER)


def _root_resumed(rewards: Rewards, event: Event) -> Rewards:
    return replace(rewards, active_at=event.timestamp)


def _root_revoked(rewards: Rewards, _event: Event) -> Rewards:
    return replace(rewards, root=rewards.previous_root, total=rewards.previous_total, active_at=0)


def _claimed(held: Books, event: Event) -> None:
    held.claimed[event.args["jobId"], event.args["account"]] = event.args["cumulative"]


_ENTRIES: Mapping[tuple[str, str], Entry] = {
    ("JobEscrow", "JobOpened"): _job_opened,
    ("JobEscrow", "ToppedUp"): _money(deposited=1),
    ("JobEscrow", "Reserved"): _money(reserved=1),
    ("JobEscrow", "Released"): _money(reserved=-1),
    ("JobEscrow", "Paid"): _money(reserved=-1, paid=1),
    ("JobEscrow", "Refunded"): _money(refunded=1),
    ("JobEscrow", "StateChanged"): _job_state,
    ("SubmissionRegistry", "CampaignOpened"): _campaign_opened,
    ("SubmissionRegistry", "Committed"): _submitted,
    ("SubmissionRegistry", "Revealed"): _submission_revealed,
    ("SubmissionRegistry", "Forfeited"): _submission_ended(SubmissionState.EXPIRED),
    ("SubmissionRegistry", "Revoked"): _submission_ended(SubmissionState.REVOKED),
    ("TrainingRegistry", "TrainingOpened"): _training_opened,
    ("QualityRounds", "RoundOpened"): _round_opened,
    ("QualityRounds", "CommitsClosed"): _commits_closed,
    ("QualityRounds", "Tallied"): _tallied,
    ("QualityRounds", "Redrawing"): _round_failed,
    ("QualityRounds", "Failed"): _round_failed,
    ("QualityRounds", "Overturned"): _round_failed,
    ("StakeManager", "Staked"): _stake(_staked),
    ("StakeManager", "WithdrawRequested"): _stake(_unstaking),
    ("StakeManager", "Withdrawn"): _stake(_withdrawn),
    ("StakeManager", "Slashed"): _stake(_slashed),
    ("StakeManager", "Locked"): _stake(_locked),
    ("RewardsDistributor", "RootPublished"): _root(_root_published),
    ("RewardsDistributor", "RootSuspended"): _root(_root_suspended),
    ("RewardsDistributor", "RootResumed"): _root(_root_resumed),
    ("RewardsDistributor", "RootRevoked"): _root(_root_revoked),
    ("RewardsDistributor", "Claimed"): _claimed,
}
