"""py-evm's chain object, without the parts that a single block producer does not need."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import rlp  # type: ignore[import-untyped]  # it ships no types
from eth.abc import BlockHeaderAPI, ReceiptAPI, SignedTransactionAPI, StateAPI
from eth.chains.base import Chain
from eth.constants import ZERO_HASH32
from eth.db.schema import SchemaV1
from eth.exceptions import HeaderNotFound, TransactionNotFound
from eth.rlp.sedes import chain_gaps
from eth.vm.chain_context import ChainContext
from eth.vm.forks.prague import PragueVM
from eth_typing import Address, BlockNumber, Hash32
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from hydra_node.devnet.embedded.pool import Waiting
from hydra_node.devnet.embedded.store import BlockStore, PendingWrites, ReadView
from hydra_node.errors import HydraError

GAS_LIMIT = 30_000_000
BASE_FEE = 7  # wei: the smallest that the fee rule neither lowers to zero nor moves while blocks are half empty
COINBASE = Address(bytes(12) + b"embedded")
_CHAIN_ID_KEY = b"hydra:chain-id"
_CACHED_BLOCKS = 512
_CACHED_HEADERS = 8192

Transaction = Waiting[SignedTransactionAPI]


class ChainMismatch(HydraError):
    """The data directory holds another chain than the one asked for."""


@dataclass(frozen=True, slots=True)
class Genesis:
    """What block 0 holds: time in Unix seconds, balances in wei."""

    chain_id: int
    timestamp: int
    balances: Mapping[bytes, int]
    gas_limit: int = GAS_LIMIT
    base_fee: int = BASE_FEE


@dataclass(frozen=True, slots=True)
class SealedBlock:
    """A block of the canonical chain with everything needed to show it."""

    header: BlockHeaderAPI
    transactions: tuple[SignedTransactionAPI, ...]
    receipts: tuple[ReceiptAPI, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Built:
    """A new head, and the transactions that turned out unfit, with the reason."""

    block: SealedBlock
    rejected: tuple[tuple[Transaction, str], ...]


class _Chain(Chain):
    vm_configuration = ((BlockNumber(0), PragueVM),)


class EvmChain:
    """One canonical chain. `build` and `rewind` by one thread at a time; everything else by any thread."""

    def __init__(self, store: BlockStore, chain_id: int) -> None:
        self.chain_id = chain_id
        self._store = store
        self._chain_class: type[Chain] = _Chain.configure("EmbeddedChain", chain_id=chain_id)
        self._reader = self._chain_class(ReadView(store))
        self._header_by_hash = lru_cache(maxsize=_CACHED_HEADERS)(self._reader.chaindb.get_block_header_by_hash)
        self._head = self._reader.get_canonical_head()
        self._cache: OrderedDict[Hash32, SealedBlock] = OrderedDict()
        self._cache_lock = threading.Lock()

    @classmethod
    def open(cls, store: BlockStore, genesis: Genesis) -> EvmChain:
        """Continue the chain in `store`, or begin one. Raises ChainMismatch when the store has another chain id."""
        if _CHAIN_ID_KEY in store:
            found = int.from_bytes(store[_CHAIN_ID_KEY], "big")
            if found != genesis.chain_id:
                raise ChainMismatch(
                    f"the data directory holds a chain with id {found}",
                    expected=f"chain id {genesis.chain_id}",
                    remedy=f"start with --chain-id {found} or choose another data directory",
                )
        else:
            _write_genesis(store, genesis)
        return cls(store, genesis.chain_id)

    @property
    def head(self) -> BlockHeaderAPI:
        return self._head

    def hash_at(self, number: int) -> Hash32 | None:
        if not 0 <= number <= self._head.block_number:
            return None
        return self._reader.chaindb.get_canonical_block_hash(BlockNumber(number))

    def header(self, block_hash: bytes) -> BlockHeaderAPI | None:
        """The header of a canonical block."""
        try:
            header = self._header_by_hash(Hash32(block_hash))
        except HeaderNotFound:
            return None
        return header if self.hash_at(header.block_number) == header.hash else None

    def header_at(self, number: int) -> BlockHeaderAPI | None:
        block_hash = self.hash_at(number)
        return None if block_hash is None else self._header_by_hash(block_hash)

    def block(self, header: BlockHeaderAPI) -> SealedBlock:
        with self._cache_lock:
            cached = self._cache.get(header.hash)
        if cached is not None:
            return cached
        block = self._reader.get_block_by_header(header)
        receipts = tuple(block.get_receipts(self._reader.chaindb))
        sealed = SealedBlock(header, tuple(block.transactions), receipts, len(rlp.encode(block)))
        self._remember(sealed)
        return sealed

    def find(self, transaction_hash: bytes) -> tuple[SealedBlock, int] | None:
        """The canonical block that holds a transaction, and its index in it."""
        try:
            number, index = self._reader.chaindb.get_transaction_index(Hash32(transaction_hash))
        except TransactionNotFound:
            return None
        header = self.header_at(number)
        return None if header is None else (self.block(header), index)

    def decode(self, raw: bytes) -> Transaction:
        """A signed transaction from its wire form. Raises ValidationError, rlp.DecodingError, BadSignature."""
        body = PragueVM.get_transaction_builder().decode(raw)
        body.validate()
        return Waiting(
            hash=body.hash,
            sender=body.sender,
            nonce=body.nonce,
            gas=body.gas,
            max_fee=body.max_fee_per_gas,
            tip=body.max_priority_fee_per_gas,
            cost=body.gas * body.max_fee_per_gas + body.value,
            body=body,
        )

    def state(self, header: BlockHeaderAPI, state_root: Hash32 | None = None) -> StateAPI:
        """The state after `header`'s block, to look at or to run calls on as if inside that block, free of fees."""
        free = header.copy(base_fee_per_gas=0, state_root=state_root or header.state_root)
        return PragueVM.build_state(
            self._reader.chaindb.db,
            free,
            ChainContext(self.chain_id),
            PragueVM.get_prev_hashes(header.parent_hash, self._reader.chaindb) or (),
        )

    def next_header(self, timestamp: int) -> BlockHeaderAPI:
        """The header that the next block starts from. Its randomness is the hash of what came before."""
        parent = self._head
        number = parent.block_number + 1
        return self._reader.create_header_from_parent(
            parent,
            timestamp=timestamp,
            gas_limit=parent.gas_limit,
            coinbase=COINBASE,
            mix_hash=keccak(parent.hash + number.to_bytes(8, "big")),
            parent_beacon_block_root=ZERO_HASH32,
        )

    def build(self, candidates: Sequence[Transaction], timestamp: int, budget: float) -> Built:
        """Execute candidates in order, seal a block, write it, and make it the head.

        After `budget` seconds or when the block is full the rest waits; at least one candidate is tried.
        """
        writes = PendingWrites(self._store)
        chain = self._chain_class(writes)
        header = self.next_header(timestamp)
        vm = chain.get_vm(header)
        taken: list[SignedTransactionAPI] = []
        receipts: list[ReceiptAPI] = []
        rejected: list[tuple[Transaction, str]] = []
        blocked: set[bytes] = set()
        deadline = time.monotonic() + budget
        for transaction in candidates:
            if transaction.sender in blocked:
                continue
            if header.gas_used + transaction.gas > header.gas_limit:
                blocked.add(transaction.sender)
                continue
            try:
                receipt, _ = vm.apply_transaction(header, transaction.body)
            except ValidationError as error:
                rejected.append((transaction, str(error)))
                blocked.add(transaction.sender)
            else:
                header = vm.add_receipt_to_header(header, receipt)
                taken.append(transaction.body)
                receipts.append(receipt)
            if time.monotonic() > deadline:
                break
        filled = vm.set_block_transactions_and_withdrawals(vm.get_block(), header, tuple(taken), tuple(receipts))
        block = vm.mine_block(filled).block
        chain.chaindb.persist_block(block)
        writes.commit()
        sealed = SealedBlock(block.header, tuple(taken), tuple(receipts), len(rlp.encode(block)))
        self._remember(sealed)
        self._head = block.header
        return Built(sealed, tuple(rejected))

    def rewind(self, block_hash: bytes) -> None:
        """Make an earlier canonical block the head again and forget the ones after it."""
        target = self.header(block_hash)
        if target is None:
            raise ValueError("not a block of the canonical chain")
        changes: dict[bytes, bytes | None] = {}
        for number in range(target.block_number + 1, self._head.block_number + 1):
            header = self.header_at(number)
            assert header is not None
            for transaction in self.block(header).transactions:
                changes[SchemaV1.make_transaction_hash_to_block_lookup_key(transaction.hash)] = None
            changes[SchemaV1.make_block_number_to_hash_lookup_key(BlockNumber(number))] = None
        changes[SchemaV1.make_canonical_head_hash_lookup_key()] = target.hash
        no_gaps = rlp.encode(((), target.block_number + 1), sedes=chain_gaps)
        changes[SchemaV1.make_header_chain_gaps_lookup_key()] = no_gaps
        changes[SchemaV1.make_chain_gaps_lookup_key()] = no_gaps
        self._store.write(changes)
        self._head = target

    def _remember(self, block: SealedBlock) -> None:
        with self._cache_lock:
            self._cache[block.header.hash] = block
            while len(self._cache) > _CACHED_BLOCKS:
                self._cache.popitem(last=False)


def _write_genesis(store: BlockStore, genesis: Genesis) -> None:
    writes = PendingWrites(store)
    chain_class: type[Chain] = _Chain.configure("EmbeddedChain", chain_id=genesis.chain_id)
    chain_class.from_genesis(
        writes,
        {
            "difficulty": 0,
            "gas_limit": genesis.gas_limit,
            "timestamp": genesis.timestamp,
            "base_fee_per_gas": genesis.base_fee,
            "coinbase": COINBASE,
        },
        {
            Address(address): {"balance": balance, "nonce": 0, "code": b"", "storage": {}}
            for address, balance in genesis.balances.items()
        },
    )
    writes[_CHAIN_ID_KEY] = genesis.chain_id.to_bytes(8, "big")
    writes.commit()
