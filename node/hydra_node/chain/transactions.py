"""Transactions, state by state, and what may become of them.

    ContractCall -> Simulated -> Sent -> Receipt

`sender` takes them from one to the next, `outbox` keeps them on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hydra_node.chain.events import Event
from hydra_node.errors import HydraError

TIMEOUT = 120.0


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
            remedy="it may still be mined: see hydra-node tx list before sending again",
        )


class TransactionReplaced(HydraError):
    """Another transaction of the account took the nonce, or it was cancelled; this one will never be mined."""


class NotPending(HydraError):
    """A transaction that is not sent, or is mined already, cannot be bumped or cancelled."""


class FeeTooLow(HydraError):
    """A transaction stays out of blocks, and raising its fee would cost more than the limit that was set."""


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
    """A call that the newest state accepts; `result` is what it returned, `gas` the limit to send with, `number` its
    entry in the outbox, if it has one already."""

    call: ContractCall
    result: bytes
    gas: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction that is on its way. `number` is its entry in the outbox; `hashes` has one hash for each offer of
    fees, the newest last."""

    simulated: Simulated
    number: int
    nonce: int
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
