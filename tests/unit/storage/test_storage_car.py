import hashlib
import io

import pytest
from known_content import CHUNK, content

from hydra_node.storage import car, unixfs
from hydra_node.storage.blockstore import BlockStore
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import CorruptBlock, StorageError, TooLarge


@pytest.fixture
def store(tmp_path):
    return BlockStore(tmp_path / "store")


@pytest.fixture
def archive(store, tmp_path):
    tree = tmp_path / "d"
    tree.mkdir()
    (tree / "a.txt").write_bytes(b"alpha")
    (tree / "b.txt").write_bytes(b"beta")
    (tree / "c").write_bytes(content(CHUNK + 1))
    with store.batch() as batch:
        root = unixfs.import_directory(tree, batch.put).cid
    return root, b"".join(car.export_car(store, root))


def test_the_archive_is_the_one_that_ipld_car_writes(archive):
    """Root, length and hash by npm `@ipld/car` and `ipfs-unixfs-importer`, blocks in depth-first order."""
    root, data = archive
    assert str(root) == "bafybeihrf2wp66efzhlaxomimhx3oo5bh5yatdotenbbfzpcb7ojvkajfm"
    assert len(data) == 262692
    assert hashlib.sha256(data).hexdigest() == "0ab491691499c8ed22682921af5330eaa9259f979ca09df8440c23fd5e1b8a01"


def test_an_archive_fills_another_store(archive, tmp_path):
    root, data = archive
    other = BlockStore(tmp_path / "other")
    with other.batch() as batch:
        assert car.import_car(io.BytesIO(data), batch.put) == [root]
        batch.pin(root)
    assert b"".join(car.export_car(other, root)) == data


def test_a_changed_byte_is_caught_and_nothing_is_stored(archive, tmp_path):
    _root, data = archive
    other = BlockStore(tmp_path / "other")
    with pytest.raises(CorruptBlock), other.batch() as batch:
        car.import_car(io.BytesIO(data[:-1] + bytes([data[-1] ^ 1])), batch.put)
    assert other.usage().blocks == 0


@pytest.mark.parametrize("cut", [0, 1, 10, 58, 60, 100, 262691])
def test_a_cut_archive_is_refused(archive, cut):
    _root, data = archive
    with pytest.raises(car.MalformedCar):
        car.import_car(io.BytesIO(data[:cut]), lambda _cid, _data: None)


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\x01\x00", b"\x00", b"nonsense" * 20])
def test_other_bytes_are_refused(data):
    with pytest.raises(StorageError):
        car.import_car(io.BytesIO(data), lambda _cid, _data: None)


def test_a_section_that_claims_to_be_huge_is_refused(archive):
    root, _data = archive
    header = b"".join(car.pieces([root], []))
    with pytest.raises(TooLarge):
        car.import_car(io.BytesIO(header + b"\xff\xff\xff\xff\x7f"), lambda _cid, _data: None)


def test_older_cids_are_read():
    blocks: dict[Cid, bytes] = {}
    entry = unixfs.import_stream(io.BytesIO(b"hello world"), blocks.__setitem__, raw_leaves=False, version=0)
    found: dict[Cid, bytes] = {}
    archive = b"".join(car.pieces([entry.cid], blocks.items()))
    assert car.import_car(io.BytesIO(archive), found.__setitem__) == [entry.cid]
    assert found == blocks
