"""Transactions, state by state: a call is simulated, sent under the account's lock, and waited for.

    ContractCall -> Simulated -> Sent -> Receipt

A call that the chain would refuse raises `Reverted` before anything is sent. A sent transaction that stays out of
blocks is sent again with higher fees under the same nonce, so that at most one of them is mined.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hydra_node.chain.events import BlockReplaced, BlockTimes, Event, LogDecoder
from hydra_node.chain.fees import Fees, market_fees
from hydra_node.chain.nonces import LastSent, NonceKeeper
from hydra_node.chain.reverts import Reverted, revert_data, reverted
from hydra_node.chain.rpc import SEND, Rpc, RpcError, RpcUnavailable
from hydra_node.chain.wallet import Wallet
from hydra_node.errors import HydraError

TIMEOUT = 120.0
POLL_SECONDS = 0.1
BUMP_SECONDS = 8.0
BUMP_BLOCKS = 4
_GAS_MARGIN = (6, 5)
_NONCE_ATTEMPTS = 5
_KNOWN = ("already known", "already imported", "known transaction", "alreadyknown")
_NONCE = (
    "nonce too low",
    "nonce is too low",
    "correct nonce",
    "invalid nonce",
    "incorrect nonce",
    "can't be replaced, mining has already started",
)
_OURS_SECONDS = 10.0
_SEND_ATTEMPTS = 5


class TransactionRejected(HydraError):
    """The node did not take the transaction."""


class InsufficientFunds(TransactionRejected):
    """The account cannot pay for the gas (or the value) of the transaction."""


class TransactionTimeout(HydraError):
    """The transaction was not mined within the wait; it may still be. `sent` can be waited for again."""

    def __init__(self, sent: Sent, timeout: float) -> None:
        self.sent = sent
        super().__init__(
            f"{sent.simulated.call.title} was sent but not mined within {timeout:g} s "
            f"(transaction 0x{sent.hashes[-1].hex()})",
            remedy="it may still be mined; check the chain before sending again",
        )


class TransactionReplaced(HydraError):
    """Another transaction of the account took the nonce; this one will never be mined."""


class EventMissing(HydraError):
    """A transaction did not write the event it was expected to write."""


@dataclass(frozen=True, slots=True)
class ContractCall:
    """A call that is to become a transaction. `address` None creates a contract; `value` is in wei of the chain's own
    coin; `gas` given skips the estimate. `title` names the call in errors: JobEscrow.open."""

    title: str
    address: str | None
    data: bytes = field(repr=False)
    value: int = 0
    gas: int | None = None


@dataclass(frozen=True, slots=True)
class Simulated:
    """A call that the newest state accepts; `result` is what it returned, `gas` the limit to send with."""

    call: ContractCall
    result: bytes
    gas: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction that the node has taken. `hashes` has one entry for each offer of fees, the newest last."""

    simulated: Simulated
    nonce: int
    fees: Fees
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Receipt:
    """A mined, successful transaction. `contract` is the address it created, if any; `timestamp` is chain time."""

    tx_hash: bytes
    block: int
    block_hash: bytes
    tx_index: int
    timestamp: int
    gas_used: int
    contract: str | None
    events: tuple[Event, ...]

    def event(self, name: str) -> Event:
        """The first event of that name. Raises `EventMissing`."""
        for event in self.events:
            if event.name == name:
                return event
        seen = ", ".join(event.name for event in self.events) or "none"
        raise EventMissing(
            f"transaction 0x{self.tx_hash.hex()} wrote no event {name}", expected=f"one; it wrote {seen}"
        )


class Sender:
    """Sends from one account. Thread-safe, and safe beside other processes that use the same `state_dir`.

    `decoder` turns the logs of receipts into events; without one receipts have none. A transaction that is in
    no block after `bump_seconds` and `bump_blocks` further blocks is offered again with higher fees: nodes do forget
    transactions, and prices rise.
    """

    def __init__(
        self,
        rpc: Rpc,
        wallet: Wallet,
        state_dir: Path,
        *,
        decoder: LogDecoder | None = None,
        bump_seconds: float = BUMP_SECONDS,
        bump_blocks: int = BUMP_BLOCKS,
    ) -> None:
        self._rpc = rpc
        self._wallet = wallet
        self._state_dir = state_dir
        self._decoder = decoder
        self._bump_seconds = bump_seconds
        self._bump_blocks = bump_blocks
        self._times = decoder.times if decoder else BlockTimes(rpc)
        self._nonces = NonceKeeper(rpc, wallet.address, state_dir / "nonces")

    @property
    def address(self) -> str:
        return self._wallet.address

    def decoding(self, decoder: LogDecoder) -> Sender:
        """The same sender, whose receipts carry events."""
        return Sender(
            self._rpc,
            self._wallet,
            self._state_dir,
            decoder=decoder,
            bump_seconds=self._bump_seconds,
            bump_blocks=self._bump_blocks,
        )

    def send(self, call: ContractCall, *, timeout: float = TIMEOUT, confirmations: int = 0) -> Receipt:
        """Simulate, send and wait.

        Raises `Reverted`, `InsufficientFunds`, `TransactionRejected`, `TransactionTimeout`, `TransactionReplaced`.
        """
        return self.wait(self.submit(self.simulate(call)), timeout=timeout, confirmations=confirmations)

    def send_all(self, calls: Sequence[ContractCall], *, timeout: float = TIMEOUT) -> list[Receipt]:
        """Send calls that do not depend on one another, then wait for all: they may share a block.

        Each is simulated on the state before any of them. Raises what `send` raises, for the first that fails.
        """
        sent = [self.submit(simulated) for simulated in [self.simulate(call) for call in calls]]
        return [self.wait(each, timeout=timeout) for each in sent]

    def simulate(self, call: ContractCall) -> Simulated:
        """What the newest state says to the call. Raises `Reverted`."""
        fields = self._fields(call)
        result = b""
        if call.address is not None:
            result = bytes.fromhex(self._try(call, "eth_call", fields, "latest")[2:])
        if call.gas is not None:
            return Simulated(call, result, call.gas)
        times, over = _GAS_MARGIN
        return Simulated(call, result, int(self._try(call, "eth_estimateGas", fields, "latest"), 16) * times // over)

    def submit(self, simulated: Simulated) -> Sent:
        """Send a simulated call without waiting for it. Raises `InsufficientFunds`, `TransactionRejected`."""
        fees = market_fees(self._rpc)
        for attempt in range(_NONCE_ATTEMPTS):
            with self._nonces.held():
                nonce = self._nonces.next()
                try:
                    return Sent(simulated, nonce, fees, (self._offer(simulated, nonce, fees),))
                except RpcError as error:
                    # Somebody sends from this account outside the lock: take the next nonce.
                    if attempt + 1 == _NONCE_ATTEMPTS or not _says(error, _NONCE):
                        raise _rejection(error, simulated.call, self.address) from None
        raise AssertionError("unreachable")

    def wait(self, sent: Sent, *, timeout: float = TIMEOUT, confirmations: int = 0) -> Receipt:
        """Wait until the transaction is in a block with `confirmations` blocks above it.

        Raises `Reverted` when it was mined but failed, `TransactionTimeout`, `TransactionReplaced`.
        """
        started = offered = time.monotonic()
        head = self._head()
        while True:
            raw = self._mined(sent)
            if raw is not None and self._is_deep(raw, confirmations):
                try:
                    return self._receipt(sent, raw)
                except BlockReplaced:
                    raw = None
            now = time.monotonic()
            if now - started >= timeout:
                raise TransactionTimeout(sent, timeout)
            late = raw is None and now - offered >= self._bump_seconds
            if late and self._head() - head >= self._bump_blocks:
                sent, offered, head = self._bump(sent), now, self._head()
            time.sleep(min(POLL_SECONDS, max(0.0, started + timeout - now)))

    def _fields(self, call: ContractCall) -> dict[str, str]:
        fields = {"from": self.address, "data": f"0x{call.data.hex()}"}
        if call.address is not None:
            fields["to"] = call.address
        if call.value:
            fields["value"] = hex(call.value)
        return fields

    def _try(self, call: ContractCall, method: str, *params: Any) -> str:
        try:
            return str(self._rpc.request(method, *params))
        except RpcError as error:
            data = revert_data(error)
            if data is None:
                raise _rejection(error, call, self.address) from None
            raise reverted(call.title, data, error.message) from None

    def _offer(self, simulated: Simulated, nonce: int, fees: Fees) -> bytes:
        """Sign and send; the note of the nonce reaches the disk before the transaction leaves."""
        call = simulated.call
        transaction: dict[str, Any] = {
            "chainId": self._rpc.chain_id,
            "nonce": nonce,
            "gas": simulated.gas,
            "value": call.value,
            "data": call.data,
            **fees.fields(),
        }
        if call.address is not None:
            transaction["to"] = call.address
        signed = self._wallet.sign_transaction(transaction)
        self._nonces.note(LastSent(nonce, f"0x{signed.hash.hex()}"))
        for attempt in range(_SEND_ATTEMPTS):
            try:
                self._rpc.request(SEND, f"0x{signed.raw.hex()}")
                break
            except RpcUnavailable:
                # It may have arrived all the same, and must not be sent again then.
                if self._is_ours(signed.hash, nonce, wait=False):
                    break
                if attempt + 1 == _SEND_ATTEMPTS:
                    raise
            except RpcError as error:
                if not _says(error, _KNOWN) and not self._is_ours(signed.hash, nonce, wait=_says(error, _NONCE)):
                    raise
                break
        return signed.hash

    def _is_ours(self, tx_hash: bytes, nonce: int, *, wait: bool) -> bool:
        """Whether the node has the transaction that it just refused.

        A repeated request can meet its own first copy, waiting or mined, and then some nodes say that the nonce is too
        low; some show a transaction only when its block is saved: with `wait`, ask until the nonce is used.
        """
        deadline = time.monotonic() + _OURS_SECONDS
        while True:
            used = int(self._rpc.request("eth_getTransactionCount", self.address, "latest"), 16) > nonce
            if self._rpc.request("eth_getTransactionByHash", f"0x{tx_hash.hex()}"):
                return True
            if used or not wait or time.monotonic() >= deadline:
                return False
            # JSON-RPC over HTTP tells of nothing by itself: it has to be asked, as in `wait`.
            time.sleep(POLL_SECONDS)

    def _bump(self, sent: Sent) -> Sent:
        """Offer a stuck transaction again for more, under the same nonce."""
        with self._nonces.held():
            fees = sent.fees.raised(market_fees(self._rpc))
            try:
                return replace(sent, fees=fees, hashes=(*sent.hashes, self._offer(sent.simulated, sent.nonce, fees)))
            except RpcError as error:
                if not _says(error, _NONCE):
                    raise _rejection(error, sent.simulated.call, self.address) from None
        if self._mined(sent) is None:
            raise TransactionReplaced(
                f"another transaction took the nonce {sent.nonce} of {self.address}, so {sent.simulated.call.title} "
                "will not be mined",
                remedy="check who else uses this account, then send again",
            )
        return sent

    def _mined(self, sent: Sent) -> Mapping[str, Any] | None:
        for tx_hash in reversed(sent.hashes):
            raw: Mapping[str, Any] | None = self._rpc.request("eth_getTransactionReceipt", f"0x{tx_hash.hex()}")
            if raw is not None and raw.get("blockHash"):
                return raw
        return None

    def _is_deep(self, raw: Mapping[str, Any], confirmations: int) -> bool:
        if not confirmations:
            return True
        return self._head() - int(raw["blockNumber"], 16) >= confirmations

    def _head(self) -> int:
        return int(self._rpc.request("eth_blockNumber"), 16)

    def _receipt(self, sent: Sent, raw: Mapping[str, Any]) -> Receipt:
        if int(raw["status"], 16) != 1:
            raise self._failure(sent, raw)
        return Receipt(
            tx_hash=bytes.fromhex(raw["transactionHash"][2:]),
            block=int(raw["blockNumber"], 16),
            block_hash=bytes.fromhex(raw["blockHash"][2:]),
            tx_index=int(raw["transactionIndex"], 16),
            timestamp=self._times.at(raw["blockHash"]),
            gas_used=int(raw["gasUsed"], 16),
            contract=raw.get("contractAddress"),
            events=tuple(self._decoder.decode(raw["logs"])) if self._decoder else (),
        )

    def _failure(self, sent: Sent, raw: Mapping[str, Any]) -> Reverted:
        """Why a mined transaction failed, by repeating it on the state of its block."""
        call, tx_hash = sent.simulated.call, str(raw["transactionHash"])
        if int(raw["gasUsed"], 16) >= sent.simulated.gas:
            return reverted(call.title, b"", "it ran out of gas", transaction=tx_hash)
        try:
            self._rpc.request("eth_call", self._fields(call), raw["blockNumber"])
        except RpcError as error:
            return reverted(call.title, revert_data(error) or b"", error.message, transaction=tx_hash)
        return reverted(call.title, b"", "the state changed before it was mined", transaction=tx_hash)


def _says(error: RpcError, phrases: tuple[str, ...]) -> bool:
    return any(phrase in error.message.lower() for phrase in phrases)


def _rejection(error: RpcError, call: ContractCall, address: str) -> TransactionRejected:
    if _says(error, ("insufficient funds", "insufficient balance", "enough funds", "enough balance")):
        return InsufficientFunds(
            f"{address} cannot pay for {call.title}", remedy="send it some of the chain's own coin for gas"
        )
    return TransactionRejected(f"the chain did not take {call.title} ({' '.join(error.message.split())[:300]})")
