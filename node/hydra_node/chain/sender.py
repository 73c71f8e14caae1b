"""Sending from one account: simulate, sign under the account's lock, send, wait, and see to what was left behind.

A call that the chain would refuse raises `Reverted` before anything is sent. A sent transaction that stays out of
blocks is offered again with higher fees under the same nonce, so that at most one of the offers is mined.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eth_utils.address import to_checksum_address

from hydra_node.chain.amounts import format_gas_price
from hydra_node.chain.deployment import chain_name
from hydra_node.chain.events import BlockReplaced, BlockTimes, LogDecoder
from hydra_node.chain.fees import Fees, market_fees
from hydra_node.chain.finality import finality_depth
from hydra_node.chain.inclusion import POLL_SECONDS, Inclusion
from hydra_node.chain.nonces import NonceKeeper
from hydra_node.chain.outbox import Entry, Offer, Outbox, TxState
from hydra_node.chain.reverts import Reverted
from hydra_node.chain.rpc import SEND, Rpc, RpcError, RpcUnavailable
from hydra_node.chain.simulation import Simulation
from hydra_node.chain.transactions import (
    TIMEOUT,
    ContractCall,
    FeeTooLow,
    NotPending,
    Receipt,
    Sent,
    Simulated,
    TransactionRejected,
    TransactionReplaced,
    TransactionTimeout,
)
from hydra_node.chain.wallet import Wallet

BUMP_SECONDS = 8.0
BUMP_BLOCKS = 4
_TRANSFER_GAS = 21_000
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
_SEND_ATTEMPTS = 5


class Sender:
    """Sends from one account. Thread-safe, and safe beside other processes that use the same `state_dir`.

    `decoder` turns the logs of receipts into events; without one receipts have none. A transaction that is in
    no block after `bump_seconds` and `bump_blocks` further blocks is offered again with higher fees: nodes do forget
    transactions, and prices rise. `max_fee` (wei per unit of gas) is the most that is ever offered; `finality` the
    blocks above a transaction that make it final, by default the chain's.
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
        max_fee: int | None = None,
        finality: int | None = None,
    ) -> None:
        self._rpc = rpc
        self._wallet = wallet
        self._bump_seconds = bump_seconds
        self._bump_blocks = bump_blocks
        self.max_fee = max_fee
        self._decoder = decoder
        self._times = decoder.times if decoder else BlockTimes(rpc)
        self._simulation = Simulation(rpc, wallet.address)
        self._inclusion = Inclusion(rpc, wallet.address)
        self._finality = finality_depth(rpc.chain_id) if finality is None else finality
        path = outbox_path(rpc, wallet.address, state_dir)
        self.outbox = Outbox(path)
        self._nonces = NonceKeeper(rpc, wallet.address, self.outbox, path.with_suffix(".lock"))
        self._settled = False

    @property
    def address(self) -> str:
        return self._wallet.address

    def decode_with(self, decoder: LogDecoder) -> None:
        """From now on receipts carry events."""
        self._decoder, self._times = decoder, decoder.times

    def send(
        self, call: ContractCall, *, key: str | None = None, timeout: float = TIMEOUT, confirmations: int = 0
    ) -> Receipt:
        """Simulate, send and wait. With a `key`, once only: asked again, also by a later process, it goes on with the
        transaction that is there.

        Raises `Reverted`, `InsufficientFunds`, `TransactionRejected`, `TransactionTimeout`, `TransactionReplaced`.
        """
        self._settle_once()
        entry = self.outbox.by_key(key) if key is not None else None
        if entry is not None and entry.offers:
            return self.wait(self._resumed(entry), timeout=timeout, confirmations=confirmations)
        return self.wait(self.submit(self.simulate(call, key=key)), timeout=timeout, confirmations=confirmations)

    def send_all(self, calls: Sequence[ContractCall], *, timeout: float = TIMEOUT) -> list[Receipt]:
        """Send calls that do not depend on one another, then wait for all: they may share a block.

        Each is simulated on the state before any of them. Raises what `send` raises, for the first that fails.
        """
        sent = [self.submit(simulated) for simulated in [self.simulate(call) for call in calls]]
        return [self.wait(each, timeout=timeout) for each in sent]

    def simulate(self, call: ContractCall, *, key: str | None = None) -> Simulated:
        """What the newest state says to the call. Raises `Reverted`."""
        number = self.outbox.prepare(call, key).number
        try:
            result, gas = self._simulation.run(call)
        except (Reverted, TransactionRejected) as error:
            self.outbox.failed(number, str(error))
            raise
        self.outbox.simulated(number, gas)
        return Simulated(call, result, gas, number)

    def submit(self, simulated: Simulated) -> Sent:
        """Send a simulated call without waiting for it. Raises `InsufficientFunds`, `TransactionRejected`."""
        self._settle_once()
        number = self._fresh_entry(simulated)
        fees = self._capped(market_fees(self._rpc))
        for attempt in range(_NONCE_ATTEMPTS):
            with self._nonces.held():
                nonce = self._nonces.next()
                try:
                    entry = self._offer(number, simulated.call, simulated.gas, nonce, fees)
                    return _sent(simulated, entry)
                except RpcError as error:
                    # Somebody sends from this account outside the lock: take the next nonce.
                    if attempt + 1 == _NONCE_ATTEMPTS or not error.says(_NONCE):
                        rejection = self._simulation.rejection(simulated.call, error)
                        self.outbox.failed(number, str(rejection))
                        raise rejection from None
                    self.outbox.withdraw(number)
        raise AssertionError("unreachable")

    def wait(self, sent: Sent, *, timeout: float = TIMEOUT, confirmations: int = 0) -> Receipt:
        """Wait until the transaction is in a block with `confirmations` blocks above it.

        Raises `Reverted` when it was mined but failed, `TransactionTimeout`, `TransactionReplaced`.
        """
        started = offered = time.monotonic()
        head = self._inclusion.head()
        while True:
            entry = self.outbox.entry(sent.number)
            raw = self._inclusion.mined(entry)
            if raw is not None and self._inclusion.is_deep(raw, confirmations):
                try:
                    return self._conclude(entry, raw)
                except BlockReplaced:
                    raw = None
            if entry.state is TxState.REPLACED:
                raise TransactionReplaced(entry.reason or "")
            now = time.monotonic()
            if now - started >= timeout:
                raise TransactionTimeout(_sent(sent.simulated, entry), timeout)
            late = raw is None and now - offered >= self._bump_seconds
            if late and self._inclusion.head() - head >= self._bump_blocks:
                self._raise_offer(entry)
                offered, head = now, self._inclusion.head()
            time.sleep(min(POLL_SECONDS, max(0.0, started + timeout - now)))

    # --- what was left behind ----------------------------------------------------------------------------------------

    def settle(self) -> list[Entry]:
        """See to every transaction that has not ended: send again what the chain has lost, note what was mined or
        replaced, give up what a dead process never sent. Returns those that are still on their way."""
        with self._nonces.held():
            for entry in self.outbox.in_state(TxState.PREPARED, TxState.SIMULATED):
                if entry.key is None and self.outbox.is_orphan(entry):
                    self.outbox.failed(entry.number, "the process that asked for it ended before it was sent")
            for entry in self.outbox.in_state(TxState.MINED, TxState.SENT):
                self._look_after(entry)
        return self.outbox.in_state(TxState.MINED, TxState.SENT)

    def bump(self, number: int, fees: Fees | None = None) -> Entry:
        """Offer more for a transaction that is not mined: `fees`, or a quarter more. Raises `FeeTooLow`,
        `NotPending`, `TransactionRejected`."""
        return self._compete(self._open_entry(number), fees, cancels=False)

    def cancel(self, number: int, fees: Fees | None = None) -> Entry:
        """Offer a transaction that does nothing under the same nonce. Whichever is mined first counts."""
        return self._compete(self._open_entry(number), fees, cancels=True)

    def next_offer(self, number: int) -> Fees:
        """What competing with the transaction's newest offer takes. Raises `NotPending`, `FeeTooLow`."""
        entry = self._open_entry(number)
        fees = entry.offers[-1].fees.raised(market_fees(self._rpc))
        if self._capped(fees) != fees:
            raise FeeTooLow(
                f"replacing {entry.call.title} costs {format_gas_price(fees.limit)}",
                expected=f"at most {format_gas_price(self.max_fee or 0)}",
                remedy="allow more with --max-fee or HYDRA_MAX_FEE, or wait",
            )
        return fees

    def _settle_once(self) -> None:
        if not self._settled:
            self._settled = True
            self.settle()

    def _look_after(self, entry: Entry) -> None:
        raw = self._inclusion.mined(entry)
        if raw is not None:
            try:
                self._conclude(entry, raw)
            except (Reverted, TransactionReplaced, BlockReplaced):
                return
        elif entry.state is TxState.MINED:
            self._send_again(self.outbox.unmined(entry.number))
        elif self._inclusion.is_taken(entry):
            self.outbox.replaced(entry.number, self._replacement(entry))
        else:
            self._send_again(entry)

    def _look_after_those_before(self, nonce: int) -> None:
        """A reorganisation may have dropped what was mined under a lower nonce: nothing later is mined then."""
        with self._nonces.held():
            for entry in self.outbox.in_state(TxState.MINED, TxState.SENT):
                if entry.nonce is not None and entry.nonce < nonce:
                    self._look_after(entry)

    def _send_again(self, entry: Entry) -> None:
        """The newest offer, byte for byte. A chain that does not want it any more may still have an older one."""
        offer = entry.offers[-1]
        if self._inclusion.knows(offer.tx_hash):
            return
        try:
            self._rpc.request(SEND, f"0x{offer.raw.hex()}")
        except RpcUnavailable:
            return
        except RpcError as error:
            offered = (each.tx_hash for each in entry.offers)
            if not error.says((*_KNOWN, *_NONCE)) and not any(map(self._inclusion.knows, offered)):
                self.outbox.failed(entry.number, str(self._simulation.rejection(entry.call, error)))

    def _resumed(self, entry: Entry) -> Sent:
        """A transaction that an earlier process, or an earlier attempt, has sent."""
        if entry.state is TxState.SENT:
            with self._nonces.held():
                self._look_after(self.outbox.entry(entry.number))
        return _sent(Simulated(entry.call, b"", entry.call.gas or 0, entry.number), entry)

    def _open_entry(self, number: int) -> Entry:
        entry = self.outbox.entry(number)
        if entry.state is not TxState.SENT:
            raise NotPending(f"transaction number {number} is {entry.state}", expected="one that is sent and not mined")
        return entry

    def _compete(self, entry: Entry, fees: Fees | None, *, cancels: bool) -> Entry:
        raised = fees or self.next_offer(entry.number)
        call = ContractCall(entry.call.title, self.address, b"", 0, _TRANSFER_GAS) if cancels else entry.call
        with self._nonces.held():
            try:
                return self._offer(
                    entry.number, call, call.gas or _TRANSFER_GAS, entry.nonce or 0, raised, cancels=cancels
                )
            except RpcError as error:
                if self._inclusion.mined(entry) is None and not error.says(_NONCE):
                    raise self._simulation.rejection(entry.call, error) from None
        return self.outbox.entry(entry.number)

    def _raise_offer(self, entry: Entry) -> None:
        """Offer a stuck transaction again for more, under the same nonce; not beyond the limit that was set. One that
        waits for those before it needs no higher price: they are seen to instead."""
        if entry.nonce is not None and self._inclusion.mined_count() < entry.nonce:
            self._look_after_those_before(entry.nonce)
            return
        try:
            entry = self._compete(entry, None, cancels=entry.offers[-1].cancels)
        except NotPending:
            return  # another process has seen it mined meanwhile
        except FeeTooLow:
            with self._nonces.held():
                self._send_again(entry)
        if self._inclusion.mined(entry) is None and self._inclusion.is_taken(entry):
            self.outbox.replaced(entry.number, self._replacement(entry))

    # --- one transaction ---------------------------------------------------------------------------------------------

    def _fresh_entry(self, simulated: Simulated) -> int:
        """The entry to send: a new one for what was not simulated here, or is sent a second time."""
        if simulated.number is not None:
            entry = self.outbox.entry(simulated.number)
            if entry.state is TxState.SIMULATED:
                return entry.number
        number = self.outbox.prepare(simulated.call).number
        return self.outbox.simulated(number, simulated.gas).number

    def _capped(self, fees: Fees) -> Fees:
        return fees if self.max_fee is None else fees.at_most(self.max_fee)

    def _offer(
        self, number: int, call: ContractCall, gas: int, nonce: int, fees: Fees, *, cancels: bool = False
    ) -> Entry:
        """Sign and send; the signed bytes reach the disk before they leave."""
        transaction: dict[str, Any] = {
            "chainId": self._rpc.chain_id,
            "nonce": nonce,
            "gas": gas,
            "value": call.value,
            "data": call.data,
            **fees.fields(),
        }
        if call.address is not None:
            transaction["to"] = call.address
        signed = self._wallet.sign_transaction(transaction)
        entry = self.outbox.sign(number, nonce, Offer(bytes(signed.hash), bytes(signed.raw), fees, cancels))
        for attempt in range(_SEND_ATTEMPTS):
            try:
                self._rpc.request(SEND, f"0x{signed.raw.hex()}")
                break
            except RpcUnavailable:
                # It may have arrived all the same, and must not be sent again then.
                if self._inclusion.knows(signed.hash):
                    break
                if attempt + 1 == _SEND_ATTEMPTS:
                    raise
            except RpcError as error:
                if not self._has_taken(signed.hash, nonce, error):
                    raise
                break
        return entry

    def _has_taken(self, tx_hash: bytes, nonce: int, error: RpcError) -> bool:
        """Whether the node has a transaction all the same that it answered with an error."""
        if error.says(_KNOWN):
            return True
        return self._inclusion.finds(tx_hash, nonce) if error.says(_NONCE) else self._inclusion.knows(tx_hash)

    def _replacement(self, entry: Entry) -> str:
        return str(
            TransactionReplaced(
                f"another transaction took the nonce {entry.nonce} of {self.address}, so {entry.call.title} "
                "will not be mined",
                remedy="check who else uses this account, then send again",
            )
        )

    def _conclude(self, entry: Entry, raw: Mapping[str, Any]) -> Receipt:
        """Note what the block says. Raises `Reverted`, `TransactionReplaced` for one that was cancelled."""
        block, tx_hash = int(raw["blockNumber"], 16), bytes.fromhex(raw["transactionHash"][2:])
        if any(offer.cancels and offer.tx_hash == tx_hash for offer in entry.offers):
            reason = f"{entry.call.title} was cancelled"
            self.outbox.replaced(entry.number, reason)
            raise TransactionReplaced(reason)
        if int(raw["status"], 16) != 1:
            failure = self._simulation.failure(entry.call, raw)
            self.outbox.failed(entry.number, str(failure), block=block)
            raise failure
        receipt = self._receipt(raw)
        if not entry.state.ended:
            final = self._inclusion.is_deep(raw, self._finality)
            self.outbox.mined(entry.number, block, receipt.block_hash, final=final)
        return receipt

    def _receipt(self, raw: Mapping[str, Any]) -> Receipt:
        return Receipt(
            tx_hash=bytes.fromhex(raw["transactionHash"][2:]),
            block=int(raw["blockNumber"], 16),
            block_hash=bytes.fromhex(raw["blockHash"][2:]),
            tx_index=int(raw["transactionIndex"], 16),
            timestamp=self._times.at(raw["blockHash"]),
            gas_used=int(raw["gasUsed"], 16),
            contract=_checksummed(raw.get("contractAddress")),
            events=tuple(self._decoder.decode(raw["logs"])) if self._decoder else (),
        )


def outbox_path(rpc: Rpc, address: str, state_dir: Path) -> Path:
    """The file of an account's transactions. A chain that is started anew has another: what was sent to the one before
    must never be sent to it."""
    return state_dir / "outbox" / f"{chain_name(rpc)}-{address.lower()}.sqlite"


def _sent(simulated: Simulated, entry: Entry) -> Sent:
    assert entry.nonce is not None
    return Sent(simulated, entry.number, entry.nonce, tuple(offer.tx_hash for offer in entry.offers))


def _checksummed(address: str | None) -> str | None:
    return to_checksum_address(address) if address else None
