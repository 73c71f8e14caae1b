import msgspec
import numpy as np
import pytest

from hydra_node.storage import dag, dataset, items, unixfs
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.dataset import Entry, Manifest, Origin
from hydra_node.storage.errors import ContentNotFound, MalformedManifest, MalformedSubmission, TooLarge
from hydra_node.storage.items import Item, Schema

SCHEMA = Schema("u1", (2, 2), 16, 10)


class Memory:
    """Content by its CID, in memory: what `dataset` needs of an IpfsClient."""

    def __init__(self):
        self.blocks: dict[Cid, bytes] = {}

    def add(self, data: bytes) -> Cid:
        self.blocks[unixfs.cid_of(data)] = data
        return unixfs.cid_of(data)

    def cat(self, cid: Cid, max_bytes: int = 2**30) -> bytes:
        if cid not in self.blocks:
            raise ContentNotFound(str(cid))
        if len(self.blocks[cid]) > max_bytes:
            raise TooLarge(str(cid))
        return self.blocks[cid]

    def put_node(self, node: dag.Node) -> Cid:
        data = dag.encode(node)
        cid = Cid.of(Codec.DAG_CBOR, data)
        self.blocks[cid] = data
        return cid

    def get_node(self, cid: Cid) -> dag.Node:
        return dag.decode(self.blocks[cid])


def _item(n: int) -> Item:
    return Item(bytes([n, n, n, n]), n % 10)


def _entry(payload: Cid, submission: int, accepted=(0, 2)) -> Entry:
    return Entry(
        payload=payload,
        contributor="0x" + "ab" * 20,
        submission=submission,
        licence_hash=b"l" * 32,
        consent_hash=b"c" * 32,
        accepted=accepted,
        scores=tuple(range(len(accepted))),
    )


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def manifest(memory):
    first = memory.add(items.pack(SCHEMA, [_item(n) for n in (1, 2, 3)]))
    second = memory.add(items.pack(SCHEMA, [_item(n) for n in (4, 5, 6, 7)]))
    entries = (_entry(second, 9, (1, 3)), _entry(first, 4))
    return Manifest(schema=SCHEMA, licence="CC0-1.0", rule="hydra-score-1", entries=entries)


def test_samples_come_in_manifest_order(memory, manifest):
    loaded = dataset.load(memory, dataset.save(memory, manifest))
    expected = [5, 7, 1, 3]
    np.testing.assert_array_equal(
        loaded.features, np.array([np.full((2, 2), n / 16, dtype=np.float32) for n in expected])
    )
    assert loaded.features.dtype == np.float32
    np.testing.assert_array_equal(loaded.labels, expected)
    assert len(loaded) == len(manifest) == 4
    assert [loaded.origin_of(i) for i in range(4)] == [Origin(9, 1), Origin(9, 3), Origin(4, 0), Origin(4, 2)]
    assert [loaded.index_of(*loaded.origin_of(i)) for i in range(4)] == [0, 1, 2, 3]
    with pytest.raises(KeyError):
        loaded.index_of(4, 1)


def test_a_manifest_links_its_payloads_and_its_past(memory, manifest):
    first = dataset.save(memory, manifest)
    second = msgspec.structs.replace(manifest, version=2, previous=first, entries=manifest.entries[:1])
    node = memory.get_node(dataset.save(memory, second))
    assert set(dag.links(node)) == {manifest.entries[0].payload, first}
    assert Manifest.from_node(node) == second


def test_an_empty_dataset_loads(memory, manifest):
    empty = msgspec.structs.replace(manifest, entries=())
    loaded = dataset.load(memory, dataset.save(memory, empty))
    assert loaded.features.shape == (0, 2, 2)
    assert loaded.origins.shape == (0, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 0},
        {"version": 2},
        {"version": "1"},
        {"licence": 5},
        {"more": 1},
        {"entries": [1]},
        {"entries": 7},
        {"schema": {"dtype": "f8", "shape": [1], "scale": 1, "classes": 2}},
        {"schema": {"dtype": "u1", "shape": [1, "a"], "scale": 1, "classes": 2}},
        {"previous": "text"},
    ],
)
def test_malformed_manifests_are_refused(memory, manifest, change):
    with pytest.raises(MalformedManifest):
        Manifest.from_node(manifest.to_node() | change)


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "text"},
        {"contributor": "0x12"},
        {"submission": -1},
        {"licence_hash": b"short"},
        {"accepted": (2, 0)},
        {"accepted": (0, 0)},
        {"accepted": (-1, 0)},
        {"accepted": (0, 2**40)},
        {"scores": (1,)},
        {"scores": (1, 256)},
        {"scores": (1, -1)},
    ],
)
def test_malformed_entries_are_refused(memory, manifest, change):
    node = manifest.to_node()
    entry = node["entries"][0]
    entry.update({key: list(value) if isinstance(value, tuple) else value for key, value in change.items()})
    with pytest.raises(MalformedManifest):
        Manifest.from_node(node)


def test_a_submission_counts_once(manifest):
    twice = msgspec.structs.replace(manifest, entries=(manifest.entries[0], manifest.entries[0]))
    with pytest.raises(MalformedManifest, match="twice"):
        twice.to_node()


def test_an_accepted_item_that_does_not_exist_is_refused(memory, manifest):
    beyond = _entry(manifest.entries[1].payload, 4, (0, 3))
    with pytest.raises(MalformedManifest, match="no item 3"):
        dataset.load(memory, dataset.save(memory, msgspec.structs.replace(manifest, entries=(beyond,))))


def test_a_payload_of_another_schema_is_refused(memory, manifest):
    other = memory.add(items.pack(Schema("u1", (4,), 16, 10), [_item(1), _item(2), _item(3)]))
    with pytest.raises(MalformedSubmission):
        dataset.load(memory, dataset.save(memory, msgspec.structs.replace(manifest, entries=(_entry(other, 1),))))


def test_a_missing_payload_is_named(memory, manifest):
    del memory.blocks[manifest.entries[0].payload]
    with pytest.raises(ContentNotFound, match=str(manifest.entries[0].payload)):
        dataset.load(memory, dataset.save(memory, manifest))


def test_what_is_not_a_manifest_is_refused(memory):
    for node in ([], "text", {"format": 1}):
        with pytest.raises(MalformedManifest):
            dataset.load(memory, memory.put_node(node))
