"""The demo's cast: who takes part, with what stake, and who misbehaves how."""

from __future__ import annotations

from dataclasses import dataclass

HYDRA = 10**18


@dataclass(frozen=True, slots=True)
class Role:
    """One participant: its name (also its wallet's and its folder's), and the tokens it starts with (wei)."""

    name: str
    kind: str
    tokens: int
    adversary: str = ""
    cpu_limit: float = 1.0
    fate: str = ""


SPONSOR = Role("sponsor", "sponsor", 5_000 * HYDRA)

CONTRIBUTORS = (
    Role("honest-a", "contributor", 10 * HYDRA),
    Role("honest-b", "contributor", 10 * HYDRA),
    Role("noise", "contributor", 10 * HYDRA, adversary="noise"),
    Role("flipper", "contributor", 10 * HYDRA, adversary="flipped-labels"),
    Role("copier", "contributor", 10 * HYDRA, adversary="copies"),
)

VALIDATORS = (
    Role("validator-a", "validator", 400 * HYDRA),
    Role("validator-b", "validator", 400 * HYDRA),
    Role("validator-c", "validator", 400 * HYDRA, adversary="copy-commitment"),
)

TRAINERS = (
    Role("steady", "trainer", 200 * HYDRA),
    Role("slow", "trainer", 200 * HYDRA, cpu_limit=1 / 3),
    Role("killed", "trainer", 200 * HYDRA, fate="sigkill"),
    # Half as fast as the honest ones: what it sends before it is caught must not outweigh them.
    Role("cheat", "trainer", 200 * HYDRA, adversary="sign-flip", cpu_limit=1 / 2),
)

EVERYONE = (SPONSOR, *CONTRIBUTORS, *VALIDATORS, *TRAINERS)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the sponsor offers in the demo; amounts in wei, windows in seconds of chain time."""

    campaign_reward: int = 1_000 * HYDRA
    commit_seconds: int = 20
    reveal_seconds: int = 8
    score_commit_seconds: int = 60
    score_reveal_seconds: int = 8
    bond: int = 2 * HYDRA
    validator_fee: int = 10 * HYDRA
    validator_penalty: int = 40 * HYDRA
    training_reward: int = 2_000 * HYDRA
    rate_per_sample: int = HYDRA // 100
    trainer_min_stake: int = 100 * HYDRA
    trainer_penalty: int = 60 * HYDRA
    audit_fee: int = 5 * HYDRA
    steps: int = 180
    global_batch: int = 512
    round_steps: int = 30
    post_seconds: int = 4
    cheat_from_step: int = 40
    validator_stake: int = 300 * HYDRA
    trainer_stake: int = 120 * HYDRA


TERMS = Terms()
