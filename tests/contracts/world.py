"""The deployed contracts with the people of the story, and the moves they make."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from brownie import chain, web3

HYDRA = 10**18
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
VALIDATOR, TRAINER = 0, 1
CAMPAIGN, TRAINING = 0, 1
OPEN, COLLECTING, SCORING, CHALLENGE, SETTLED, REFUNDED = range(1, 7)
COMMITTED, REVEALED, EXPIRED, REVOKED = range(1, 5)
ROUND_COMMIT, ROUND_REVEAL, TALLIED, FAILED = range(1, 5)
UNLIMITED = 2**256 - 1

DRAWING, VOTING, UPHELD, OVERTURNED, UNDECIDED = range(1, 6)

THAW, ACTIVATION = 300, 60
BOND, DISPUTE_WINDOW = 50 * HYDRA, 100
TAKEOVER_BOND, TAKEOVER_SECONDS = 70 * HYDRA, 40
PARAMETERS = {
    "supply": 1_000_000 * HYDRA,
    "thawSeconds": THAW,
    "activationSeconds": ACTIVATION,
    "disputeBond": BOND,
    "disputeSeconds": DISPUTE_WINDOW,
    "takeoverBond": TAKEOVER_BOND,
    "takeoverSeconds": TAKEOVER_SECONDS,
}


@dataclass(frozen=True)
class CampaignTerms:
    """Fields in the contract's order."""

    commit_seconds: int = 100
    reveal_seconds: int = 100
    score_commit_seconds: int = 100
    score_reveal_seconds: int = 100
    bond: int = 2 * HYDRA
    max_items: int = 1000
    validator_fee: int = 5 * HYDRA
    validator_penalty: int = 40 * HYDRA
    relay_fee: int = 0
    gas_pool: int = 0

    def wire(self) -> tuple[int, ...]:
        return tuple(vars(self).values())


@dataclass(frozen=True)
class TrainingTerms:
    """Fields in the contract's order."""

    rate_per_sample: int = HYDRA // 100
    min_stake: int = 50 * HYDRA
    penalty: int = 30 * HYDRA
    audit_fee: int = HYDRA
    steps: int = 100
    round_steps: int = 20
    post_seconds: int = 10

    def wire(self) -> tuple[int, ...]:
        return tuple(vars(self).values())


@dataclass(frozen=True)
class Submission:
    """What a contributor commits to; fields in the contract's order."""

    items_root: bytes = b"\x11" * 32
    item_count: int = 10
    cid: str = CID
    licence: bytes = b"\x22" * 32
    consent: bytes = b"\x33" * 32
    salt: bytes = b"\x44" * 32

    def wire(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())


@dataclass(frozen=True)
class Verdict:
    """What a validator commits to; fields in the contract's order."""

    root: bytes = b"\x55" * 32
    total: int = 100 * HYDRA
    cid: str = CID
    salt: bytes = b"\x66" * 32

    def wire(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())


@dataclass
class World:
    """Contracts by short names, and the accounts that play the story's parts."""

    contracts: dict[str, Any]
    accounts: Any
    terms: CampaignTerms = field(default_factory=CampaignTerms)

    def __post_init__(self) -> None:
        self.token = self.contracts["HydraToken"]
        self.stakes = self.contracts["StakeManager"]
        self.escrow = self.contracts["JobEscrow"]
        self.submissions = self.contracts["SubmissionRegistry"]
        self.quality = self.contracts["QualityRounds"]
        self.training = self.contracts["TrainingRegistry"]
        self.rewards = self.contracts["RewardsDistributor"]
        self.disputes = self.contracts["DisputeManager"]
        self.arbiter = self.contracts["ViewArbiter"]
        self.treasury, self.sponsor, self.stranger = self.accounts[0], self.accounts[1], self.accounts[2]
        self.contributors = list(self.accounts[3:6])
        self.validators = list(self.accounts[6:9])
        self.trainers = list(self.accounts[9:12])

    def supply(self, *people: Any, amount: int = 5_000 * HYDRA) -> None:
        """Give tokens and unlimited allowances for the contracts that pull."""
        for person in people:
            self.token.transfer(person, amount, {"from": self.treasury})
            for spender in (self.stakes, self.escrow, self.submissions, self.disputes, self.arbiter):
                self.token.approve(spender, UNLIMITED, {"from": person})

    def stake_all(self, role: int, people: list[Any], amount: int = 100 * HYDRA) -> None:
        for person in people:
            self.stakes.stake(role, amount, {"from": person})

    # --- campaigns ---

    def open_job(self, kind: int = CAMPAIGN, amount: int = 1_000 * HYDRA, lifetime: int = 10_000) -> int:
        tx = self.escrow.open(kind, b"\x77" * 32, CID, amount, now() + lifetime, {"from": self.sponsor})
        return tx.events["JobOpened"]["jobId"]

    def open_campaign(self, **terms: Any) -> int:
        job_id = self.open_job()
        self.submissions.openCampaign(job_id, replace(self.terms, **terms).wire(), {"from": self.sponsor})
        return job_id

    def commit(self, job_id: int, contributor: Any, submission: Submission = Submission()) -> int:
        commitment = self.submissions.commitmentOf(job_id, contributor, *submission.wire())
        tx = self.submissions.commit(job_id, commitment, {"from": contributor})
        return tx.events["Committed"]["submissionId"]

    def reveal(self, submission_id: int, contributor: Any, submission: Submission = Submission()) -> Any:
        return self.submissions.reveal(submission_id, *submission.wire(), {"from": contributor})

    def to_reveals(self, job_id: int) -> None:
        wait_until(self.submissions.campaign(job_id)[1])

    def to_scoring(self, job_id: int) -> None:
        wait_until(self.submissions.campaign(job_id)[2])

    def submitted_campaign(self, **terms: Any) -> int:
        """A campaign with one revealed submission, to be scored."""
        job_id = self.open_campaign(**terms)
        submission_id = self.commit(job_id, self.contributors[0])
        self.to_reveals(job_id)
        self.reveal(submission_id, self.contributors[0])
        self.to_scoring(job_id)
        return job_id

    def scored_campaign(self, **terms: Any) -> tuple[int, int]:
        """A campaign with one revealed submission and an open round."""
        job_id = self.submitted_campaign(**terms)
        return job_id, self.open_round(job_id)

    # --- scoring ---

    def open_round(self, job_id: int) -> int:
        """Fix the block that draws the committee, and draw it."""
        self.quality.openRound(job_id, {"from": self.stranger})
        return self.draw_again(job_id)

    def draw_again(self, job_id: int) -> int:
        """Draw the committee once the block is there; the round."""
        chain.mine(2)
        return self.quality.openRound(job_id, {"from": self.stranger}).events["RoundOpened"]["roundId"]

    def vote(self, round_id: int, validator: Any, verdict: Verdict) -> Any:
        commitment = self.quality.commitmentOf(round_id, validator, *verdict.wire())
        return self.quality.commit(round_id, commitment, {"from": validator})

    def show(self, round_id: int, validator: Any, verdict: Verdict) -> Any:
        return self.quality.reveal(round_id, *verdict.wire(), {"from": validator})

    def settle(self, round_id: int, verdict: Verdict) -> Any:
        """Every validator agrees."""
        for validator in self.validators:
            self.vote(round_id, validator, verdict)
        for validator in self.validators:
            self.show(round_id, validator, verdict)
        return self.quality.tally(round_id, {"from": self.stranger})

    # --- training ---

    def open_training(self, lifetime: int = 10_000, **terms: Any) -> int:
        job_id = self.open_job(TRAINING, lifetime=lifetime)
        self.training.openTraining(job_id, TrainingTerms(**terms).wire(), {"from": self.sponsor})
        return job_id

    def join(self, job_id: int, trainer: Any) -> None:
        self.training.bindPeer(peer_key(trainer), b"\x99" * 64, {"from": trainer})
        self.training.join(job_id, {"from": trainer})

    def attest(self, validator: Any, job_id: int, round_: int, root: bytes, total: int, **more: Any) -> Any:
        cheats = [str(cheat) for cheat in more.get("cheats", [])]
        arguments = (job_id, round_, root, total, cheats, more.get("last", False), CID)
        return self.training.attest(*arguments, {"from": validator})

    # --- books ---

    def check_books(self, job_id: int) -> None:
        """deposited = available + reserved + paid + refunded."""
        job = self.escrow.job(job_id)
        assert job[5] == self.escrow.available(job_id) + job[6] + job[7] + job[8]


def peer_key(account: Any) -> bytes:
    """A different key for every account."""
    return bytes.fromhex(str(account)[2:]).rjust(32, b"\x01")


def now() -> int:
    """The newest block's time. Not brownie's `chain.time()`: it follows each chain's clock in another way."""
    return int(chain[-1].timestamp)


def wait_until(timestamp: int) -> None:
    """Make the next block's time at least `timestamp`; time that has passed already is fine."""
    if now() >= timestamp:
        return
    # Not `chain.mine(timestamp=...)`, which brownie asks of Anvil in a way that it refuses.
    answer = web3.provider.make_request("evm_mine", [timestamp])
    if "error" in answer:
        raise AssertionError(answer["error"])


def wait(seconds: int) -> None:
    """Let chain time pass."""
    wait_until(now() + seconds)
