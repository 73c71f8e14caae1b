import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_node.chain.amounts import MAX_AMOUNT, WEI_PER_HYDRA, BadAmount, format_hydra, parse_hydra


@given(st.integers(min_value=0, max_value=MAX_AMOUNT))
def test_what_is_shown_can_be_typed_back(wei: int) -> None:
    assert parse_hydra(format_hydra(wei)) == wei


@pytest.mark.parametrize(
    ("text", "wei"),
    [
        ("1.5 HYDRA", 3 * WEI_PER_HYDRA // 2),
        ("1.5", 3 * WEI_PER_HYDRA // 2),
        ("  2hydra ", 2 * WEI_PER_HYDRA),
        ("0.000000000000000001 HYDRA", 1),
        ("250 wei", 250),
        ("0", 0),
    ],
)
def test_amounts_as_people_write_them(text: str, wei: int) -> None:
    assert parse_hydra(text) == wei


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HYDRA",
        "-1",
        "+1",
        "1e18",
        "1,000",
        "1.",
        ".5",
        "1.5 wei",
        "0.0000000000000000001",
        "1 ETH",
        "١",
        "1" * 78,
        "nan",
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadAmount, match="is not an amount"):
        parse_hydra(text)


def test_amounts_are_shown_without_needless_zeros_and_with_their_sign() -> None:
    assert format_hydra(WEI_PER_HYDRA) == "1 HYDRA"
    assert format_hydra(1) == "0.000000000000000001 HYDRA"
    assert format_hydra(-3 * WEI_PER_HYDRA // 2) == "-1.5 HYDRA"
