"""Accounts that sign for whoever asks, as Ganache's and Anvil's do: for tests of contracts, not for a kept chain.

Adds `eth_sendTransaction`. A transaction that fails is reported as Ganache does, with the reason in the error: test
frameworks look for it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eth_account import Account

from hydra_node.devnet.embedded.accounts import DevAccount
from hydra_node.devnet.embedded.encoding import FAILED, RpcError, parse_address, parse_object, parse_quantity

MINED_SECONDS = 30.0
_POLL_SECONDS = 0.002
_FEES = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")


class UnlockedAccounts:
    """Sends from the developer accounts through the methods of a chain that mines at once."""

    def __init__(self, methods: Mapping[str, Callable[..., Any]], accounts: Sequence[DevAccount]) -> None:
        self._methods = methods
        self._keys = {bytes.fromhex(account.address[2:]): account.key for account in accounts}

    async def send(self, call: Any) -> str:
        """`eth_sendTransaction`: sign, send, and wait until it is mined. Raises `RpcError` when it fails there."""
        fields = parse_object(call, "call")
        key = self._keys.get(parse_address(fields.get("from"), "from"))
        if key is None:
            raise RpcError(FAILED, "the account is not one of this chain's")
        reason = await asyncio.to_thread(self._refusal, fields)
        raw = await asyncio.to_thread(self._sign, fields, key)
        tx_hash: str = await self._methods["eth_sendRawTransaction"](raw)
        async with asyncio.timeout(MINED_SECONDS):
            # The producer tells nobody of a block.
            while (receipt := await asyncio.to_thread(self._methods["eth_getTransactionReceipt"], tx_hash)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
        if int(receipt["status"], 16) != 1:
            failure = {"error": "revert", "program_counter": 0, "return": reason, "reason": reason}
            raise RpcError(FAILED, "VM Exception while processing transaction: revert", {tx_hash: failure})
        return tx_hash

    def _refusal(self, fields: Mapping[str, Any]) -> str | None:
        """What the next block's state would answer; None when it would take it."""
        try:
            self._methods["eth_call"]({name: value for name, value in fields.items() if name not in _FEES}, "pending")
        except RpcError as error:
            return error.data if isinstance(error.data, str) else "0x"
        return None

    def _sign(self, fields: Mapping[str, Any], key: bytes) -> str:
        sender = fields["from"]
        transaction: dict[str, Any] = {
            "chainId": int(self._methods["eth_chainId"](), 16),
            "nonce": fields.get("nonce") or self._methods["eth_getTransactionCount"](sender, "pending"),
            "gas": fields.get("gas") or self._methods["eth_estimateGas"](dict(fields)),
            "value": fields.get("value") or "0x0",
            "data": fields.get("input", fields.get("data")) or "0x",
        }
        if fields.get("to"):
            transaction["to"] = fields["to"]
        fees = {name: fields[name] for name in _FEES if fields.get(name)}
        transaction.update(fees or {"gasPrice": self._methods["eth_gasPrice"]()})
        for name in ("nonce", "gas", "value"):
            transaction[name] = parse_quantity(transaction[name], name)
        return f"0x{Account.from_key(key).sign_transaction(transaction).raw_transaction.hex()}"
