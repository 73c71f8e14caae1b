"""Which nonce is next, whatever the node has counted and the outbox holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from hydra_node.chain.fees import Fees
from hydra_node.chain.nonces import NonceKeeper
from hydra_node.chain.outbox import Offer, Outbox
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.transactions import ContractCall

ADDRESS = "0x" + "11" * 20


@dataclass
class Node:
    """What a node says of one account."""

    counted: int = 0
    mined: set[str] = field(default_factory=set)

    def request(self, method: str, *params: Any) -> Any:
        if method == "eth_getTransactionCount":
            return hex(self.counted)
        assert method == "eth_getTransactionReceipt"
        return {"transactionHash": params[0]} if params[0] in self.mined else None


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox" / "account.sqlite")


def keeper(node: Node, outbox: Outbox, tmp_path: Path) -> NonceKeeper:
    return NonceKeeper(cast(Rpc, node), ADDRESS, outbox, tmp_path / "account.lock")


def sent(outbox: Outbox, nonce: int) -> tuple[int, str]:
    """A transaction on its way: its number, and its hash."""
    tx_hash = bytes([nonce]) * 32
    number = outbox.prepare(ContractCall("payment", ADDRESS, b"", value=1, gas=21_000)).number
    outbox.sign(number, nonce, Offer(tx_hash, b"raw", Fees(1, None)))
    return number, f"0x{tx_hash.hex()}"


def test_what_is_on_its_way_takes_its_nonce(outbox: Outbox, tmp_path: Path) -> None:
    sent(outbox, 0)
    sent(outbox, 1)
    assert keeper(Node(), outbox, tmp_path).next() == 2


def test_what_is_mined_takes_its_nonce_though_the_node_lags_behind(outbox: Outbox, tmp_path: Path) -> None:
    number, _ = sent(outbox, 0)
    outbox.mined(number, 7, b"\x07" * 32, final=False)
    assert keeper(Node(), outbox, tmp_path).next() == 1


def test_what_became_final_while_the_node_was_asked_takes_its_nonce(outbox: Outbox, tmp_path: Path) -> None:
    """The same bytes under the same nonce would pass for a second transaction that is there already."""
    number, tx_hash = sent(outbox, 0)
    outbox.mined(number, 7, b"\x07" * 32, final=True)
    assert keeper(Node(counted=0, mined={tx_hash}), outbox, tmp_path).next() == 1


def test_a_mined_failure_takes_its_nonce(outbox: Outbox, tmp_path: Path) -> None:
    number, tx_hash = sent(outbox, 0)
    outbox.failed(number, "it ran out of gas", block=7)
    assert keeper(Node(counted=0, mined={tx_hash}), outbox, tmp_path).next() == 1


def test_what_the_chain_has_taken_back_takes_no_nonce(outbox: Outbox, tmp_path: Path) -> None:
    number, _ = sent(outbox, 0)
    outbox.mined(number, 7, b"\x07" * 32, final=True)
    assert keeper(Node(), outbox, tmp_path).next() == 0


def test_others_who_send_from_the_account_are_counted(outbox: Outbox, tmp_path: Path) -> None:
    sent(outbox, 0)
    assert keeper(Node(counted=5), outbox, tmp_path).next() == 5
