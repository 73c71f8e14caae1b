import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.chain.abi import Param, UnknownContract, UnknownFunction, load
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.codec import BadAnswer, BadArgument, decode_values, encode_call, encode_values
from hydra_node.chain.enums import ENUMS, Kind, Role, State

ACCOUNT = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
uint32 = st.integers(0, 2**32 - 1)
uint256 = st.integers(0, 2**256 - 1)


@given(st.builds(CampaignTerms, uint32, uint32, uint32, uint32, uint256, uint32, uint256, uint256, uint256, uint256))
def test_a_struct_comes_back_as_it_was_given(terms: CampaignTerms) -> None:
    function = load("SubmissionRegistry").function("openCampaign")
    data = encode_call(function, [7, terms])
    assert decode_values(function.inputs, data[4:], "openCampaign") == [7, terms]


def test_selectors_are_those_of_the_token_standard() -> None:
    token = load("HydraToken")
    assert token.function("transfer").selector.hex() == "a9059cbb"
    assert token.function("balanceOf").selector.hex() == "70a08231"


def test_enums_come_back_as_enums() -> None:
    stake = load("StakeManager").function("stake")
    role, amount = decode_values(stake.inputs, encode_call(stake, [Role.TRAINER, 5])[4:], "stake")
    assert role is Role.TRAINER
    assert amount == 5


def test_an_enum_value_of_a_later_contract_is_a_plain_number() -> None:
    param = Param("state", "uint8", "enum State")
    assert decode_values([param], (200).to_bytes(32, "big"), "x") == [200]
    assert decode_values([param], (5).to_bytes(32, "big"), "x") == [State.SETTLED]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bytes32", b"short"),
        ("bytes32", "0x" + "11" * 32),
        ("address", "0x11"),
        ("uint256", -1),
        ("uint32", 2**32),
        ("uint256", 1.5),
        ("uint256", True),
        ("string", 5),
        ("bool", 1),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(kind: str, value: object) -> None:
    with pytest.raises(BadArgument, match="the call"):
        encode_values([Param("value", kind)], [value], "the call")


def test_the_number_of_values_is_checked() -> None:
    with pytest.raises(BadArgument, match="was given 1 values"):
        encode_call(load("HydraToken").function("transfer"), [ACCOUNT])


def test_an_answer_of_something_else_is_named() -> None:
    with pytest.raises(BadAnswer, match="balanceOf"):
        decode_values([Param("", "uint256")], b"\x01", "balanceOf")


def test_a_text_that_is_not_utf8_can_be_read_past() -> None:
    """Solidity stores any bytes as a string; one malformed CID in a log must not blind everybody who reads it."""
    data = encode(["bytes", "uint256"], [b"\xff\xfe cid", 7])
    text, number = decode_values([Param("cid", "string"), Param("n", "uint256")], data, "event")
    assert "cid" in text
    assert number == 7


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(UnknownContract, match="HydraToken"):
        load("../../etc/passwd")
    with pytest.raises(UnknownFunction, match="no function 'steal'"):
        load("HydraToken").function("steal")


def test_the_enums_are_complete() -> None:
    """Every enum in an ABI has its Python counterpart."""
    used = {
        param.internal_name
        for name in ("StakeManager", "JobEscrow", "SubmissionRegistry", "QualityRounds", "TrainingRegistry")
        for function in load(name).functions.values()
        for each in (*function.inputs, *function.outputs)
        for param in (each, *each.components)
        if param.is_enum
    }
    assert used <= ENUMS.keys()
    assert {kind.name for kind in Kind} == {"CAMPAIGN", "TRAINING"}
