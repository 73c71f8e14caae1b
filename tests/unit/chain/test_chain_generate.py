import re
from pathlib import Path

import pytest

from hydra_node.chain import generate
from hydra_node.chain.enums import ENUMS

CONTRACTS = Path(__file__).parents[3] / "contracts"


def test_the_checked_in_classes_are_those_of_the_artifacts() -> None:
    """When this fails: python -m hydra_node.chain.generate."""
    present = {path.name: path.read_text() for path in generate.BINDINGS.glob("*.py")}
    assert present == generate.render_all()


def test_generating_twice_gives_the_same_text() -> None:
    assert generate.render_all() == generate.render_all()


@pytest.mark.parametrize(
    ("solidity", "python"),
    [
        ("stakeOf", "stake_of"),
        ("DOMAIN_SEPARATOR", "domain_separator"),
        ("HydraToken", "hydra_token"),
        ("eip712Domain", "eip712_domain"),
    ],
)
def test_names_follow_python(solidity: str, python: str) -> None:
    assert generate.snake(solidity) == python


def test_names_that_python_keeps_for_itself_get_an_underscore() -> None:
    assert generate.identifier("from") == "from_"
    assert generate.identifier("round") == "round_"
    assert generate.identifier("_owner") == "owner"


def test_the_enums_are_those_of_the_solidity_sources() -> None:
    source = "".join(path.read_text() for path in sorted(CONTRACTS.rglob("*.sol")))
    for name, kind in ENUMS.items():
        declared = re.search(rf"enum {name} \{{([^}}]*)\}}", source)
        assert declared is not None, name
        members = [member.strip().upper() for member in declared[1].split(",")]
        assert members == [member.name for member in kind]
