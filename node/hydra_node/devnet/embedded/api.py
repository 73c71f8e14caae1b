"""The JSON-RPC methods. Plain methods run in worker threads, coroutine methods on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from eth.abc import BlockHeaderAPI, SignedTransactionAPI, StateAPI
from eth.constants import GAS_TX
from eth.exceptions import UnrecognizedTransactionType
from eth.vm.forks.prague.constants import STANDARD_TOKEN_COST, TOTAL_COST_FLOOR_PER_TOKEN
from eth_keys.exceptions import BadSignature
from eth_typing import Address
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError
from rlp.exceptions import RLPException  # type: ignore[import-untyped]  # it ships no types

from hydra_node.devnet.embedded import calls, views
from hydra_node.devnet.embedded.encoding import (
    FAILED,
    RpcError,
    data,
    invalid,
    parse_address,
    parse_data,
    parse_hash,
    parse_object,
    parse_quantity,
    quantity,
)
from hydra_node.devnet.embedded.evm import EvmChain, Transaction
from hydra_node.devnet.embedded.logs import LogFilter, check_size
from hydra_node.devnet.embedded.pool import PoolError, TransactionPool
from hydra_node.devnet.embedded.producer import BlockProducer

REVERTED = 3
PRIORITY_FEE = 10**9
MAX_MINED_AT_ONCE = 1_000
MAX_FEE_HISTORY = 1_024
_ZERO_ADDRESS = bytes(20)


class EthApi:
    """What clients may ask; `methods` maps each name to the callable that takes its positional parameters."""

    def __init__(
        self,
        chain: EvmChain,
        pool: TransactionPool[SignedTransactionAPI],
        producer: BlockProducer,
        accounts: Sequence[str],
    ) -> None:
        self._chain = chain
        self._pool = pool
        self._producer = producer
        self._accounts = list(accounts)
        self.methods: dict[str, Callable[..., Any]] = {
            "web3_clientVersion": lambda: f"hydra-embedded/{version('hydra-node')}/py-evm",
            "web3_sha3": lambda value: data(keccak(parse_data(value, "data"))),
            "net_version": lambda: str(chain.chain_id),
            "net_listening": lambda: True,
            "net_peerCount": lambda: quantity(0),
            "eth_chainId": lambda: quantity(chain.chain_id),
            "eth_accounts": lambda: self._accounts,
            "eth_syncing": lambda: False,
            "eth_mining": lambda: True,
            "eth_blockNumber": lambda: quantity(chain.head.block_number),
            "eth_getBalance": lambda account, tag="latest": quantity(
                self._state(tag).get_balance(Address(parse_address(account)))
            ),
            "eth_getCode": lambda account, tag="latest": data(
                self._state(tag).get_code(Address(parse_address(account)))
            ),
            "eth_getStorageAt": self._storage,
            "eth_getTransactionCount": self._transaction_count,
            "eth_call": self._call,
            "eth_estimateGas": self._estimate_gas,
            "eth_gasPrice": lambda: quantity(self._base_fee() + PRIORITY_FEE),
            "eth_maxPriorityFeePerGas": lambda: quantity(PRIORITY_FEE),
            "eth_feeHistory": self._fee_history,
            "eth_sendRawTransaction": self._send_raw_transaction,
            "eth_getTransactionByHash": self._transaction_by_hash,
            "eth_getTransactionReceipt": self._receipt,
            "eth_getBlockByNumber": self._block_by_number,
            "eth_getBlockByHash": self._block_by_hash,
            "eth_getBlockTransactionCountByNumber": self._count_by_number,
            "eth_getBlockReceipts": self._block_receipts,
            "eth_getLogs": self._logs,
            "evm_mine": self._mine,
            "evm_increaseTime": self._increase_time,
            "evm_setNextBlockTimestamp": self._set_next_block_timestamp,
            "evm_snapshot": self._snapshot,
            "evm_revert": self._revert,
        }

    # Blocks and state

    def _header(self, tag: Any) -> BlockHeaderAPI | None:
        """The header a block parameter names: a tag, a number, or EIP-1898's object. None: no such block."""
        if isinstance(tag, dict):
            if "blockHash" in tag:
                return self._chain.header(parse_hash(tag["blockHash"], "blockHash"))
            tag = tag.get("blockNumber")
        if tag in (None, "latest", "safe", "finalized", "pending"):
            return self._chain.head
        if tag == "earliest":
            return self._chain.header_at(0)
        return self._chain.header_at(parse_quantity(tag, "block", bits=64))

    def _known_header(self, tag: Any) -> BlockHeaderAPI:
        header = self._header(tag)
        if header is None:
            raise RpcError(FAILED, f"header not found: block {str(tag)[:80]}")
        return header

    def _state(self, tag: Any) -> StateAPI:
        """The state after a block; for `pending`, after the newest block but as if inside the next one."""
        if tag == "pending":
            return self._chain.state(self._chain.next_header(self._producer.next_timestamp()))
        return self._chain.state(self._known_header(tag))

    def _base_fee(self) -> int:
        return self._chain.head.base_fee_per_gas or 0

    def _storage(self, account: Any, slot: Any, tag: Any = "latest") -> str:
        value = self._state(tag).get_storage(Address(parse_address(account)), parse_quantity(slot, "slot"))
        return data(value.to_bytes(32, "big"))

    def _transaction_count(self, account: Any, tag: Any = "latest") -> str:
        sender = parse_address(account)
        nonce = self._state(tag).get_nonce(Address(sender))
        return quantity(self._pool.next_nonce(sender, nonce) if tag == "pending" else nonce)

    def _block_by_number(self, tag: Any, full: Any = False) -> views.Json | None:
        if tag == "pending":
            state = self._chain.state(self._chain.head)
            waiting = self._pool.executable(lambda sender: state.get_nonce(Address(sender)))
            header = self._chain.next_header(self._producer.next_timestamp())
            return views.pending_block_view(header, (item.body for item in waiting), full=bool(full))
        header_or_none = self._header(tag)
        return None if header_or_none is None else views.block_view(self._chain.block(header_or_none), full=bool(full))

    def _block_by_hash(self, block_hash: Any, full: Any = False) -> views.Json | None:
        header = self._chain.header(parse_hash(block_hash))
        return None if header is None else views.block_view(self._chain.block(header), full=bool(full))

    def _count_by_number(self, tag: Any) -> str | None:
        header = self._header(tag)
        return None if header is None else quantity(len(self._chain.block(header).transactions))

    def _block_receipts(self, tag: Any) -> list[views.Json] | None:
        header = self._header(tag)
        if header is None:
            return None
        block = self._chain.block(header)
        return [views.receipt_view(block, index) for index in range(len(block.receipts))]

    # Calls

    def _parse_call(self, value: Any, gas_limit: int) -> calls.Call:
        fields = parse_object(value, "call")
        payload = fields.get("input", fields.get("data")) or "0x"
        gas = parse_quantity(fields["gas"], "gas") if fields.get("gas") is not None else gas_limit
        return calls.Call(
            sender=parse_address(fields["from"], "from") if fields.get("from") else _ZERO_ADDRESS,
            to=parse_address(fields["to"], "to") if fields.get("to") else None,
            value=parse_quantity(fields.get("value") or 0, "value"),
            data=parse_data(payload, "input"),
            gas=min(gas, gas_limit),
        )

    def _run(self, work: Callable[[StateAPI, calls.Call], Any], call: Any, tag: Any) -> Any:
        state = self._state(tag)
        try:
            return work(state, self._parse_call(call, self._chain.head.gas_limit))
        except calls.CallFailed as error:
            if error.data is None:
                raise RpcError(FAILED, str(error)) from error
            raise RpcError(REVERTED, str(error), data(error.data)) from error
        except ValidationError as error:
            raise RpcError(FAILED, _known_reason(str(error))) from error

    def _call(self, call: Any, tag: Any = "latest", overrides: Any = None) -> str:
        if overrides:
            raise invalid("state overrides are not supported by the embedded chain")
        return data(self._run(calls.execute, call, tag))

    def _estimate_gas(self, call: Any, tag: Any = "latest") -> str:
        return quantity(self._run(calls.estimate, call, tag))

    def _fee_history(self, count: Any, newest: Any, percentiles: Any = None) -> views.Json:
        last = self._known_header(newest).block_number
        wanted = min(parse_quantity(count, "block count", bits=64), MAX_FEE_HISTORY, last + 1)
        numbers = range(last - wanted + 1, last + 1)
        headers = [self._known_header(quantity(number)) for number in numbers]
        history: views.Json = {
            "oldestBlock": quantity(numbers.start),
            "baseFeePerGas": [quantity(header.base_fee_per_gas or 0) for header in headers]
            + [quantity(self._base_fee())],
            "gasUsedRatio": [header.gas_used / header.gas_limit for header in headers],
        }
        if percentiles:
            reward = quantity(PRIORITY_FEE)
            history["reward"] = [[reward if header.gas_used else quantity(0)] * len(percentiles) for header in headers]
        return history

    # Transactions

    async def _send_raw_transaction(self, raw: Any) -> str:
        transaction = await asyncio.to_thread(self._accept, raw)
        self._producer.transaction_arrived()
        return data(transaction.hash)

    def _accept(self, raw: Any) -> Transaction:
        transaction = self._decode(parse_data(raw, "transaction"))
        head = self._chain.head
        if transaction.body.chain_id not in (None, self._chain.chain_id):
            raise RpcError(
                FAILED,
                f"invalid chain id for signer: have {transaction.body.chain_id} want {self._chain.chain_id}",
            )
        if transaction.gas > head.gas_limit:
            raise RpcError(FAILED, f"exceeds block gas limit: {transaction.gas} > {head.gas_limit}")
        if transaction.gas < (needed := _least_gas(transaction.body)):
            raise RpcError(FAILED, f"intrinsic gas too low: have {transaction.gas}, want {needed}")
        if transaction.max_fee < self._base_fee():
            raise RpcError(
                FAILED,
                f"max fee per gas less than block base fee: {transaction.max_fee} < {self._base_fee()}",
            )
        state = self._chain.state(head)
        sender = Address(transaction.sender)
        try:
            self._pool.add(transaction, account_nonce=state.get_nonce(sender), balance=state.get_balance(sender))
        except PoolError as error:
            raise RpcError(FAILED, str(error)) from error
        return transaction

    def _decode(self, raw: bytes) -> Transaction:
        try:
            transaction = self._chain.decode(raw)
        except (RLPException, UnrecognizedTransactionType, ValidationError, BadSignature) as error:
            raise RpcError(FAILED, _known_reason(f"invalid transaction: {error}")) from error
        if transaction.body.type_id == 3:
            raise RpcError(FAILED, "blob transactions are not supported by the embedded chain")
        return transaction

    def _transaction_by_hash(self, transaction_hash: Any) -> views.Json | None:
        wanted = parse_hash(transaction_hash)
        found = self._chain.find(wanted)
        if found is not None:
            return views.mined_transaction_view(*found)
        waiting = self._pool.get(wanted)
        return None if waiting is None else views.transaction_view(waiting.body)

    def _receipt(self, transaction_hash: Any) -> views.Json | None:
        found = self._chain.find(parse_hash(transaction_hash))
        return None if found is None else views.receipt_view(*found)

    def _logs(self, query: Any) -> list[views.Json]:
        fields = parse_object(query, "filter")
        wanted = LogFilter.parse(fields.get("address"), fields.get("topics"))
        results: list[views.Json] = []
        for header in self._filter_range(fields):
            if wanted.may_match(header):
                results.extend(wanted.select(self._chain.block(header)))
                check_size(results)
        return results

    def _filter_range(self, fields: Any) -> list[BlockHeaderAPI]:
        if fields.get("blockHash") is not None:
            header = self._chain.header(parse_hash(fields["blockHash"], "blockHash"))
            if header is None:
                raise RpcError(FAILED, "unknown block")
            return [header]
        last = self._chain.head.block_number
        first = self._filter_bound(fields.get("fromBlock", "latest"))
        final = min(self._filter_bound(fields.get("toBlock", "latest")), last)
        headers = (self._chain.header_at(number) for number in range(first, final + 1))
        return [header for header in headers if header is not None]

    def _filter_bound(self, tag: Any) -> int:
        if isinstance(tag, str) and not tag.startswith("0x"):
            return self._known_header(tag).block_number
        return parse_quantity(tag, "block", bits=64)

    # Time and snapshots, for tests

    async def _mine(self, options: Any = None) -> str:
        timestamp, blocks = options, 1
        if isinstance(options, dict):
            timestamp = options.get("timestamp")
            blocks = parse_quantity(options.get("blocks", 1), "blocks", bits=32)
        if not 1 <= blocks <= MAX_MINED_AT_ONCE:
            raise invalid(f"blocks must be 1 to {MAX_MINED_AT_ONCE}")
        try:
            await self._producer.mine(
                None if timestamp is None else parse_quantity(timestamp, "timestamp", bits=62), blocks
            )
        except ValueError as error:
            raise invalid(str(error)) from error
        return quantity(0)

    async def _increase_time(self, seconds: Any) -> int:
        self._producer.advance(parse_quantity(seconds, "seconds", bits=40))
        return int(self._producer.clock.offset)

    async def _set_next_block_timestamp(self, timestamp: Any) -> None:
        try:
            self._producer.set_next_timestamp(parse_quantity(timestamp, "timestamp", bits=62))
        except ValueError as error:
            raise invalid(str(error)) from error

    async def _snapshot(self) -> str:
        return quantity(self._producer.snapshot())

    async def _revert(self, number: Any) -> bool:
        return await self._producer.revert(parse_quantity(number, "snapshot", bits=64))


def _least_gas(transaction: SignedTransactionAPI) -> int:
    """What a transaction costs before it does anything; for much data, EIP-7623's floor."""
    zeros = transaction.data.count(0)
    tokens = zeros + (len(transaction.data) - zeros) * STANDARD_TOKEN_COST
    return max(transaction.intrinsic_gas, GAS_TX + TOTAL_COST_FLOOR_PER_TOKEN * tokens)


def _known_reason(message: str) -> str:
    """py-evm's words in those that Ethereum clients look for."""
    lowered = message.lower()
    if "afford" in lowered or "enough balance" in lowered or "insufficient funds" in lowered:
        return f"insufficient funds for gas * price + value: {message}"
    if "insufficient gas" in lowered or "gas cannot be negative" in lowered:
        return f"intrinsic gas too low: {message}"
    return message
