"""What the chain would do with a call, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hydra_node.chain.reverts import Reverted, revert_data, reverted
from hydra_node.chain.rpc import Rpc, RpcError
from hydra_node.chain.transactions import ContractCall, InsufficientFunds, TransactionRejected

_GAS_MARGIN = (6, 5)
_POOR = ("insufficient funds", "insufficient balance", "enough funds", "enough balance")


@dataclass(frozen=True, slots=True)
class Simulation:
    """Asks the node behind `rpc` what calls from `address` would do."""

    rpc: Rpc
    address: str

    def run(self, call: ContractCall) -> tuple[bytes, int]:
        """What the call returns on the newest state, and the gas to send it with.

        Raises `Reverted`, `TransactionRejected`, `InsufficientFunds`.
        """
        fields = self._fields(call)
        result = b""
        if call.address is not None:
            result = bytes.fromhex(self._ask(call, "eth_call", fields)[2:])
        if call.gas is not None:
            return result, call.gas
        times, over = _GAS_MARGIN
        return result, int(self._ask(call, "eth_estimateGas", fields), 16) * times // over

    def failure(self, call: ContractCall, mined: Mapping[str, Any]) -> Reverted:
        """Why a transaction failed that was mined, by its raw receipt: it is repeated on the state of its block."""
        tx_hash = str(mined["transactionHash"])
        if call.gas is not None and int(mined["gasUsed"], 16) >= call.gas:
            return reverted(call.title, b"", "it ran out of gas", transaction=tx_hash)
        try:
            self.rpc.request("eth_call", self._fields(call), mined["blockNumber"])
        except RpcError as error:
            return reverted(call.title, revert_data(error) or b"", error.message, transaction=tx_hash)
        return reverted(call.title, b"", "the state changed before it was mined", transaction=tx_hash)

    def rejection(self, call: ContractCall, error: RpcError) -> TransactionRejected:
        """The named error for a node's refusal of the call."""
        if error.says(_POOR):
            return InsufficientFunds(
                f"{self.address} cannot pay for {call.title}", remedy="send it some of the chain's own coin for gas"
            )
        return TransactionRejected(f"the chain did not take {call.title} ({' '.join(error.message.split())[:300]})")

    def _fields(self, call: ContractCall) -> dict[str, str]:
        fields = {"from": self.address, "data": f"0x{call.data.hex()}"}
        if call.address is not None:
            fields["to"] = call.address
        if call.value:
            fields["value"] = hex(call.value)
        return fields

    def _ask(self, call: ContractCall, method: str, fields: Mapping[str, str]) -> str:
        try:
            return str(self.rpc.request(method, fields, "latest"))
        except RpcError as error:
            data = revert_data(error)
            if data is None:
                raise self.rejection(call, error) from None
            raise reverted(call.title, data, error.message) from None
