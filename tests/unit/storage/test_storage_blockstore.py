import io
import os
import threading

import pytest
from known_content import CHUNK, content

from hydra_node.storage import dag, unixfs
from hydra_node.storage.blockstore import MAX_BLOCK_BYTES, BlockStore, PinMode
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import (
    BlockNotFound,
    CorruptBlock,
    NotPinned,
    QuotaExceeded,
    StorageError,
    TooLarge,
)


@pytest.fixture
def store(tmp_path):
    return BlockStore(tmp_path / "store")


def _raw(data: bytes) -> Cid:
    return Cid.of(Codec.RAW, data)


def _put(store: BlockStore, data: bytes) -> Cid:
    store.put(_raw(data), data)
    return _raw(data)


def _file(store: BlockStore, data: bytes, *, pin: bool) -> Cid:
    with store.batch() as batch:
        cid = unixfs.import_file(io.BytesIO(data), batch.put)
        if pin:
            batch.pin(cid)
    return cid


def _damage(store: BlockStore, cid: Cid) -> None:
    path = store._path(cid.digest)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def test_a_block_comes_back_after_reopening(store):
    cid = _put(store, b"data")
    assert BlockStore(store.directory).get(cid) == b"data"
    assert store.has(cid)
    assert store.size(cid) == 4


def test_a_missing_block_is_named(store):
    with pytest.raises(BlockNotFound, match=str(_raw(b"never"))):
        store.get(_raw(b"never"))


def test_wrong_bytes_are_never_stored(store):
    with pytest.raises(CorruptBlock):
        store.put(_raw(b"right"), b"wrong")
    assert not store.has(_raw(b"right"))
    _put(store, b"right")
    with pytest.raises(CorruptBlock):
        store.put(_raw(b"right"), b"wrong")


def test_a_block_that_is_too_large_is_refused(store):
    data = bytes(MAX_BLOCK_BYTES + 1)
    with pytest.raises(TooLarge):
        store.put(_raw(data), data)


def test_a_damaged_block_is_quarantined_when_read_and_can_be_stored_again(store):
    cid = _put(store, b"data")
    _damage(store, cid)
    with pytest.raises(CorruptBlock):
        store.get(cid)
    assert not store.has(cid)
    assert [path.name for path in (store.directory / "quarantine").iterdir()] == [cid.digest.hex()]
    _put(store, b"data")
    assert store.get(cid) == b"data"


def test_fsck_quarantines_damage_and_names_pins_it_breaks(store):
    whole = _file(store, content(CHUNK + 1), pin=True)
    broken = _file(store, content(CHUNK + 2), pin=True)
    leaf = _raw(content(CHUNK + 2)[:CHUNK])
    _damage(store, leaf)
    (store.directory / "blocks" / "zz").mkdir()
    (store.directory / "blocks" / "zz" / "no-digest").write_bytes(b"?")
    report = store.fsck()
    assert report.checked == 7
    assert set(report.quarantined) == {leaf.digest.hex(), "no-digest"}
    assert report.incomplete_pins == (broken,)
    assert b"".join(unixfs.export_file(whole, store.get)) == content(CHUNK + 1)
    assert store.fsck().quarantined == ()


def test_nothing_of_a_failed_batch_is_visible(store):
    with pytest.raises(RuntimeError), store.batch() as batch:
        batch.put(_raw(b"one"), b"one")
        raise RuntimeError
    assert store.usage().blocks == 0
    assert list((store.directory / "tmp").iterdir()) == []


def test_gc_keeps_what_is_pinned_and_nothing_else(store):
    kept = _file(store, content(3 * CHUNK + 1), pin=True)
    dropped = _file(store, content(2 * CHUNK + 1), pin=False)
    direct = _put(store, b"direct")
    store.pin(direct, recursive=False)
    node = dag.encode({"link": _put(store, b"below"), "other": [kept]})
    root = Cid.of(Codec.DAG_CBOR, node)
    store.put(root, node)
    store.pin(root)
    removed = store.gc()
    assert len(removed) == 4
    assert not store.has(dropped)
    assert b"".join(unixfs.export_file(kept, store.get)) == content(3 * CHUNK + 1)
    assert store.get(direct) == b"direct"
    assert store.get(_raw(b"below")) == b"below"
    assert store.pins() == {kept: PinMode.RECURSIVE, root: PinMode.RECURSIVE, direct: PinMode.DIRECT}


def test_gc_removes_after_the_unpin(store):
    cid = _file(store, content(CHUNK + 1), pin=True)
    store.unpin(cid)
    assert len(store.gc()) == 3
    with pytest.raises(NotPinned):
        store.unpin(cid)


def test_gc_removes_nothing_when_it_cannot_know_what_a_pin_keeps(store):
    cid = _file(store, content(CHUNK + 1), pin=True)
    loose = _put(store, b"loose")
    _damage(store, cid)
    with pytest.raises(CorruptBlock):
        store.gc()
    with pytest.raises(CorruptBlock):
        store.get(cid)
    with pytest.raises(StorageError, match="incomplete"):
        store.gc()
    assert store.has(loose)
    assert store.usage().blocks == 3


def test_a_pin_needs_all_blocks(store):
    cid = _file(store, content(CHUNK + 1), pin=False)
    leaf = _raw(content(CHUNK + 1)[CHUNK:])
    store._path(leaf.digest).unlink()
    with pytest.raises(BlockNotFound, match=str(leaf)):
        store.pin(cid)
    assert store.pins() == {}


def test_blocks_of_a_batch_in_progress_survive_gc(store):
    _put(store, b"shared")
    with store.batch() as batch:
        batch.put(_raw(b"shared"), b"shared")
        assert len(store.gc()) == 1
        batch.pin(_raw(b"shared"))
    assert store.get(_raw(b"shared")) == b"shared"


def test_a_write_past_the_quota_changes_nothing(tmp_path):
    store = BlockStore(tmp_path, quota=CHUNK + 10)
    _put(store, b"12345")
    with pytest.raises(QuotaExceeded):
        _file(store, content(CHUNK + 1), pin=True)
    assert store.usage().size == 5
    assert store.pins() == {}
    _put(store, b"12345")
    _put(BlockStore(tmp_path), b"x" * CHUNK)  # by another process, without a quota of its own
    with pytest.raises(QuotaExceeded):
        _put(store, b"123456")
    store.gc()
    _put(store, b"123456")


def test_threads_share_a_store(store):
    datas = [os.urandom(100) for _ in range(20)]

    def put_only():
        for data in datas:
            with store.batch() as batch:
                batch.put(_raw(data), data)
                batch.pin(_raw(data))

    threads = [threading.Thread(target=put_only), threading.Thread(target=put_only)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.get(_raw(data)) == data for data in datas)
    assert store.gc() == []


def test_an_unusable_directory_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot make a block store"):
        BlockStore(tmp_path / "file" / "store")
