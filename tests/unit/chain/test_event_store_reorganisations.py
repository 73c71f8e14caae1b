"""The store of events against simulated chains that grow, are replaced, shrink, and lag behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_node.chain.event_store import EventStore
from hydra_node.chain.events import Batch, Event, EventLog, LogRecord

DEPTH = 4
FIRST = 3


@dataclass
class Chain:
    """Blocks by their number; each is what it was made from, and holds some logs."""

    blocks: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)] * (FIRST + 1))
    visible: int | None = None
    """The newest block that the node shows, None for all."""
    made: int = 0
    chunk: int = 5
    dies_after: int | None = None
    """How many more chunks it answers."""

    def grow(self, count: int, logs: int) -> None:
        for _ in range(count):
            self.made += 1
            self.blocks.append((self.made, logs))

    def replace(self, depth: int, longer: int, logs: int) -> None:
        depth = min(depth, len(self.blocks) - FIRST - 1)
        del self.blocks[len(self.blocks) - depth :]
        self.grow(depth + longer, logs)

    def events(self, last: int | None = None) -> list[bytes]:
        """What a perfect reader knows: the hash of each event."""
        return [record_hash(record) for record in self.records(FIRST, self.head() if last is None else last)]

    def records(self, first: int, last: int) -> list[LogRecord]:
        return [
            self._record(number, position)
            for number in range(first, last + 1)
            for position in range(self.blocks[number][1])
        ]

    def _record(self, number: int, position: int) -> LogRecord:
        made = self.blocks[number][0]
        fields = {"address": "", "topics": [], "data": "0x", "transactionIndex": "0x0", "transactionHash": "0x"}
        places = {"blockNumber": hex(number), "blockHash": f"0x{made:064x}", "logIndex": hex(position)}
        return LogRecord(fields | places, timestamp=made)

    # --- as the store sees it ----------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        return FIRST

    def head(self) -> int:
        return len(self.blocks) - 1 if self.visible is None else self.visible

    def tip(self) -> tuple[int, str]:
        return self.head(), self.block_hash(self.head()) or ""

    def block_hash(self, number: int) -> str | None:
        return f"0x{self.blocks[number][0]:064x}" if number <= self.head() else None

    def batches(self, from_block: int, to_block: int) -> Iterator[Batch]:
        for start in range(max(from_block, FIRST), to_block + 1, self.chunk):
            if self.dies_after is not None:
                self.dies_after -= 1
                if self.dies_after < 0:
                    raise ConnectionError
            end = min(to_block, start + self.chunk - 1)
            yield Batch(start, end, self.records(start, end))

    def event(self, record: LogRecord) -> Event:
        raw = record.raw
        return Event(
            contract="Chain",
            name="Happened",
            args={"made": record.timestamp},
            block=int(raw["blockNumber"], 16),
            block_hash=bytes.fromhex(raw["blockHash"][2:]),
            tx_hash=b"",
            tx_index=0,
            log_index=int(raw["logIndex"], 16),
            timestamp=record.timestamp,
        )


def record_hash(record: LogRecord) -> bytes:
    return bytes.fromhex(record.raw["blockHash"][2:]) + int(record.raw["logIndex"], 16).to_bytes(1, "big")


def held(store: EventStore, *, final: bool = False) -> list[bytes]:
    return [event.block_hash + event.log_index.to_bytes(1, "big") for event in store.all(final=final)]


def opened(chain: Chain, path: Path | None = None, *, finality: int = 0) -> EventStore:
    return EventStore(cast(EventLog, chain), path, finality=finality, depth=DEPTH)


move = st.one_of(
    st.tuples(st.just("grow"), st.integers(0, 12), st.integers(0, 2)),
    st.tuples(st.just("replace"), st.integers(1, 30), st.integers(0, 3)),
    st.tuples(st.just("shrink"), st.integers(1, 30), st.just(0)),
    st.tuples(st.just("refresh"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("restart"), st.integers(0, 1), st.just(0)),
)


@given(moves=st.lists(move, max_size=30))
@settings(max_examples=300, deadline=None)
def test_two_processes_hold_what_a_chain_of_one_machine_holds(
    moves: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However it grows, is replaced or is turned back, however deep, and whoever of them reads it."""
    path = tmp_path_factory.mktemp("events") / "events.sqlite"
    chain = Chain()
    stores = [opened(chain, path), opened(chain, path)]
    try:
        for name, amount, extra in [*moves, ("refresh", 0, 0), ("refresh", 1, 0)]:
            if name == "grow":
                chain.grow(amount, extra)
            elif name == "replace":
                chain.replace(amount, extra, logs=1)
            elif name == "shrink":
                del chain.blocks[max(FIRST + 1, len(chain.blocks) - amount) :]
            elif name == "restart":
                stores[amount].close()
                stores[amount] = opened(chain, path)
            else:
                stores[amount].refresh()
                assert held(stores[amount]) == chain.events()
    finally:
        for store in stores:
            store.close()


@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=20))
@settings(max_examples=200, deadline=None)
def test_a_node_that_lags_behind_takes_nothing_back(steps: list[tuple[int, int, bool]]) -> None:
    chain = Chain()
    store = opened(chain, finality=3)
    seen = 0
    for growth, lag, restarts in steps:
        chain.grow(growth, 1)
        chain.visible = max(FIRST, len(chain.blocks) - 1 - lag)
        seen = max(seen, chain.visible)
        store.refresh()
        assert held(store) == chain.events(seen)
        if restarts:
            store.close()
            store, seen = opened(chain, finality=3), 0


@given(depth=st.integers(1, 40), longer=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_longer_chain_replaces_the_events_of_the_shorter(depth: int, longer: int) -> None:
    """On a public chain, also deeper than anything counts as final there."""
    chain = Chain()
    store = opened(chain, finality=3)
    for _ in range(6):
        chain.grow(5, 1)
        store.refresh()
    chain.replace(depth, longer, logs=2)
    store.refresh()
    assert held(store) == chain.events()


def test_final_events_have_enough_blocks_above_them() -> None:
    chain = Chain()
    chain.grow(10, 1)
    store = opened(chain, finality=3)
    store.refresh()
    assert held(store) == chain.events()
    assert held(store, final=True) == chain.events(chain.head() - 3)
    assert len(store.find("Happened", final=True, made=7)) == 1
    assert store.find("Happened", final=True, made=8) == []


def test_a_reading_that_is_cut_off_goes_on_where_it_stopped(tmp_path: Path) -> None:
    chain = Chain(dies_after=7)
    chain.grow(100, 1)
    with pytest.raises(ConnectionError):
        opened(chain, tmp_path / "events.sqlite").refresh()
    chain.dies_after = 15
    store = opened(chain, tmp_path / "events.sqlite")
    store.refresh()
    assert held(store) == chain.events()


def test_a_file_that_is_damaged_is_read_anew(tmp_path: Path) -> None:
    chain = Chain()
    chain.grow(10, 1)
    path = tmp_path / "events.sqlite"
    path.write_bytes(b"this is no database, however long it is" * 100)
    store = opened(chain, path)
    store.refresh()
    assert held(store) == chain.events()
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT COUNT(*) FROM logs").fetchone() == (10,)
