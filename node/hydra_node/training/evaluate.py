"""How good a trained model is, and the file that people load it from."""

import json

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from hydra_node.training import models
from hydra_node.training.compute import CHUNK, FlatModel
from hydra_node.training.optimisers import Vector
from hydra_node.training.samples import Samples
from hydra_node.training.spec import TrainingSpec
from hydra_node.training.state import BadState


def accuracy(spec: TrainingSpec, parameters: Vector, samples: Samples) -> float:
    """Share of `samples` whose most likely class is their label."""
    model = FlatModel(models.build(spec))
    model.load(parameters)
    right = 0
    with torch.no_grad():
        for start in range(0, len(samples), CHUNK):
            logits = model.module(torch.from_numpy(samples.features[start : start + CHUNK]))
            right += int(np.sum(logits.argmax(1).numpy() == samples.labels[start : start + CHUNK]))
    return right / len(samples)


def checkpoint(spec: TrainingSpec, parameters: Vector, step: int) -> bytes:
    """The model as safetensors under torch's names, with the spec in the metadata; the same bytes for everybody."""
    model = FlatModel(models.build(spec))
    model.load(parameters)
    tensors = {name: tensor.contiguous() for name, tensor in model.module.state_dict().items()}
    about = json.dumps({"spec": spec.model_dump(mode="json"), "step": step}, sort_keys=True)
    return bytes(save(tensors, metadata={"hydra": about}))


def read_checkpoint(spec: TrainingSpec, data: bytes) -> Vector:
    """The parameters of a checkpoint as one vector, each tensor checked against the spec's model."""
    module = models.build(spec)
    try:
        module.load_state_dict(load(data))
    except (SafetensorError, RuntimeError, KeyError, TypeError) as error:
        raise BadState(f"the checkpoint does not hold this job's model: {error}") from error
    return FlatModel(module).vector()
