"""Running a call without a block: `eth_call` and the gas that a transaction needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from eth.abc import ComputationAPI, SignedTransactionAPI, StateAPI
from eth.constants import CREATE_CONTRACT_ADDRESS
from eth.exceptions import Revert
from eth.vm.forks.prague import PragueVM
from eth.vm.spoof import SpoofTransaction
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_typing import Address

_CALL_STIPEND = 2300
_ESTIMATE_TOLERANCE = 0.015
_ERROR_STRING = bytes.fromhex("08c379a0")


class CallFailed(Exception):
    """A call that ended in an error. `data` is what the contract returned with a revert, else None."""

    def __init__(self, message: str, data: bytes | None) -> None:
        super().__init__(message)
        self.data = data


@dataclass(frozen=True, slots=True)
class Call:
    """A message to a contract; `to` is None for a creation. Value in wei."""

    sender: bytes
    to: bytes | None
    value: int
    data: bytes
    gas: int


def execute(state: StateAPI, call: Call) -> bytes:
    """The returned bytes. Raises CallFailed; ValidationError when value or gas is more than there is."""
    computation = _run(state, call, call.gas)
    _raise_on_error(computation)
    return bytes(computation.output)


def estimate(state: StateAPI, call: Call) -> int:
    """Gas with which the call succeeds, at most 1.5 % above the least such amount.

    As in go-ethereum: a run with all the gas tells what is used, which is nearly always the answer. It is not when
    calls within the call, which get at most 63/64 of the gas left, hit that limit: then a little more usually does,
    else bisect. Raises CallFailed if it fails even with `call.gas`.
    """
    first = _run(state, call, call.gas)
    _raise_on_error(first)
    needed = call.gas - first.get_gas_remaining() + first.data_floor_gas
    if _succeeds(state, call, needed):
        return needed
    low, high = needed, call.gas
    optimistic = min((needed + _CALL_STIPEND) * 64 // 63, high)
    if _succeeds(state, call, optimistic):
        high = optimistic
    else:
        low = optimistic
    while low + 1 < high and (high - low) / high > _ESTIMATE_TOLERANCE:
        middle = min((low + high) // 2, low * 2)
        if _succeeds(state, call, middle):
            high = middle
        else:
            low = middle
    return high


def revert_message(output: bytes) -> str:
    """`execution reverted`, with the reason when the revert carries a string."""
    if output[:4] == _ERROR_STRING:
        try:
            (reason,) = decode(["string"], output[4:])
        except DecodingError:
            return "execution reverted"
        return f"execution reverted: {reason}"
    return "execution reverted"


def _succeeds(state: StateAPI, call: Call, gas: int) -> bool:
    return not _run(state, call, gas).is_error


def _run(state: StateAPI, call: Call, gas: int) -> ComputationAPI:
    unsigned = PragueVM.create_unsigned_transaction(
        nonce=state.get_nonce(Address(call.sender)),
        gas_price=0,
        gas=gas,
        to=CREATE_CONTRACT_ADDRESS if call.to is None else Address(call.to),
        value=call.value,
        data=call.data,
    )
    transaction = SpoofTransaction(unsigned, from_=Address(call.sender))
    snapshot = state.snapshot()
    try:
        return state.apply_transaction(cast(SignedTransactionAPI, transaction))
    finally:
        state.revert(snapshot)


def _raise_on_error(computation: ComputationAPI) -> None:
    if not computation.is_error:
        return
    if isinstance(computation.error, Revert):
        output = bytes(computation.output)
        raise CallFailed(revert_message(output), output)
    raise CallFailed(f"{type(computation.error).__name__}: {computation.error}", None)
