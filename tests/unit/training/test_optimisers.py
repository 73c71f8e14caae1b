"""Optimisers agree with torch's closely, and with themselves on other processors to the last bit."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from hydra_node.training import optimisers
from hydra_node.training.presets import digits_spec
from hydra_node.training.spec import AdamWSpec, SgdSpec, TrainingSpec

SGD = SgdSpec(name="sgd", lr=0.05, momentum=0.9, weight_decay=1e-3)
ADAMW = AdamWSpec(name="adamw", lr=3e-3, weight_decay=1e-2)


def spec(optimiser: SgdSpec | AdamWSpec) -> TrainingSpec:
    return digits_spec("x", seed=1).model_copy(update={"optimiser": optimiser})


@pytest.mark.parametrize("settings", [SGD, ADAMW])
def test_it_is_the_algorithm_that_torch_has(settings: SgdSpec | AdamWSpec) -> None:
    random = np.random.default_rng(0)
    parameters = random.normal(size=50).astype(np.float32)
    tensor = torch.from_numpy(parameters.copy()).requires_grad_()
    ours = optimisers.build(spec(settings), 50)
    theirs: torch.optim.Optimizer
    if isinstance(settings, SgdSpec):
        theirs = torch.optim.SGD(
            [tensor], lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    else:
        theirs = torch.optim.AdamW([tensor], lr=settings.lr, weight_decay=settings.weight_decay)
    for step in range(40):
        gradient = random.normal(size=50).astype(np.float32)
        tensor.grad = torch.from_numpy(gradient.copy())
        theirs.step()
        ours.update(step, parameters, gradient)
    np.testing.assert_allclose(parameters, tensor.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_a_linear_schedule_ends_at_zero() -> None:
    settings = SgdSpec(name="sgd", lr=1.0, momentum=0.0, schedule="linear")
    job = spec(settings).model_copy(update={"steps": 4})
    moves = []
    for step in range(5):
        parameters = np.zeros(1, np.float32)
        optimisers.build(job, 1).update(step, parameters, np.ones(1, np.float32))
        moves.append(-float(parameters[0]))
    assert moves == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_the_gradient_is_left_as_it_was() -> None:
    gradient = np.ones(3, np.float32)
    for settings in (SGD, ADAMW):
        optimisers.build(spec(settings), 3).update(0, np.ones(3, np.float32), gradient)
    assert (gradient == 1).all()


PROGRAM = """
import hashlib, numpy as np
from hydra_node.training import models, optimisers
from hydra_node.training.compute import FlatModel
from hydra_node.training.presets import digits_spec
from hydra_node.training.spec import AdamWSpec, SgdSpec
base = digits_spec("x", seed=9)
digest = hashlib.sha256()
for settings in (SgdSpec(name="sgd", lr=.03, momentum=.9, weight_decay=1e-3),
                 AdamWSpec(name="adamw", lr=3e-3, weight_decay=1e-2, schedule="linear")):
    spec = base.model_copy(update={"optimiser": settings})
    parameters = FlatModel(models.build(spec)).vector()
    digest.update(parameters.tobytes())
    optimiser = optimisers.build(spec, len(parameters))
    words = np.random.PCG64(4)
    for step in range(50):
        raw = np.asarray(words.random_raw(len(parameters)), np.uint64) >> np.uint64(40)
        gradient = raw.astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
        optimiser.update(step, parameters, gradient)
    digest.update(parameters.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_start_and_steps_are_the_same_bits_on_every_kind_of_processor() -> None:
    kinds = [
        {"ATEN_CPU_CAPABILITY": "default", "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3 AVX512F AVX2 FMA3"},
        {"ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "2"},
        {"OMP_NUM_THREADS": "1"},
    ]
    digests = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env={**os.environ, **kind},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kind in kinds
    }
    assert len(digests) == 1
