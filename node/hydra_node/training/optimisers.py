"""Optimisers whose result is the same bits on every processor.

Everything is float32 arithmetic in which each operation is rounded by itself: + - x / and square root are exact
up to one IEEE rounding on any processor, so the order written here fixes the result. Nothing here is fused, and
bias corrections come from repeated multiplication, because a library's `pow` is not the same everywhere. numpy
rather than torch: its float kernels never fuse a product with a sum, and torch may take a square root from a
vector library.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from hydra_node.training.spec import AdamWSpec, SgdSpec, TrainingSpec

Vector = npt.NDArray[np.float32]


class Optimiser(Protocol):
    """Moves a flat parameter vector; its own vectors are `slots`, all of the parameters' length."""

    slots: dict[str, Vector]

    def update(self, step: int, parameters: Vector, gradient: Vector) -> None:
        """Applies the gradient of `step` (the first is 0) to `parameters` in place."""
        ...


def build(spec: TrainingSpec, size: int) -> Optimiser:
    """The spec's optimiser for `size` parameters, at rest."""
    settings = spec.optimiser
    if isinstance(settings, SgdSpec):
        return Sgd(settings, spec.steps, size)
    return AdamW(settings, spec.steps, size)


class Sgd:
    """velocity = momentum x velocity + gradient; parameters -= rate x velocity (Polyak 1964, as in torch)."""

    def __init__(self, settings: SgdSpec, steps: int, size: int) -> None:
        self.slots: dict[str, Vector] = {"velocity": np.zeros(size, np.float32)}
        self._settings = settings
        self._steps = steps

    def update(self, step: int, parameters: Vector, gradient: Vector) -> None:
        settings, velocity = self._settings, self.slots["velocity"]
        if settings.weight_decay:
            gradient = gradient + parameters * np.float32(settings.weight_decay)
        velocity *= np.float32(settings.momentum)
        velocity += gradient
        parameters -= velocity * np.float32(_rate(settings, step, self._steps))


class AdamW:
    """Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2."""

    def __init__(self, settings: AdamWSpec, steps: int, size: int) -> None:
        self.slots: dict[str, Vector] = {"mean": np.zeros(size, np.float32), "square": np.zeros(size, np.float32)}
        self._settings = settings
        self._steps = steps

    def update(self, step: int, parameters: Vector, gradient: Vector) -> None:
        settings, mean, square = self._settings, self.slots["mean"], self.slots["square"]
        rate = _rate(settings, step, self._steps)
        mean *= np.float32(settings.beta1)
        mean += gradient * np.float32(1.0 - settings.beta1)
        square *= np.float32(settings.beta2)
        square += gradient * gradient * np.float32(1.0 - settings.beta2)
        root = np.sqrt(square * np.float32(1.0 / (1.0 - _power(settings.beta2, step + 1))))
        root += np.float32(settings.eps)
        if settings.weight_decay:
            parameters *= np.float32(1.0 - rate * settings.weight_decay)
        parameters -= mean * np.float32(rate / (1.0 - _power(settings.beta1, step + 1))) / root


def _rate(settings: SgdSpec | AdamWSpec, step: int, steps: int) -> float:
    if settings.schedule == "linear":
        return settings.lr * (max(0, steps - step) / steps)
    return settings.lr


def _power(base: float, exponent: int) -> float:
    """base ** exponent by squaring: multiplications only, so the same bits everywhere."""
    result, square = 1.0, base
    while exponent:
        if exponent & 1:
            result *= square
        square *= square
        exponent >>= 1
    return result
