"""The built-in model families, started from the job's seed alike on every machine."""

import hashlib
import itertools
import math

import numpy as np
import torch
from torch import nn

from hydra_node.training.spec import CnnSpec, TrainingSpec, convolutions, layer_sizes


def build(spec: TrainingSpec) -> nn.Module:
    """The spec's model on the CPU: (samples, *shape) float32 -> (samples, classes) logits.

    No layer looks at more than one sample at a time (so no batch normalisation): the mean gradient of a batch
    must be the weighted mean of its shares' gradients.
    """
    layers: list[nn.Module] = []
    if isinstance(spec.model, CnnSpec):
        planes = convolutions(spec.model, spec.shape)
        layers.append(nn.Unflatten(1, (planes[0][0], *spec.shape[-2:])))
        for inner, outer, halved in planes:
            layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.ReLU()]
            if halved:
                layers.append(nn.MaxPool2d(2))
        layers.append(nn.Flatten())
    sizes, _ = layer_sizes(spec)
    for wide, narrow in itertools.pairwise(sizes):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    model = nn.Sequential(nn.Flatten(), *layers[:-1])
    _start(model, spec.seed)
    return model


def _start(model: nn.Module, seed: int) -> None:
    """He-uniform weights and zero biases, drawn from the raw bits of a counter-based stream.

    torch's own generators give other bits with other instruction sets; PCG64's raw words are the same on all.
    """
    digest = hashlib.sha256(b"hydra-init:" + seed.to_bytes(8, "big")).digest()
    stream = np.random.PCG64(int.from_bytes(digest, "big"))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() < 2:
                parameter.zero_()
                continue
            bound = np.float32(math.sqrt(6.0 / math.prod(parameter.shape[1:])))
            words = np.asarray(stream.random_raw(parameter.numel()), dtype=np.uint64) >> np.uint64(40)
            unit = words.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
            parameter.copy_(torch.from_numpy(unit * bound).view_as(parameter))
