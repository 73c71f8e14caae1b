"""Gradients on one flat float32 vector."""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hydra_node.errors import HydraError
from hydra_node.training.optimisers import Vector
from hydra_node.training.samples import Samples

CHUNK = 1024
"""Samples that go through the model at once; more only cost memory."""


class BadVector(HydraError):
    """A vector does not have as many numbers as the model has parameters."""


class Gradient(NamedTuple):
    """The mean gradient over the samples, float32 in the model's order of parameters, and the mean loss."""

    vector: Vector
    loss: float


class FlatModel:
    """A model whose parameters and gradients are views of two flat vectors. Not for two threads at once."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.size = sum(parameter.numel() for parameter in module.parameters())
        self._parameters = torch.empty(self.size, dtype=torch.float32)
        self._gradient = torch.zeros(self.size, dtype=torch.float32)
        start = 0
        for parameter in module.parameters():
            stop = start + parameter.numel()
            view = self._parameters[start:stop].view_as(parameter)
            view.copy_(parameter.detach())
            parameter.data = view
            parameter.grad = self._gradient[start:stop].view_as(parameter)
            start = stop

    def vector(self) -> Vector:
        """A copy of the parameters as one vector."""
        return np.array(self._parameters.numpy(), dtype=np.float32)

    def load(self, parameters: Vector) -> None:
        """Takes the parameters from a vector of `size` numbers."""
        if parameters.shape != (self.size,):
            raise BadVector(f"a vector of shape {parameters.shape}", expected=f"{self.size} numbers")
        self._parameters.numpy()[:] = parameters

    def gradient(self, samples: Samples) -> Gradient:
        """The mean gradient of cross-entropy over `samples`; a zero vector for none."""
        self._gradient.zero_()
        total = 0.0
        for start in range(0, len(samples), CHUNK):
            features = torch.from_numpy(samples.features[start : start + CHUNK])
            labels = torch.from_numpy(samples.labels[start : start + CHUNK])
            loss = functional.cross_entropy(self.module(features), labels, reduction="sum") / len(samples)
            torch.autograd.backward(loss)
            total += float(loss.detach())
        return Gradient(np.array(self._gradient.numpy(), dtype=np.float32), total)


def gradient(model: FlatModel, parameters: Vector, samples: Samples) -> Gradient:
    """The mean gradient at `parameters` over `samples`: what a trainer contributes and an auditor repeats."""
    model.load(parameters)
    return model.gradient(samples)


def single_threaded() -> None:
    """One thread for torch in this process: peers share the machine with people and with each other."""
    torch.set_num_threads(1)
