"""Specs of jobs that are known to work."""

from hydra_node.training.spec import AdamWSpec, CnnSpec, TrainingSpec


def digits_spec(
    dataset: str,
    *,
    seed: int,
    steps: int = 300,
    global_batch: int = 128,
    round_steps: int = 50,
    audit_rate: float = 0.1,
    scale: float = 1.0,
    min_trainers: int = 2,
) -> TrainingSpec:
    """scikit-learn's digits (8x8, ten classes): about 900 samples are enough for 0.95 on the rest.

    `scale` brings the features to 0..1: those of a Hydra dataset already are, raw digits need 1/16.
    """
    return TrainingSpec(
        dataset=dataset,
        shape=(8, 8),
        classes=10,
        scale=scale,
        model=CnnSpec(family="cnn", channels=(16, 24), depth=2),
        optimiser=AdamWSpec(name="adamw", lr=3e-3, weight_decay=1e-2, schedule="linear"),
        global_batch=global_batch,
        steps=steps,
        seed=seed,
        round_steps=round_steps,
        audit_rate=audit_rate,
        min_trainers=min_trainers,
    )
