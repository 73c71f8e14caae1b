import io
import tracemalloc

import pytest
from known_content import CHUNK, EXPECTED, content

from hydra_node.storage import dagpb, unixfs
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.dagpb import Link
from hydra_node.storage.errors import MalformedNode, TooLarge, UnreadableFile
from hydra_node.storage.unixfs import Kind


@pytest.mark.parametrize("size", EXPECTED)
def test_files_get_kubos_cids_and_come_back(size):
    blocks: dict[Cid, bytes] = {}
    data = content(size)
    cid = unixfs.import_file(io.BytesIO(data), blocks.__setitem__)
    assert str(cid) == EXPECTED[size][0]
    assert unixfs.cid_of(data) == cid
    assert b"".join(unixfs.export_file(cid, blocks.__getitem__)) == data


@pytest.mark.parametrize("size", EXPECTED)
def test_kubos_older_form_is_written_and_read(size):
    blocks: dict[Cid, bytes] = {}
    entry = unixfs.import_stream(io.BytesIO(content(size)), blocks.__setitem__, raw_leaves=False, version=0)
    assert str(entry.cid) == EXPECTED[size][1]
    assert entry.size == size
    assert b"".join(unixfs.export_file(entry.cid, blocks.__getitem__)) == content(size)


def test_directories_get_kubos_cids(tmp_path):
    """CIDs and total sizes by npm `ipfs-unixfs-importer`."""
    blocks: dict[Cid, bytes] = {}
    plain, nested, empty = (tmp_path / name for name in ("plain", "nested", "empty"))
    for path in (plain, nested / "sub" / "deep", empty):
        path.mkdir(parents=True)
    (plain / "a.txt").write_bytes(b"alpha")
    (plain / "b.txt").write_bytes(b"beta")
    (nested / "b").write_bytes(b"beta")
    (nested / "B").write_bytes(b"")
    (nested / "sub" / "é.txt").write_bytes(b"x")
    (nested / "sub" / "deep" / "z").write_bytes(content(CHUNK + 1))
    expected = {
        plain: ("bafybeibxcoycwgpijt7dpfnkmoy6ikbjdqtrsljuoauatmohmlou3tb23a", 111),
        nested: ("bafybeidvw3n5nafrmaebp62axazzzwi3rzk6bmu52angtvlpszpmmw6mla", 262552),
        empty: ("bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354", 4),
    }
    for path, (cid, total) in expected.items():
        entry = unixfs.import_directory(path, blocks.__setitem__)
        assert (str(entry.cid), entry.total_size, entry.kind) == (cid, total, Kind.DIRECTORY)
    root = Cid.parse(expected[nested][0])
    assert [link.name for link in unixfs.list_directory(root, blocks[root])] == ["B", "b", "sub"]


def test_links_out_of_a_directory_are_refused(tmp_path):
    (tmp_path / "out").symlink_to("/etc/passwd")
    with pytest.raises(UnreadableFile):
        unixfs.import_directory(tmp_path, lambda _cid, _block: None)


def test_a_directory_too_large_for_one_block_is_refused():
    entry = unixfs.import_stream(io.BytesIO(b"x"), lambda _cid, _block: None)
    with pytest.raises(TooLarge):
        unixfs.put_directory({f"{i:0200}": entry for i in range(2000)}, lambda _cid, _block: None)


def test_import_and_export_hold_a_few_chunks_at_a_time(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as file:
        for i in range(100):
            file.write(content(CHUNK + i))
    blocks: dict[Cid, bytes] = {}

    def put(cid: Cid, block: bytes) -> None:
        if cid.codec is Codec.DAG_PB:
            blocks[cid] = block
        else:
            (tmp_path / str(cid)).write_bytes(block)

    def get(cid: Cid) -> bytes:
        return blocks[cid] if cid in blocks else (tmp_path / str(cid)).read_bytes()

    tracemalloc.start()
    try:
        with path.open("rb") as file:
            cid = unixfs.import_file(file, put)
        total = sum(len(piece) for piece in unixfs.export_file(cid, get))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == path.stat().st_size
    assert peak < 8 * CHUNK


def test_a_file_that_is_too_large_is_refused_before_any_leaf_is_read():
    blocks: dict[Cid, bytes] = {}
    cid = unixfs.import_file(io.BytesIO(content(CHUNK + 1)), blocks.__setitem__)
    leaves = [key for key in blocks if key.codec is Codec.RAW]
    for leaf in leaves:
        del blocks[leaf]
    with pytest.raises(TooLarge):
        list(unixfs.export_file(cid, blocks.__getitem__, max_bytes=CHUNK))


def _file_node(children: list[tuple[Cid, int]], size: int) -> bytes:
    message = unixfs._UnixFs(Type=Kind.FILE, filesize=size, blocksizes=[s for _, s in children])
    return dagpb.encode([Link(cid, "", s) for cid, s in children], message.SerializeToString())


def _stored(*parts: bytes) -> tuple[dict[Cid, bytes], Cid]:
    blocks = {Cid.of(Codec.DAG_PB, part): part for part in parts}
    return blocks, Cid.of(Codec.DAG_PB, parts[-1])


EMPTY = Cid.of(Codec.RAW, b"")
LEAF = Cid.of(Codec.RAW, b"leaf")


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (_file_node([(EMPTY, 0)] * 174, 0), "an empty child"),
        (_file_node([(LEAF, 4)], 5), "sizes that do not add up"),
        (_file_node([(LEAF, 3)], 3), "a child of another size"),
        (dagpb.encode([Link(LEAF, "", 4)], unixfs._UnixFs(Type=2, filesize=4).SerializeToString()), "no block sizes"),
        (dagpb.encode([], b"\xff\xff"), "no UnixFS"),
        (dagpb.encode([], None), "no data"),
        (dagpb.encode([], unixfs._UnixFs(Type=9).SerializeToString()), "an unknown kind"),
        (dagpb.encode([], unixfs._UnixFs(Type=1).SerializeToString()), "a directory"),
        (b"\xff\xff\xff", "no protobuf"),
    ],
)
def test_malformed_files_are_refused(node, why):
    blocks, root = _stored(node)
    blocks |= {EMPTY: b"", LEAF: b"leaf"}
    with pytest.raises(MalformedNode):
        list(unixfs.export_file(root, blocks.__getitem__))


def test_a_chain_of_nodes_without_end_is_refused():
    nodes = [_file_node([(LEAF, 4)], 4)]
    for _ in range(unixfs.MAX_DEPTH + 2):
        nodes.append(_file_node([(Cid.of(Codec.DAG_PB, nodes[-1]), 4)], 4))
    blocks, root = _stored(*nodes)
    with pytest.raises(MalformedNode, match="deeper"):
        list(unixfs.export_file(root, (blocks | {LEAF: b"leaf"}).__getitem__))
