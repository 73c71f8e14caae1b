"""The embedded chain in memory: blocks, times, state, calls, rewinding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_typing import Address

from hydra_node.devnet.embedded import calls
from hydra_node.devnet.embedded.evm import ChainMismatch, EvmChain, Genesis, Transaction
from hydra_node.devnet.embedded.store import BlockStore, DatabaseUnusable, DataDirLocked, PendingWrites
from hydra_node.devnet.embedded.views import contract_address

START = 1_700_000_000
ETHER = 10**18
CHAIN_ID = 99
SINK = bytes.fromhex("11" * 20)

# Runtime codes of contracts that do one thing.
RANDAO = "4460005260206000f3"  # return PREVRANDAO
TIMESTAMP = "4260005260206000f3"  # return TIMESTAMP
REVERT = "63deadbeef60e01b60005260046000fd"  # revert with the selector 0xdeadbeef


def creation(runtime: str) -> bytes:
    """Init code that copies the code after itself and returns it."""
    size = len(runtime) // 2
    return bytes.fromhex(f"60{size:02x}600c60003960{size:02x}6000f3{runtime}")


@pytest.fixture
def alice() -> LocalAccount:
    account: LocalAccount = Account.from_key(b"\x01" * 32)
    return account


@pytest.fixture
def chain(alice: LocalAccount) -> EvmChain:
    return EvmChain.open(BlockStore(None), genesis(alice))


def genesis(owner: LocalAccount, chain_id: int = CHAIN_ID) -> Genesis:
    return Genesis(chain_id, START, {bytes.fromhex(owner.address[2:]): 100 * ETHER})


def signed(chain: EvmChain, owner: LocalAccount, nonce: int, **fields: Any) -> Transaction:
    transaction = {
        "type": 2,
        "chainId": CHAIN_ID,
        "nonce": nonce,
        "gas": 21_000,
        "maxFeePerGas": 10**9,
        "maxPriorityFeePerGas": 1,
        "to": "0x" + SINK.hex(),
        "value": 1,
        **fields,
    }
    if transaction["to"] is None:
        del transaction["to"]
    return chain.decode(bytes(owner.sign_transaction(transaction).raw_transaction))


def balance(chain: EvmChain, account: bytes) -> int:
    return chain.state(chain.head).get_balance(Address(account))


def deployed(chain: EvmChain, owner: LocalAccount, runtime: str) -> bytes:
    nonce = chain.state(chain.head).get_nonce(Address(bytes.fromhex(owner.address[2:])))
    code = creation(runtime)
    chain.build(
        [signed(chain, owner, nonce, to=None, value=0, data=code, gas=200_000)], chain.head.timestamp + 1, budget=5
    )
    return contract_address(bytes.fromhex(owner.address[2:]), nonce)


def call(chain: EvmChain, to: bytes) -> bytes:
    return calls.execute(chain.state(chain.head), calls.Call(SINK, to, 0, b"", 100_000))


def test_a_block_runs_transactions_in_order_and_carries_the_given_time(chain: EvmChain, alice: LocalAccount) -> None:
    built = chain.build([signed(chain, alice, nonce) for nonce in range(5)], START + 7, budget=5)
    assert [receipt.state_root for receipt in built.block.receipts] == [b"\x01"] * 5
    assert (chain.head.block_number, chain.head.timestamp) == (1, START + 7)
    assert balance(chain, SINK) == 5
    assert built.rejected == ()


def test_an_unfit_transaction_is_named_and_the_rest_of_its_sender_waits(chain: EvmChain, alice: LocalAccount) -> None:
    bob = Account.from_key(b"\x02" * 32)
    pauper = signed(chain, bob, 0)
    built = chain.build([pauper, signed(chain, bob, 1), signed(chain, alice, 0)], START + 1, budget=5)
    assert [transaction.hash for transaction, _ in built.rejected] == [pauper.hash]
    assert "afford" in built.rejected[0][1]
    assert len(built.block.transactions) == 1


def test_a_full_block_leaves_the_rest_for_the_next(chain: EvmChain, alice: LocalAccount) -> None:
    half = chain.head.gas_limit * 2 // 3
    candidates = [signed(chain, alice, nonce, gas=gas) for nonce, gas in enumerate((half, chain.head.gas_limit))]
    first = chain.build(candidates, START + 1, budget=5)
    assert [transaction.hash for transaction in first.block.transactions] == [candidates[0].hash]
    second = chain.build(candidates[1:], START + 2, budget=5)
    assert [transaction.hash for transaction in second.block.transactions] == [candidates[1].hash]


def test_without_time_left_one_transaction_still_runs(chain: EvmChain, alice: LocalAccount) -> None:
    built = chain.build([signed(chain, alice, nonce) for nonce in range(3)], START + 1, budget=0)
    assert len(built.block.transactions) == 1


def test_time_must_rise(chain: EvmChain) -> None:
    with pytest.raises(Exception, match="timestamp must be strictly later"):
        chain.build([], START, budget=1)
    assert chain.head.block_number == 0


def test_the_base_fee_stays_low_and_empty_blocks_do_not_move_it(chain: EvmChain, alice: LocalAccount) -> None:
    for number in range(1, 6):
        chain.build([signed(chain, alice, number // 2)] if number % 2 else [], START + number, budget=5)
        assert chain.head.base_fee_per_gas == 7


def test_each_block_has_randomness_of_its_own(chain: EvmChain, alice: LocalAccount) -> None:
    contract = deployed(chain, alice, RANDAO)
    seen = set()
    for second in range(1, 4):
        chain.build([], chain.head.timestamp + second, budget=1)
        seen.add(call(chain, contract))
    assert len(seen) == 3
    assert bytes(32) not in seen


def test_a_call_sees_the_time_of_the_newest_block(chain: EvmChain, alice: LocalAccount) -> None:
    contract = deployed(chain, alice, TIMESTAMP)
    chain.build([], START + 1234, budget=1)
    assert int.from_bytes(call(chain, contract), "big") == START + 1234


def test_a_revert_keeps_its_data(chain: EvmChain, alice: LocalAccount) -> None:
    contract = deployed(chain, alice, REVERT)
    with pytest.raises(calls.CallFailed, match="execution reverted") as failure:
        call(chain, contract)
    assert failure.value.data == bytes.fromhex("deadbeef")


def test_an_estimate_is_enough_and_one_less_is_not(chain: EvmChain, alice: LocalAccount) -> None:
    sender = bytes.fromhex(alice.address[2:])
    for wanted in (
        calls.Call(sender, SINK, 1, b"", 1_000_000),
        calls.Call(sender, None, 0, creation(TIMESTAMP), 1_000_000),
    ):
        state = chain.state(chain.head)
        gas = calls.estimate(state, wanted)
        calls.execute(state, calls.Call(wanted.sender, wanted.to, wanted.value, wanted.data, gas))
        with pytest.raises(Exception, match=r"OutOfGas|gas cannot be negative"):
            calls.execute(state, calls.Call(wanted.sender, wanted.to, wanted.value, wanted.data, gas - 1))


def test_estimating_changes_nothing(chain: EvmChain, alice: LocalAccount) -> None:
    sender = bytes.fromhex(alice.address[2:])
    state = chain.state(chain.head)
    before = state.get_balance(Address(sender))
    calls.estimate(state, calls.Call(sender, SINK, ETHER, b"", 1_000_000))
    assert state.get_balance(Address(sender)) == before
    assert state.get_nonce(Address(sender)) == 0


def test_rewinding_brings_back_state_and_forgets_later_blocks(chain: EvmChain, alice: LocalAccount) -> None:
    chain.build([signed(chain, alice, 0)], START + 1, budget=5)
    kept = chain.head
    lost = chain.build([signed(chain, alice, 1, value=50)], START + 2, budget=5).block
    chain.build([], START + 3, budget=5)
    chain.rewind(kept.hash)
    assert (chain.head.hash, balance(chain, SINK)) == (kept.hash, 1)
    assert chain.find(lost.transactions[0].hash) is None
    assert chain.header(lost.header.hash) is None
    assert chain.hash_at(2) is None


def test_a_rewound_chain_goes_on_differently(chain: EvmChain, alice: LocalAccount) -> None:
    start = chain.head.hash
    for round_number in range(3):
        again = signed(chain, alice, 0, value=10 + round_number)
        chain.build([again], START + 1, budget=5)
        chain.build([], START + 2, budget=5)
        found = chain.find(again.hash)
        assert found is not None and found[0].header.block_number == 1
        assert balance(chain, SINK) == 10 + round_number
        chain.rewind(start)


def test_a_chain_is_found_again_on_disk(tmp_path: Path, alice: LocalAccount) -> None:
    path = tmp_path / "chain.sqlite"
    store = BlockStore(path)
    chain = EvmChain.open(store, genesis(alice))
    transaction = signed(chain, alice, 0)
    head = chain.build([transaction], START + 1, budget=5).block.header.hash
    store.close()
    store = BlockStore(path)
    again = EvmChain.open(store, genesis(alice))
    assert again.head.hash == head
    found = again.find(transaction.hash)
    assert found is not None and found[0].transactions[0].hash == transaction.hash
    assert balance(again, SINK) == 1
    store.close()


def test_another_chain_id_is_refused(tmp_path: Path, alice: LocalAccount) -> None:
    store = BlockStore(tmp_path / "chain.sqlite")
    EvmChain.open(store, genesis(alice))
    with pytest.raises(ChainMismatch, match="id 99"):
        EvmChain.open(store, genesis(alice, chain_id=7))
    store.close()


def test_two_processes_cannot_have_one_database(tmp_path: Path) -> None:
    store = BlockStore(tmp_path / "chain.sqlite")
    with pytest.raises(DataDirLocked, match="in use"):
        BlockStore(tmp_path / "chain.sqlite")
    store.close()
    BlockStore(tmp_path / "chain.sqlite").close()


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "chain.sqlite"
    path.write_bytes(b"not a database, but long enough to have a header " * 40)
    with pytest.raises(DatabaseUnusable, match="not a chain database"):
        BlockStore(path)


def test_what_is_not_committed_is_seen_by_nobody_else() -> None:
    store = BlockStore(None)
    store.write({b"kept": b"1", b"gone": b"1"})
    writes = PendingWrites(store)
    writes[b"new"] = b"2"
    del writes[b"gone"]
    assert b"new" in writes and b"gone" not in writes
    assert b"new" not in store and b"gone" in store
    writes.commit()
    assert store[b"new"] == b"2"
    assert b"gone" not in store
