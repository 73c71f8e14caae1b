"""Blocks, transactions, receipts and logs in the form of the Ethereum JSON-RPC specification."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from eth._utils.address import generate_contract_address
from eth.abc import BlockHeaderAPI, LogAPI, SignedTransactionAPI
from eth.constants import CREATE_CONTRACT_ADDRESS
from eth.vm.forks.prague.blocks import PragueBlockHeader
from eth_bloom.bloom import BloomFilter
from eth_typing import Address

from hydra_node.devnet.embedded.encoding import address, data, quantity
from hydra_node.devnet.embedded.evm import SealedBlock

Json = dict[str, Any]


def contract_address(sender: bytes, nonce: int) -> bytes:
    """Where a creation by `sender` with `nonce` puts its contract."""
    return generate_contract_address(Address(sender), nonce)


def header_view(header: BlockHeaderAPI) -> Json:
    return {
        "number": quantity(header.block_number),
        "hash": data(header.hash),
        "parentHash": data(header.parent_hash),
        "nonce": data(header.nonce),
        "mixHash": data(header.mix_hash),
        "sha3Uncles": data(header.uncles_hash),
        "logsBloom": data(header.bloom.to_bytes(256, "big")),
        "transactionsRoot": data(header.transaction_root),
        "stateRoot": data(header.state_root),
        "receiptsRoot": data(header.receipt_root),
        "miner": address(header.coinbase),
        "difficulty": quantity(header.difficulty),
        "totalDifficulty": quantity(0),
        "extraData": data(header.extra_data),
        "gasLimit": quantity(header.gas_limit),
        "gasUsed": quantity(header.gas_used),
        "timestamp": quantity(header.timestamp),
        "baseFeePerGas": quantity(header.base_fee_per_gas or 0),
        "withdrawalsRoot": data(header.withdrawals_root or b""),
        "blobGasUsed": quantity(header.blob_gas_used),
        "excessBlobGas": quantity(header.excess_blob_gas),
        "parentBeaconBlockRoot": data(header.parent_beacon_block_root or b""),
        "requestsHash": data(_requests_hash(header)),
        "uncles": [],
        "withdrawals": [],
    }


def block_view(block: SealedBlock, *, full: bool) -> Json:
    transactions: list[Any]
    if full:
        transactions = [mined_transaction_view(block, index) for index in range(len(block.transactions))]
    else:
        transactions = [data(transaction.hash) for transaction in block.transactions]
    return {**header_view(block.header), "size": quantity(block.size), "transactions": transactions}


def pending_block_view(header: BlockHeaderAPI, waiting: Iterable[SignedTransactionAPI], *, full: bool) -> Json:
    """The block being gathered: what has no value before sealing is null."""
    return {
        **header_view(header),
        "hash": None,
        "nonce": None,
        "logsBloom": None,
        "size": quantity(0),
        "transactions": [transaction_view(item) if full else data(item.hash) for item in waiting],
    }


def transaction_view(transaction: SignedTransactionAPI) -> Json:
    """A transaction outside any block."""
    kind = transaction.type_id or 0
    view: Json = {
        "hash": data(transaction.hash),
        "blockHash": None,
        "blockNumber": None,
        "transactionIndex": None,
        "type": quantity(kind),
        "nonce": quantity(transaction.nonce),
        "from": address(transaction.sender),
        "to": None if transaction.to == CREATE_CONTRACT_ADDRESS else address(transaction.to),
        "value": quantity(transaction.value),
        "gas": quantity(transaction.gas),
        "gasPrice": quantity(transaction.max_fee_per_gas),
        "input": data(transaction.data),
        "r": quantity(transaction.r),
        "s": quantity(transaction.s),
        "v": quantity(transaction.y_parity if kind else getattr(transaction, "v", transaction.y_parity)),
    }
    if kind:
        view["chainId"] = quantity(transaction.chain_id or 0)
        view["yParity"] = quantity(transaction.y_parity)
        view["accessList"] = [
            {"address": address(account), "storageKeys": [data(slot.to_bytes(32, "big")) for slot in slots]}
            for account, slots in transaction.access_list
        ]
    elif transaction.chain_id is not None:
        view["chainId"] = quantity(transaction.chain_id)
    if kind >= 2:
        view["maxFeePerGas"] = quantity(transaction.max_fee_per_gas)
        view["maxPriorityFeePerGas"] = quantity(transaction.max_priority_fee_per_gas)
    return view


def mined_transaction_view(block: SealedBlock, index: int) -> Json:
    transaction = block.transactions[index]
    return {
        **transaction_view(transaction),
        "blockHash": data(block.header.hash),
        "blockNumber": quantity(block.header.block_number),
        "transactionIndex": quantity(index),
        "gasPrice": quantity(_gas_price(block, transaction)),
    }


def receipt_view(block: SealedBlock, index: int) -> Json:
    transaction, receipt = block.transactions[index], block.receipts[index]
    before = block.receipts[index - 1].gas_used if index else 0
    created = transaction.to == CREATE_CONTRACT_ADDRESS
    return {
        "transactionHash": data(transaction.hash),
        "transactionIndex": quantity(index),
        "blockHash": data(block.header.hash),
        "blockNumber": quantity(block.header.block_number),
        "from": address(transaction.sender),
        "to": None if created else address(transaction.to),
        "contractAddress": address(contract_address(transaction.sender, transaction.nonce)) if created else None,
        "cumulativeGasUsed": quantity(receipt.gas_used),
        "gasUsed": quantity(receipt.gas_used - before),
        "effectiveGasPrice": quantity(_gas_price(block, transaction)),
        "type": quantity(transaction.type_id or 0),
        "status": quantity(1 if receipt.state_root == b"\x01" else 0),
        "logsBloom": data(receipt.bloom.to_bytes(256, "big")),
        "logs": log_views(block, index),
    }


def log_views(block: SealedBlock, index: int) -> list[Json]:
    """The logs of one transaction; their indices count through the whole block."""
    first = sum(len(receipt.logs) for receipt in block.receipts[:index])
    transaction = block.transactions[index]
    return [
        {
            "address": address(log.address),
            "topics": [data(topic) for topic in topics(log)],
            "data": data(log.data),
            "blockHash": data(block.header.hash),
            "blockNumber": quantity(block.header.block_number),
            "blockTimestamp": quantity(block.header.timestamp),
            "transactionHash": data(transaction.hash),
            "transactionIndex": quantity(index),
            "logIndex": quantity(first + position),
            "removed": False,
        }
        for position, log in enumerate(block.receipts[index].logs)
    ]


def topics(log: LogAPI) -> list[bytes]:
    return [topic.to_bytes(32, "big") for topic in log.topics]


def may_contain(header: BlockHeaderAPI, value: bytes) -> bool:
    """False when the header's Bloom filter rules an address or a topic out."""
    bits = _bloom_bits(value)
    return header.bloom & bits == bits


@lru_cache(maxsize=4096)
def _bloom_bits(value: bytes) -> int:
    return int(BloomFilter.from_iterable([value]))


def _requests_hash(header: BlockHeaderAPI) -> bytes:
    assert isinstance(header, PragueBlockHeader)
    return bytes(header.requests_hash)


def _gas_price(block: SealedBlock, transaction: SignedTransactionAPI) -> int:
    base_fee = block.header.base_fee_per_gas or 0
    return min(transaction.max_fee_per_gas, base_fee + transaction.max_priority_fee_per_gas)
