from string import Formatter

import pytest
from eth_abi.abi import encode

from hydra_node.chain.abi import all_errors
from hydra_node.chain.enums import Role
from hydra_node.chain.reverts import _SENTENCES, revert_data, reverted, words
from hydra_node.chain.rpc import RpcError

ACCOUNT = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"


def data_of(name: str, *args: object) -> bytes:
    error = next(each for each in all_errors().values() if each.name == name)
    return error.selector + encode([param.type for param in error.params], args)


def test_a_custom_error_keeps_its_name_and_arguments() -> None:
    error = reverted("StakeManager.stake", data_of("ERC20InsufficientBalance", ACCOUNT, 5 * 10**17, 10**18))
    assert error.error_name == "ERC20InsufficientBalance"
    assert error.error_args == {"sender": ACCOUNT, "balance": 5 * 10**17, "needed": 10**18}
    assert str(error) == f"StakeManager.stake was refused: {ACCOUNT} has 0.5 HYDRA and 1 HYDRA are needed"


@pytest.mark.parametrize("error", all_errors().values(), ids=lambda error: error.name)
def test_every_error_of_the_contracts_makes_a_sentence(error) -> None:
    samples = {"address": ACCOUNT, "string": "text", "bool": True}
    values = [samples.get(param.type, bytes(32) if param.type == "bytes32" else 1) for param in error.params]
    shown = reverted("X.y", error.selector + encode([param.type for param in error.params], values))
    assert shown.error_name == error.name
    assert list(shown.error_args) == [param.name for param in error.params]
    assert "\n" not in str(shown)
    assert "{" not in str(shown)


def test_roles_amounts_and_times_are_shown_as_people_write_them() -> None:
    error = reverted("StakeManager.withdraw", data_of("StillThawing", 1, ACCOUNT, 1_800_000_000))
    assert error.error_args["role"] is Role.TRAINER
    assert str(error).endswith("the trainer stake can be withdrawn from 2027-01-15 08:00:00 UTC")
    short = reverted("StakeManager.requestWithdraw", data_of("InsufficientStake", 0, ACCOUNT, 10**18, 2 * 10**18))
    assert str(short).endswith("the active validator stake is 1 HYDRA and 2 HYDRA are asked for")


def test_texts_and_panics_are_decoded_too() -> None:
    text = bytes.fromhex("08c379a0") + encode(["string"], ["too late"])
    assert reverted("X.y", text).error_args == {"message": "too late"}
    assert str(reverted("X.y", text)) == "X.y was refused: too late"
    overflow = reverted("X.y", bytes.fromhex("4e487b71") + encode(["uint256"], [0x11]))
    assert (overflow.error_name, overflow.error_args) == ("Panic", {"code": 0x11})
    assert "overflows" in str(overflow)


@pytest.mark.parametrize("data", [b"", b"\x01\x02", b"\xde\xad\xbe\xef" * 9, bytes.fromhex("08c379a0") + b"\xff" * 40])
def test_data_that_says_nothing_is_still_one_line(data: bytes) -> None:
    shown = str(reverted("X.y", data, "execution\nreverted"))
    assert shown.startswith("X.y was refused: ")
    assert "\n" not in shown


@pytest.mark.parametrize(
    "answer",
    [
        {"code": 3, "message": "execution reverted", "data": "0x12345678"},
        {"code": -32000, "message": "VM Exception while processing transaction: revert", "data": "0x12345678"},
        {"code": -32000, "message": "revert", "data": {"hash": "0x", "result": "0x12345678", "reason": None}},
    ],
)
def test_the_data_is_found_where_each_node_puts_it(answer: dict[str, object]) -> None:
    assert revert_data(RpcError("eth_call", answer)) == bytes.fromhex("12345678")


def test_other_errors_of_a_node_are_no_reverts() -> None:
    assert revert_data(RpcError("eth_call", {"code": -32000, "message": "insufficient funds"})) is None
    assert revert_data(RpcError("eth_call", {"code": 3, "message": "execution reverted"})) == b""


def test_every_sentence_fits_an_error_of_the_contracts() -> None:
    """A renamed error or argument must not leave its sentence behind unused."""
    args = {}
    for error in all_errors().values():
        args.setdefault(error.name, []).append({param.name for param in error.params})
    for name, text in _SENTENCES.items():
        used = {field for _, field, _, _ in Formatter().parse(text) if field}
        assert any(used <= each for each in args[name]), name


def test_names_become_words() -> None:
    assert words("StakeLocked") == "stake locked"
    assert words("BadCidLength") == "bad cid length"
    assert words("readyAt") == "ready at"
    assert words("ERC20InvalidCap") == "ERC20 invalid cap"
