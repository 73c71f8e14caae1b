"""What happened on the chain: logs of all contracts in one request, decoded, each with its block's hash and time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra_node.chain.abi import EventAbi, load
from hydra_node.chain.codec import decode_values
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.rpc import Rpc, RpcError
from hydra_node.errors import HydraError

CHUNK_BLOCKS = 2_000
_TIMESTAMPS = 4_096
_REORG_RETRIES = 5


class UndecodableLog(HydraError):
    """A contract of the deployment wrote a log that its ABI does not know: another version lives there."""


class ChainUnsettled(HydraError):
    """The chain replaced blocks again and again while they were read."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `args` has the names of the Solidity declaration; `timestamp` is chain time; `block_hash` tells
    apart the same height before and after a reorganisation; (`block_hash`, `log_index`) is unique."""

    contract: str
    name: str
    args: Mapping[str, Any]
    block: int
    block_hash: bytes
    tx_hash: bytes
    tx_index: int
    log_index: int
    timestamp: int


class BlockReplaced(HydraError):
    """A block is no longer on the chain: it was replaced while it was read."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log as the node gave it, and the time of its block: what an `Event` is decoded from."""

    raw: Mapping[str, Any]
    timestamp: int


@dataclass(frozen=True, slots=True)
class Batch:
    """All logs of the blocks `first` to `last`, both included, in the order of the chain."""

    first: int
    last: int
    records: Sequence[LogRecord]


class BlockTimes:
    """The timestamps of blocks by their hashes; the recent ones are remembered."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._known: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, block_hash: str) -> int:
        """The time of a block. Raises `BlockReplaced` when the chain has no such block."""
        with self._lock:
            if block_hash in self._known:
                return self._known[block_hash]
        block = self._rpc.request("eth_getBlockByHash", block_hash, False)
        if block is None:
            raise BlockReplaced(f"the block {block_hash} is no longer on the chain")
        timestamp = int(block["timestamp"], 16)
        with self._lock:
            self._known[block_hash] = timestamp
            while len(self._known) > _TIMESTAMPS:
                self._known.popitem(last=False)
        return timestamp


class LogDecoder:
    """Turns the raw logs of a deployment's contracts into events."""

    def __init__(self, rpc: Rpc, deployment: Deployment) -> None:
        self.times = BlockTimes(rpc)
        self._contracts = {address.lower(): load(name) for name, address in deployment.addresses.items()}

    @property
    def addresses(self) -> list[str]:
        return list(self._contracts)

    def records(self, logs: Iterable[Mapping[str, Any]]) -> list[LogRecord]:
        """The raw JSON-RPC logs of the deployment's contracts, each with its time; those of others are left out.

        Raises `BlockReplaced` when a log's block is no longer on the chain.
        """
        ours = (log for log in logs if str(log["address"]).lower() in self._contracts and not log.get("removed"))
        return [LogRecord(log, self.times.at(log["blockHash"])) for log in ours]

    def decode(self, logs: Iterable[Mapping[str, Any]]) -> list[Event]:
        """The events in raw JSON-RPC logs. Raises `UndecodableLog`, `BlockReplaced`."""
        return [self.event(record) for record in self.records(logs)]

    def event(self, record: LogRecord) -> Event:
        """Raises `UndecodableLog`."""
        log = record.raw
        contract = self._contracts[str(log["address"]).lower()]
        topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
        event = contract.events.get(topics[0]) if topics else None
        if event is None:
            raise UndecodableLog(
                f"{contract.name} wrote a log that is not in its ABI (block {int(log['blockNumber'], 16)})",
                remedy="use the release that made the deployment",
            )
        return Event(
            contract=contract.name,
            name=event.name,
            args=_arguments(event, topics[1:], bytes.fromhex(log["data"][2:])),
            block=int(log["blockNumber"], 16),
            block_hash=bytes.fromhex(log["blockHash"][2:]),
            tx_hash=bytes.fromhex(log["transactionHash"][2:]),
            tx_index=int(log["transactionIndex"], 16),
            log_index=int(log["logIndex"], 16),
            timestamp=record.timestamp,
        )


class EventLog:
    """All events of a deployment, in the order of the chain, asked for in chunks of blocks.

    A chunk that the node finds too large is asked for again in smaller ones, which then grow back; `chunk` is the
    largest.
    """

    def __init__(self, rpc: Rpc, deployment: Deployment, *, chunk: int = CHUNK_BLOCKS) -> None:
        self._rpc = rpc
        self.first = deployment.block
        self._decoder = LogDecoder(rpc, deployment)
        self._largest = self._chunk = chunk

    def head(self) -> int:
        """The newest block's number."""
        return int(self._rpc.request("eth_blockNumber"), 16)

    def tip(self) -> tuple[int, str]:
        """The newest block's number, and its hash in hex."""
        block = self._rpc.request("eth_getBlockByNumber", "latest", False)
        return int(block["number"], 16), str(block["hash"])

    def block_hash(self, number: int) -> str | None:
        """The hash of a block in hex, None where the chain is shorter."""
        block = self._rpc.request("eth_getBlockByNumber", hex(number), False)
        return None if block is None else str(block["hash"])

    def event(self, record: LogRecord) -> Event:
        """Raises `UndecodableLog`."""
        return self._decoder.event(record)

    def poll(self, from_block: int, to_block: int | None = None) -> list[Event]:
        """The events of the blocks `from_block` to `to_block` (default: the newest), both included.

        Raises `RpcError`, `UndecodableLog`, `ChainUnsettled`.
        """
        last = self.head() if to_block is None else to_block
        return [self.event(record) for batch in self.batches(from_block, last) for record in batch.records]

    def batches(self, from_block: int, to_block: int) -> Iterator[Batch]:
        """The logs of the blocks `from_block` to `to_block`, chunk by chunk. Raises `RpcError`, `ChainUnsettled`."""
        start = max(from_block, self.first)
        while start <= to_block:
            end = min(to_block, start + self._chunk - 1)
            try:
                records = self._records(start, end)
            except RpcError:
                if self._chunk == 1:
                    raise
                self._chunk = max(1, self._chunk // 4)
                continue
            yield Batch(start, end, records)
            start = end + 1
            self._chunk = min(self._largest, self._chunk * 2)

    def _records(self, start: int, end: int) -> list[LogRecord]:
        query = {"address": self._decoder.addresses, "fromBlock": hex(start), "toBlock": hex(end)}
        for _ in range(_REORG_RETRIES):
            try:
                return self._decoder.records(self._rpc.request("eth_getLogs", query))
            except BlockReplaced:
                continue
        raise ChainUnsettled(f"blocks {start} to {end} were replaced {_REORG_RETRIES} times while they were read")


def _arguments(event: EventAbi, topics: list[bytes], data: bytes) -> dict[str, Any]:
    indexed = [param for param in event.params if param.indexed]
    plain = [param for param in event.params if not param.indexed]
    values = dict(zip((param.name for param in plain), decode_values(plain, data, event.name), strict=True))
    for param, topic in zip(indexed, topics, strict=True):
        # Of an indexed string, array or struct the chain keeps only the hash.
        hashed = param.type in {"string", "bytes"} or param.type.endswith("]") or bool(param.components)
        values[param.name] = topic if hashed else decode_values([param], topic, event.name)[0]
    return {param.name: values[param.name] for param in event.params}
