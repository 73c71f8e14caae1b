"""Cheating on purpose, so that a development network can show that it is caught."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from hydra_node.errors import HydraError
from hydra_node.training.optimisers import Vector


class UnknownCheat(HydraError):
    """No way of cheating has that name."""


@dataclass(frozen=True, slots=True)
class Adversary:
    """Sends the gradient with its sign flipped from step `first` on."""

    first: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `sign-flip@STEP`."""
        kind, _, first = text.partition("@")
        if kind != "sign-flip" or not first.isdecimal():
            raise UnknownCheat(f"{text!r} is no way of cheating", expected="sign-flip@STEP")
        return cls(int(first))

    def spoiled(self, step: int, gradient: Vector) -> Vector:
        """What is sent instead of the true gradient."""
        return gradient if step < self.first else np.negative(gradient)
