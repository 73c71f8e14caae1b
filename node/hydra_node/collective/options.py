"""The few knobs of a swarm."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How a swarm starts and how long it waits.

    `patience` is the one knob for deadlines: whoever needs more than `patience` times as long as it took half of the
    members is left out of the step, though never before `floor` seconds have passed after that half. A peer that
    says nothing for `silence` seconds counts as gone; each one says something every `beat` seconds. `clip_slack`
    scales the clip radius (0: no clipping). `history_bytes` bounds the results kept for those who catch up.
    """

    min_members: int = 1
    patience: float = 4.0
    floor: float = 2.0
    silence: float = 5.0
    beat: float = 0.5
    clip_slack: float = 4.0
    history_bytes: int = 64 * 1024 * 1024
    max_members: int = 64
