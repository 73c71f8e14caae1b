from pathlib import Path

import pytest

from hydra_node.chain.deployment import BadDeployment, Deployment

LOWER = "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23"
CHECKSUMMED = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"


def test_a_saved_deployment_is_loaded_as_it_was(tmp_path: Path) -> None:
    deployment = Deployment(chain_id=1337, block=3, addresses={"HydraToken": LOWER})
    deployment.save(tmp_path / "deep" / "deployment.json")
    assert Deployment.load(tmp_path / "deep" / "deployment.json") == deployment
    assert deployment.address("HydraToken") == CHECKSUMMED


def test_a_contract_that_is_not_part_of_it_is_named() -> None:
    deployment = Deployment(chain_id=1337, block=3, addresses={"HydraToken": LOWER})
    with pytest.raises(BadDeployment, match="no contract 'JobEscrow'"):
        deployment.address("JobEscrow")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"chain_id": 1, "block": 0, "addresses": {}}',
        '{"chain_id": 0, "block": 0, "addresses": {"A": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"}}',
        '{"chain_id": 1, "block": 0, "addresses": {"A": "0x12"}}',
        '{"chain_id": 1, "block": 0, "addresses": {"A": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"}, "more": 1}',
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "deployment.json"
    file.write_text(content)
    with pytest.raises(BadDeployment, match="is damaged") as caught:
        Deployment.load(file)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadDeployment, match="deploy first"):
        Deployment.load(tmp_path / "nowhere.json")
