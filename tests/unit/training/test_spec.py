"""A spec has one form of bytes and one hash, and a bad one is named in one line."""

import json
import re
from pathlib import Path

import pytest

from hydra_node.training.presets import digits_spec
from hydra_node.training.spec import BadSpec, TrainingSpec, make, parse, parse_published


@pytest.fixture
def fields() -> dict:
    return digits_spec("bafyexample", seed=1).model_dump(mode="json")


def test_the_same_job_has_the_same_bytes_whoever_writes_it(fields: dict) -> None:
    spec = digits_spec("bafyexample", seed=1)
    shuffled = json.dumps(dict(reversed(fields.items())), indent=4).encode()
    assert parse(shuffled) == spec
    assert parse(shuffled).canonical_bytes() == spec.canonical_bytes()
    assert parse_published(spec.canonical_bytes(), spec.digest()) == spec


def test_another_seed_is_another_job() -> None:
    assert digits_spec("bafyexample", seed=1).digest() != digits_spec("bafyexample", seed=2).digest()


def test_a_spec_that_the_chain_does_not_name_is_refused() -> None:
    spec = digits_spec("bafyexample", seed=1)
    with pytest.raises(BadSpec, match="not the one that the chain names"):
        parse_published(spec.canonical_bytes(), digits_spec("bafyexample", seed=2).digest())


def test_bytes_that_hash_right_but_are_not_canonical_are_refused() -> None:
    import hashlib

    document = json.dumps(digits_spec("bafyexample", seed=1).model_dump(mode="json"), indent=1).encode()
    with pytest.raises(BadSpec, match="canonical"):
        parse_published(document, hashlib.sha256(document).digest())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"global_batch": 0}, "global_batch"),
        ({"steps": -5}, "steps"),
        ({"seed": 2**64}, "seed"),
        ({"audit_rate": 1.5}, "audit_rate"),
        ({"audit_rate": float("nan")}, "audit_rate"),
        ({"shares": "luck"}, "shares"),
        ({"codec": "int3"}, "codec"),
        ({"shape": []}, "shape"),
        ({"shape": [64]}, "a cnn needs a shape"),
        ({"shape": [2, 2], "model": {"family": "cnn", "channels": [4, 4, 4]}}, "below one pixel"),
        ({"shape": [60000], "model": {"family": "mlp", "hidden": [60000]}}, "parameters, more than"),
        ({"model": {"family": "transformer"}}, "model"),
        ({"optimiser": {"name": "sgd", "lr": "fast"}}, "optimiser.sgd.lr"),
        ({"optimiser": {"name": "sgd", "lr": 0}}, "optimiser.sgd.lr"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_field_is_named_in_one_line(fields: dict, change: dict, named: str) -> None:
    with pytest.raises(BadSpec, match=named) as caught:
        make(**(fields | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"\xff\xfe", b"{" * 70_000])
def test_bytes_that_are_no_spec_are_refused(document: bytes) -> None:
    with pytest.raises(BadSpec):
        parse(document)


def test_a_spec_cannot_be_changed() -> None:
    spec: TrainingSpec = digits_spec("bafyexample", seed=1)
    with pytest.raises(ValueError, match="frozen"):
        spec.steps = 3  # type: ignore[misc]  # the point of the test


def test_the_example_in_the_documentation_is_a_spec() -> None:
    page = Path(__file__).parents[3] / "docs" / "training.md"
    (example,) = re.findall(r"```json\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert parse(example.encode()).steps == 300
