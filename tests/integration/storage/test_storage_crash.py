"""Processes that share a store, and processes that die while they write to it."""

import io
import signal
import subprocess
import sys
import textwrap

import pytest

from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import BlockStore
from hydra_node.storage.cid import Cid, Codec

IMPORTER = """
    import io, random, sys
    from pathlib import Path
    from hydra_node.storage import unixfs
    from hydra_node.storage.blockstore import BlockStore

    store = BlockStore(Path(sys.argv[1]))
    print("ready", flush=True)
    for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        data = random.Random(seed).randbytes(unixfs.CHUNK_BYTES * 3 + 1)
        with store.batch() as batch:
            cid = unixfs.import_file(io.BytesIO(data), batch.put)
            batch.pin(cid)
        print(cid, flush=True)
"""


def _start(store: BlockStore, seed: int, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", textwrap.dedent(IMPORTER), str(store.directory), str(seed), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _whole(store: BlockStore, cid: Cid) -> bool:
    return len(b"".join(unixfs.export_file(cid, store.get))) == unixfs.CHUNK_BYTES * 3 + 1


@pytest.mark.parametrize("imports_before", [0, 1, 2, 5])
def test_a_kill_during_an_import_leaves_whole_blocks_only(tmp_path, imports_before):
    store = BlockStore(tmp_path)
    with _start(store, 0, 100_000) as process:
        try:
            assert process.stdout is not None
            told = [process.stdout.readline().strip() for _ in range(imports_before + 1)][1:]
        finally:
            process.send_signal(signal.SIGKILL)
    store = BlockStore(tmp_path)
    report = store.fsck()
    assert report.quarantined == ()
    assert report.incomplete_pins == ()
    assert list((tmp_path / "tmp").iterdir()) == []
    pins = store.pins()
    assert {Cid.parse(text) for text in told} <= pins.keys()
    store.gc()
    assert all(_whole(store, cid) for cid in pins)


def test_opening_leaves_the_writer_at_work_alone(tmp_path):
    store = BlockStore(tmp_path)
    data = b"x" * 1000
    with store.batch() as batch:
        cid = unixfs.import_file(io.BytesIO(data), batch.put)
        opener = "import sys; from pathlib import Path; from hydra_node.storage.blockstore import BlockStore; "
        opener += "BlockStore(Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", opener, str(tmp_path)], check=True)
    assert store.get(cid) == data


def test_processes_import_while_another_collects_garbage(tmp_path):
    store = BlockStore(tmp_path)
    loose = 0
    with _start(store, 0, 8) as first, _start(store, 4, 8) as second:
        while first.poll() is None or second.poll() is None:
            store.put(Cid.of(Codec.RAW, b"%d" % loose), b"%d" % loose)
            store.gc()
            loose += 1
        assert first.stdout is not None
        assert second.stdout is not None
        told = {line.strip() for line in (*first.stdout, *second.stdout)} - {"ready"}
    assert (first.returncode, second.returncode) == (0, 0)
    assert loose > 0
    assert len(told) == 12
    assert {str(cid) for cid in store.pins()} == told
    assert all(_whole(store, cid) for cid in store.pins())
    assert store.fsck().quarantined == ()
