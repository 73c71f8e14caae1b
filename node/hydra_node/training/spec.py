"""What a training job is: a small validated document, the same bytes and the same hash for everybody."""

import hashlib
import itertools
import json
import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hydra_node.errors import HydraError

MAX_SPEC_BYTES = 64 * 1024
MAX_PARAMETERS = 100_000_000

Size = Annotated[int, Field(ge=1, le=65_536)]
Rate = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]


class BadSpec(HydraError):
    """A training spec cannot be used as it stands."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class MlpSpec(_Part):
    """Fully connected layers with ReLU between them; `hidden` are their widths."""

    family: Literal["mlp"]
    hidden: tuple[Size, ...] = Field(default=(64,), max_length=16)


class CnnSpec(_Part):
    """Stages of `depth` 3x3 convolutions with ReLU, height and width halved after each stage but the first.

    `channels` are the widths of the stages, `hidden` those of fully connected layers after them; the input is
    height x width or channels x height x width.
    """

    family: Literal["cnn"]
    channels: tuple[Size, ...] = Field(default=(16, 32), min_length=1, max_length=8)
    depth: int = Field(default=1, ge=1, le=8)
    hidden: tuple[Size, ...] = Field(default=(), max_length=4)


class _OptimiserSpec(_Part):
    lr: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)]
    weight_decay: Rate = 0.0
    schedule: Literal["constant", "linear"] = "constant"
    """`linear` lowers the rate to zero over the job's steps."""


class SgdSpec(_OptimiserSpec):
    """SGD with momentum, weight decay added to the gradient."""

    name: Literal["sgd"]
    momentum: Fraction = 0.9


class AdamWSpec(_OptimiserSpec):
    """AdamW: weight decay apart from the gradient."""

    name: Literal["adamw"]
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Annotated[float, Field(gt=1e-12, le=1.0, allow_inf_nan=False)] = 1e-8


class TrainingSpec(_Part):
    """A training job. Lengths of batch and job are in samples and steps; `dataset` is the manifest's CID."""

    version: Literal[1] = 1
    dataset: str = Field(min_length=1, max_length=128)
    shape: tuple[Size, ...] = Field(min_length=1, max_length=3)
    classes: int = Field(ge=2, le=65_536)
    scale: Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)] = 1.0
    """Features are multiplied by it before they reach the model."""
    model: MlpSpec | CnnSpec = Field(discriminator="family")
    optimiser: SgdSpec | AdamWSpec = Field(discriminator="name")
    global_batch: int = Field(ge=1, le=1_048_576)
    steps: int = Field(ge=1, le=100_000_000)
    seed: int = Field(ge=0, lt=2**63)
    round_steps: int = Field(ge=1, le=100_000)
    """Steps of one settlement round: each trainer posts one journal segment a round."""
    min_trainers: int = Field(default=2, ge=1, le=64)
    """The training starts once so many trainers have found each other; others come in later."""
    audit_rate: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    """Share of the contributions that auditors recompute."""
    shares: Literal["equal", "throughput", "waterfill"] = "waterfill"
    codec: Literal["fp32"] = "fp32"
    clip: Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)] = 4.0
    """Contributions longer than this many times the median, adjusted to their share, are scaled down; 0: none is."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if isinstance(self.model, CnnSpec):
            if len(self.shape) < 2:
                raise ValueError("a cnn needs a shape of height x width or channels x height x width")
            height, width = self.shape[-2:]
            if min(height, width) >> (len(self.model.channels) - 1) < 1:
                raise ValueError(f"{len(self.model.channels)} stages halve {height}x{width} below one pixel")
        if parameter_count(self) > MAX_PARAMETERS:
            raise ValueError(f"the model has {parameter_count(self):,} parameters, more than {MAX_PARAMETERS:,}")
        return self

    def canonical_bytes(self) -> bytes:
        """The document whose hash names the job: JSON with sorted keys and no spaces."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes: the `specHash` on chain."""
        return hashlib.sha256(self.canonical_bytes()).digest()


def parse(document: bytes) -> TrainingSpec:
    """Reads a spec from JSON; a `BadSpec` names the first field that is wrong in one line."""
    if len(document) > MAX_SPEC_BYTES:
        raise BadSpec(f"the training spec has {len(document)} bytes", expected=f"at most {MAX_SPEC_BYTES}")
    try:
        return TrainingSpec.model_validate_json(document)
    except ValidationError as error:
        raise _bad(error) from None


def make(**fields: object) -> TrainingSpec:
    """Builds a spec from keyword arguments, with the same one-line errors as `parse`."""
    try:
        return TrainingSpec.model_validate(fields)
    except ValidationError as error:
        raise _bad(error) from None


def parse_published(document: bytes, spec_hash: bytes) -> TrainingSpec:
    """Reads the spec that the chain names: the bytes must be canonical and hash to `spec_hash`."""
    spec = parse(document)
    if hashlib.sha256(document).digest() != spec_hash or spec.canonical_bytes() != document:
        raise BadSpec(
            "the training spec is not the one that the chain names",
            expected=f"canonical JSON with sha-256 {spec_hash.hex()}",
            remedy="ask the sponsor for the published document",
        )
    return spec


def parameter_count(spec: TrainingSpec) -> int:
    """How many float32 parameters the spec's model has."""
    sizes, count = layer_sizes(spec)
    return count + sum((wide + 1) * narrow for wide, narrow in itertools.pairwise(sizes))


def layer_sizes(spec: TrainingSpec) -> tuple[list[int], int]:
    """Widths of the fully connected part, input first, and the parameters in front of it."""
    if isinstance(spec.model, MlpSpec):
        return [math.prod(spec.shape), *spec.model.hidden, spec.classes], 0
    height, width = spec.shape[-2:]
    halvings = len(spec.model.channels) - 1
    flat = spec.model.channels[-1] * (height >> halvings) * (width >> halvings)
    before = sum((9 * inner + 1) * outer for inner, outer, _ in convolutions(spec.model, spec.shape))
    return [flat, *spec.model.hidden, spec.classes], before


def convolutions(model: CnnSpec, shape: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """(channels in, channels out, whether the size is halved after it) of each convolution."""
    result = []
    inner = shape[0] if len(shape) == 3 else 1
    for stage, outer in enumerate(model.channels):
        for place in range(model.depth):
            result.append((inner, outer, stage > 0 and place == model.depth - 1))
            inner = outer
    return result


def _bad(error: ValidationError) -> BadSpec:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the training spec"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return BadSpec(f"bad training spec: {where}: {first['msg']}{more}", remedy="correct the field and try again")
