"""`eth_getLogs`: which blocks to look at, and which of their logs match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eth.abc import BlockHeaderAPI, LogAPI

from hydra_node.devnet.embedded import views
from hydra_node.devnet.embedded.encoding import RpcError, invalid, parse_address, parse_hash
from hydra_node.devnet.embedded.evm import SealedBlock

MAX_RESULTS = 10_000
MAX_ALTERNATIVES = 1_000


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Addresses (empty: any) and, for each topic position, the alternatives (empty: any)."""

    addresses: frozenset[bytes]
    topics: tuple[frozenset[bytes], ...]

    @classmethod
    def parse(cls, addresses: Any, topics: Any) -> LogFilter:
        """From the JSON forms of `address` and `topics`."""
        if topics is not None and (not isinstance(topics, list) or len(topics) > 4):
            raise invalid("topics must be a list of at most four positions")
        return cls(
            frozenset(parse_address(item) for item in _alternatives(addresses)),
            tuple(
                frozenset(parse_hash(item, "topic") for item in _alternatives(position)) for position in topics or ()
            ),
        )

    def may_match(self, header: BlockHeaderAPI) -> bool:
        """False when the block's Bloom filter rules a match out."""
        if not header.bloom:
            return False
        positions = (self.addresses, *self.topics)
        return all(
            not position or any(views.may_contain(header, value) for value in position) for position in positions
        )

    def matches(self, log: LogAPI) -> bool:
        if self.addresses and log.address not in self.addresses:
            return False
        found = views.topics(log)
        if len(self.topics) > len(found):
            return False
        return all(not position or found[index] in position for index, position in enumerate(self.topics))

    def select(self, block: SealedBlock) -> Iterator[views.Json]:
        for index, receipt in enumerate(block.receipts):
            if any(self.matches(log) for log in receipt.logs):
                shown = views.log_views(block, index)
                yield from (view for log, view in zip(receipt.logs, shown, strict=True) if self.matches(log))


def check_size(results: list[views.Json]) -> None:
    if len(results) > MAX_RESULTS:
        raise RpcError(-32005, f"query returned more than {MAX_RESULTS} results: ask for fewer blocks")


def _alternatives(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        return [value]
    if len(value) > MAX_ALTERNATIVES:
        raise invalid(f"more than {MAX_ALTERNATIVES} alternatives in a filter")
    return value
