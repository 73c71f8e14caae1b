"""What happens to a simulated swarm, and when: drawn from a seed."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Death:
    """`peer` dies after it has sent `after` messages; silently if its host went with it; back after `back` seconds."""

    peer: int
    after: int
    silent: bool
    back: float | None


@dataclass(frozen=True, slots=True)
class Pause:
    """`peer` stands still from `start` to `stop`."""

    peer: int
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Messages from one of `sources` to one of `targets` are lost from `start` to `stop`."""

    sources: frozenset[int]
    targets: frozenset[int]
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that decides a run. Times are virtual seconds; rates are probabilities a message."""

    seed: int
    peers: int
    steps: int
    delay: float = 0.005
    loss: float = 0.0
    double: float = 0.0
    lossy_until: float = 0.0
    late: int = 0
    deaths: tuple[Death, ...] = ()
    pauses: tuple[Pause, ...] = ()
    cuts: tuple[Cut, ...] = ()
    bad: tuple[int, ...] = ()
    limit: float = 300.0

    @classmethod
    def draw(cls, seed: int, largest: int = 9) -> "Schedule":
        """A schedule that leaves a majority alive and ends its faults after some seconds."""
        rng = random.Random(seed)
        peers = min(largest, rng.choice((3, 3, 4, 4, 5, 5, 6, 7, 9, 12, 16)))
        kinds = {kind for kind in ("death", "loss", "pause", "cut", "late", "bad") if rng.random() < 0.4}
        every = list(range(peers))
        deaths: list[Death] = []
        if "death" in kinds:
            for peer in rng.sample(every, rng.randint(1, (peers - 1) // 2)):
                back = rng.uniform(0.1, 10) if rng.random() < 0.5 else None
                deaths.append(Death(peer, rng.randint(1, 40 * peers), rng.random() < 0.3, back))
            if rng.random() < 0.5 and all(death.peer for death in deaths):
                deaths[0] = Death(0, deaths[0].after, deaths[0].silent, deaths[0].back)
        pauses: list[Pause] = []
        if "pause" in kinds:
            for _ in range(rng.randint(1, 2)):
                start = rng.uniform(0, 3)
                pauses.append(Pause(rng.choice((0, rng.choice(every))), start, start + rng.uniform(0.5, 12)))
        cuts: list[Cut] = []
        if "cut" in kinds:
            for _ in range(rng.randint(1, 2)):
                start = rng.uniform(0, 3)
                stop = start + rng.uniform(0.5, 12)
                if rng.random() < 0.5:
                    one, other = rng.sample(every, 2)
                    cuts.append(Cut(frozenset({one}), frozenset({other}), start, stop))
                else:
                    side = frozenset(rng.sample(every, rng.randint(1, peers - 1)))
                    rest = frozenset(every) - side
                    cuts += [Cut(side, rest, start, stop), Cut(rest, side, start, stop)]
        return cls(
            seed=seed,
            peers=peers,
            steps=rng.randint(3, 6),
            delay=rng.choice((0.001, 0.005, 0.05)),
            loss=rng.uniform(0, 0.15) if "loss" in kinds else 0.0,
            double=rng.uniform(0, 0.2) if "loss" in kinds else 0.0,
            lossy_until=rng.uniform(1, 10),
            late=rng.randint(1, 2) if "late" in kinds else 0,
            deaths=tuple(deaths),
            pauses=tuple(pauses),
            cuts=tuple(cuts),
            bad=(rng.choice(every),) if "bad" in kinds else (),
        )
