"""The same job plainly in one process: what the swarm's result is compared with."""

from typing import NamedTuple

import torch
from torch.nn import functional

from hydra_node.training import models, optimisers
from hydra_node.training.compute import FlatModel
from hydra_node.training.evaluate import accuracy
from hydra_node.training.optimisers import Vector
from hydra_node.training.order import SampleOrder
from hydra_node.training.samples import Samples
from hydra_node.training.spec import TrainingSpec


class Trained(NamedTuple):
    """Parameters after the job's last step, the loss of each step, accuracy on the test samples."""

    parameters: Vector
    losses: list[float]
    test_accuracy: float


def train_single(spec: TrainingSpec, train: Samples, test: Samples) -> Trained:
    """A plain torch loop with the job's order of samples, batch, start and optimiser; no peers, no ledger."""
    order = SampleOrder(spec.seed, len(train))
    flat = FlatModel(models.build(spec))
    parameters = flat.vector()
    optimiser = optimisers.build(spec, flat.size)
    losses = []
    for step in range(spec.steps):
        batch = train.take(order.indices(step * spec.global_batch, (step + 1) * spec.global_batch))
        flat.load(parameters)
        for parameter in flat.module.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        loss = functional.cross_entropy(flat.module(torch.from_numpy(batch.features)), torch.from_numpy(batch.labels))
        torch.autograd.backward(loss)
        gradients = [parameter.grad.reshape(-1) for parameter in flat.module.parameters() if parameter.grad is not None]
        optimiser.update(step, parameters, torch.cat(gradients).numpy())
        losses.append(float(loss.detach()))
    return Trained(parameters, losses, accuracy(spec, parameters, test))
