"""What the chain knows of an account's transactions: which it has, which it has mined, how deep below its head."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hydra_node.chain.outbox import Entry
from hydra_node.chain.rpc import Rpc

POLL_SECONDS = 0.1
_SAVING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Asks the node behind `rpc` about the transactions of `address`."""

    rpc: Rpc
    address: str

    def head(self) -> int:
        """The number of the newest block."""
        return int(self.rpc.request("eth_blockNumber"), 16)

    def mined_count(self) -> int:
        """How many of the account's transactions are mined: the nonce of the next to be."""
        return int(self.rpc.request("eth_getTransactionCount", self.address, "latest"), 16)

    def knows(self, tx_hash: bytes) -> bool:
        """Whether the node has the transaction, waiting or mined."""
        return bool(self.rpc.request("eth_getTransactionByHash", f"0x{tx_hash.hex()}"))

    def mined(self, entry: Entry) -> Mapping[str, Any] | None:
        """The raw receipt of whichever offer was mined, the newest first; None while none is."""
        for offer in reversed(entry.offers):
            raw: Mapping[str, Any] | None = self.rpc.request("eth_getTransactionReceipt", f"0x{offer.tx_hash.hex()}")
            if raw is not None and raw.get("blockHash"):
                return raw
        return None

    def is_taken(self, entry: Entry) -> bool:
        """Whether the nonce is used, and by none of the offers."""
        return entry.nonce is not None and self.mined_count() > entry.nonce and self.mined(entry) is None

    def is_deep(self, mined: Mapping[str, Any], blocks: int) -> bool:
        """Whether a raw receipt's block has at least `blocks` above it."""
        return not blocks or self.head() - int(mined["blockNumber"], 16) >= blocks

    def finds(self, tx_hash: bytes, nonce: int) -> bool:
        """Whether the node has the transaction, or shows it once it has saved the block that used its nonce.

        A repeated request can meet its own first copy, waiting or mined, and then some nodes say that the nonce is too
        low although they show no such transaction yet.
        """
        deadline = time.monotonic() + _SAVING_SECONDS
        while True:
            used = self.mined_count() > nonce
            if self.knows(tx_hash):
                return True
            if used or time.monotonic() >= deadline:
                return False
            # JSON-RPC over HTTP tells of nothing by itself: it has to be asked.
            time.sleep(POLL_SECONDS)
