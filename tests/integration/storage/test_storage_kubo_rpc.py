"""The real server and the real `ipfshttpclient`, over a loopback socket."""

import asyncio
import http.client
import io
import os
import socket
import threading
from contextlib import contextmanager

import ipfshttpclient
import pytest
from multiaddr import Multiaddr

from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import BlockStore
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import (
    BlockNotFound,
    ContentNotFound,
    CorruptBlock,
    StorageError,
    StorageUnavailable,
    TooLarge,
    UnreadableFile,
)
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.storage.kubo_rpc import ConnectedPeer, KuboRpcServer
from hydra_node.storage.unixfs import CHUNK_BYTES, Kind


@contextmanager
def serving(store, fetch=None, **options):
    """A server in a thread with its own event loop, as the tests' clients block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = KuboRpcServer(store, fetch, **options)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def store(tmp_path):
    return BlockStore(tmp_path / "store")


@pytest.fixture
def server(store):
    with serving(store, peer_id="12D3KooWme", peers=lambda: [ConnectedPeer("12D3KooWother", "/ip4/1.2.3.4")]) as server:
        yield server


@pytest.fixture
def client(server):
    with IpfsClient(server.api, timeout=20) as client:
        yield client


@pytest.fixture
def kubo(server):
    with ipfshttpclient.connect(server.api) as kubo:
        yield kubo


# IpfsClient


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES * 3 + 5])
def test_bytes_come_back_and_are_pinned(client, store, size):
    data = os.urandom(size)
    cid = client.add(data)
    assert cid == unixfs.cid_of(data)
    assert client.cat(cid) == data
    assert client.cat(cid, max_bytes=size) == data
    assert cid in store.pins()
    store.gc()
    assert client.cat(cid) == data


def test_unpinned_content_goes_with_the_garbage(client, store):
    cid = client.add(b"loose", pin=False)
    client.pin(cid)
    store.gc()
    assert client.pins() == {cid}
    client.unpin(cid)
    store.gc()
    with pytest.raises(ContentNotFound, match=str(cid)):
        client.cat(cid)
    with pytest.raises(StorageError, match="not pinned"):
        client.unpin(cid)


def test_files_and_directories(client, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub" / "empty").mkdir(parents=True)
    (tree / "a b%20.txt").write_bytes(b"hi")
    (tree / ".hidden").write_bytes(b"")
    (tree / "sub" / "é").write_bytes(os.urandom(CHUNK_BYTES + 1))
    root = client.add(tree)
    assert root == unixfs.import_directory(tree, lambda _cid, _block: None).cid
    entries = {entry.name: entry for entry in client.ls(root)}
    assert {name: entry.kind for name, entry in entries.items()} == {
        "a b%20.txt": Kind.FILE,
        ".hidden": Kind.FILE,
        "sub": Kind.DIRECTORY,
    }
    assert client.cat(entries["a b%20.txt"].cid) == b"hi"
    (inner,) = [entry for entry in client.ls(entries["sub"].cid) if entry.name == "é"]
    assert inner.size == CHUNK_BYTES + 1
    assert client.add(tree / "sub" / "é") == inner.cid
    assert client.ls(inner.cid) == []
    with pytest.raises(UnreadableFile):
        client.add(tree / "none")


def test_nodes(client):
    leaf = client.add(b"leaf")
    node = {"link": leaf, "list": [1, None, b"bytes"]}
    cid = client.put_node(node)
    assert client.get_node(cid) == node
    assert client.pins() >= {cid}
    with pytest.raises(TooLarge):
        client.put_node({"x": bytes(2 * 1024 * 1024)})


def test_content_beyond_the_bound_is_refused(client):
    cid = client.add(os.urandom(CHUNK_BYTES * 8))
    for bound in (0, 1, CHUNK_BYTES * 8 - 1):
        with pytest.raises(TooLarge, match=str(cid)):
            client.cat(cid, max_bytes=bound)
    assert len(client.cat(cid, max_bytes=CHUNK_BYTES * 8)) == CHUNK_BYTES * 8


def test_content_in_kubos_older_form_is_verified_block_by_block(client, store):
    data = os.urandom(CHUNK_BYTES * 2 + 1)
    with store.batch() as batch:
        entry = unixfs.import_stream(io.BytesIO(data), batch.put, raw_leaves=False, version=0)
    assert str(entry.cid).startswith("Qm")
    assert client.cat(entry.cid) == data


def test_a_node_that_lies_is_caught(tmp_path):
    class Liar(BlockStore):
        def get(self, cid: Cid) -> bytes:
            return super().get(cid)[:-1] + b"!"

    store = Liar(tmp_path)
    with serving(store) as server, IpfsClient(server.api) as client:
        cid = client.add(b"the truth")
        with pytest.raises(CorruptBlock):
            client.cat(cid)
        node = client.put_node({"a": "text"})
        with pytest.raises(CorruptBlock):
            client.get_node(node)


def test_threads_share_a_client(client):
    found = []

    def work(n: int) -> None:
        for i in range(5):
            data = f"{n} {i}".encode()
            found.append(client.cat(client.add(data)) == data)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


def test_a_proxy_in_the_environment_is_not_asked(client, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert client.cat(client.add(b"direct")) == b"direct"


def test_no_node_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        client = IpfsClient(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(StorageUnavailable, match="no storage node"):
            client.version()
    with pytest.raises(StorageUnavailable, match="no address"):
        IpfsClient("nonsense").version()


def test_an_unknown_version_is_one_warning(store, monkeypatch, caplog):
    for version, expected in (("0.29.0", "does not know"), ("kubo-next", "unreadable")):
        caplog.clear()
        monkeypatch.setattr("hydra_node.storage.kubo_rpc.VERSION", version)
        with serving(store) as server, IpfsClient(server.api) as client:
            assert client.cat(client.add(b"still works")) == b"still works"
            assert client.version() == version
        assert [expected in record.message for record in caplog.records if "version" in record.message] == [True]


# Peers


def _peer(tmp_path, data: bytes) -> tuple[BlockStore, Cid]:
    far = BlockStore(tmp_path / "far")
    with far.batch() as batch:
        return far, unixfs.import_file(io.BytesIO(data), batch.put)


def test_missing_blocks_are_fetched_and_pins_fetch_all(tmp_path, store):
    data = os.urandom(CHUNK_BYTES * 20 + 1)
    far, cid = _peer(tmp_path, data)
    asked: list[Cid] = []

    async def fetch(wanted: Cid) -> None:
        asked.append(wanted)
        try:
            block = await asyncio.to_thread(far.get, wanted)
        except BlockNotFound as error:
            raise ContentNotFound(f"no peer has {wanted}: not found") from error
        await asyncio.to_thread(store.put, wanted, block)

    with serving(store, fetch) as server, IpfsClient(server.api) as client:
        assert client.cat(cid) == data
        assert len(asked) == len(set(asked)) == 22
        assert client.cat(cid) == data
        assert len(asked) == 22
        store.gc()
        client.pin(cid)
        assert len(asked) == 44
        store.gc()
        assert client.cat(cid) == data
        missing = Cid.of(Codec.RAW, b"nobody has this")
        for call in (client.cat, client.block, client.pin):
            with pytest.raises(ContentNotFound, match="no peer has"):
                call(missing)


def test_a_fetch_without_an_answer_ends_at_the_deadline(store):
    cancelled = threading.Event()

    async def fetch(_wanted: Cid) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with serving(store, fetch) as server, IpfsClient(server.api) as client:
        with pytest.raises(ContentNotFound, match="deadline"):
            client.cat(Cid.of(Codec.RAW, b"x"), timeout=0.2)
        assert cancelled.wait(10)
        assert client.add(b"alive")


def test_a_file_that_breaks_off_is_never_taken_for_whole(tmp_path, store):
    data = os.urandom(CHUNK_BYTES * 40)
    far, cid = _peer(tmp_path, data)
    last = Cid.of(Codec.RAW, data[-CHUNK_BYTES:])

    async def fetch(wanted: Cid) -> None:
        if wanted == last:
            raise ContentNotFound("the peer left: not found")
        await asyncio.to_thread(lambda: store.put(wanted, far.get(wanted)))

    with serving(store, fetch) as server, IpfsClient(server.api) as client:
        with pytest.raises(StorageUnavailable):
            client.cat(cid)
        assert client.add(b"alive")


def test_a_damaged_block_is_healed_from_a_peer(tmp_path, store):
    far, cid = _peer(tmp_path, b"data")

    async def fetch(wanted: Cid) -> None:
        await asyncio.to_thread(lambda: store.put(wanted, far.get(wanted)))

    store.put(cid, b"data")
    store._path(cid.digest).write_bytes(b"dama")
    with serving(store, fetch) as server, IpfsClient(server.api) as client:
        assert client.cat(cid) == b"data"
    assert store.get(cid) == b"data"


# ipfshttpclient itself


def test_ipfshttpclient_speaks_to_it(kubo, tmp_path):
    assert kubo.version()["Version"].startswith("0.8.0")
    assert kubo.id()["ID"] == "12D3KooWme"
    assert kubo.swarm.peers().as_json() == {"Peers": [{"Addr": "/ip4/1.2.3.4", "Peer": "12D3KooWother"}]}
    assert kubo.add_bytes(b"alpha") == "bafkreieo2p3k22c3swpk24bckghbv53m3alpr2hmptg5uhwuaghi6ird7a"
    assert kubo.cat("bafkreieo2p3k22c3swpk24bckghbv53m3alpr2hmptg5uhwuaghi6ird7a") == b"alpha"
    assert kubo.cat("bafkreieo2p3k22c3swpk24bckghbv53m3alpr2hmptg5uhwuaghi6ird7a", offset=1, length=3) == b"lph"
    assert kubo.repo.stat()["NumObjects"] == 1


def test_plain_add_gives_what_plain_ipfs_add_gives(kubo, tmp_path):
    (tmp_path / "f").write_bytes(b"hello world")
    assert kubo.add(str(tmp_path / "f"))["Hash"] == "Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD"
    assert kubo.cat("/ipfs/Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD") == b"hello world"


def test_add_options(kubo, store, tmp_path):
    (tmp_path / "f").write_bytes(b"alpha")
    (tmp_path / "g").write_bytes(b"beta")
    hashed = kubo.add(str(tmp_path / "f"), only_hash=True, cid_version=1, raw_leaves=True)
    assert hashed["Hash"] == "bafkreieo2p3k22c3swpk24bckghbv53m3alpr2hmptg5uhwuaghi6ird7a"
    assert store.usage().blocks == 0
    several = kubo.add(str(tmp_path / "f"), str(tmp_path / "g"), cid_version=1, raw_leaves=True)
    assert [line["Name"] for line in several] == ["f", "g"]
    wrapped = kubo.add(str(tmp_path / "f"), wrap_with_directory=True, cid_version=1, raw_leaves=True, pin=False)
    assert wrapped[0]["Name"] == "f"
    assert kubo.cat(wrapped[-1]["Hash"] + "/f") == b"alpha"
    with pytest.raises(ipfshttpclient.exceptions.ErrorResponse, match="trickle"):
        kubo.add(str(tmp_path / "f"), trickle=True)
    with pytest.raises(ipfshttpclient.exceptions.ErrorResponse, match="chunker"):
        kubo.add(str(tmp_path / "f"), chunker="size-1")


def test_blocks_and_dag_nodes(kubo):
    leaf = kubo.add_bytes(b"alpha")
    stat = kubo.block.stat(leaf)
    assert (stat["Key"], stat["Size"]) == (leaf, 5)
    assert kubo.block.get(leaf) == b"alpha"
    assert kubo.block.put(io.BytesIO(b"alpha"))["Key"] == leaf
    cid = kubo.dag.put(io.BytesIO(b'{"link": {"/": "%s"}, "n": [1, 2]}' % leaf.encode()))["Cid"]["/"]
    assert cid.startswith("bafyrei")
    assert kubo.dag.get(cid).as_json() == {"link": {"/": leaf}, "n": [1, 2]}
    assert kubo.dag.get(leaf).as_json() == {"/": {"bytes": "YWxwaGE"}}
    for bad in (b"{", b'{"/": 1}', b"[" * 5000):
        with pytest.raises(ipfshttpclient.exceptions.ErrorResponse):
            kubo.dag.put(io.BytesIO(bad))
    with pytest.raises(ipfshttpclient.exceptions.ErrorResponse):
        kubo.block.put(io.BytesIO(b"\xff"), opts={"cid-codec": "dag-cbor"})


def test_pins(kubo):
    cid = kubo.add_bytes(os.urandom(CHUNK_BYTES + 1))
    keys = kubo.pin.ls()["Keys"].as_json()
    assert sorted(kind["Type"] for kind in keys.values()) == ["indirect", "indirect", "recursive"]
    assert list(kubo.pin.ls(cid, type="recursive")["Keys"]) == [cid]
    assert kubo.pin.rm(cid)["Pins"] == [cid]
    with pytest.raises(ipfshttpclient.exceptions.ErrorResponse, match="not pinned"):
        kubo.pin.ls(cid)
    assert kubo.pin.add(cid)["Pins"] == [cid]
    kubo.pin.rm(cid)
    assert len(kubo.repo.gc()) == 3


# Who may call, and with what


def _status(server: KuboRpcServer, path: str = "version", method: str = "POST", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, f"/api/v0/{path}", headers={key.replace("_", "-"): v for key, v in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_web_page_cannot_call(server):
    own = f"127.0.0.1:{server.port}"
    assert _status(server) == 200
    assert _status(server, Origin=f"http://{own}") == 200
    assert _status(server, Host=f"localhost:{server.port}") == 200
    assert _status(server, method="GET") == 405
    assert _status(server, Origin="http://evil.example") == 403
    assert _status(server, Origin="null") == 403
    assert _status(server, Origin=f"http://127.0.0.1:{server.port + 1}") == 403
    assert _status(server, Host=f"evil.example:{server.port}") == 403
    assert _status(server, method="OPTIONS", Origin="http://evil.example") == 403


@pytest.mark.parametrize(
    "path",
    [
        "cat",
        "cat?arg=nonsense",
        "cat?arg=",
        "cat?arg=/ipfs/",
        "cat?arg=bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku&offset=-1",
        "cat?arg=x&timeout=soon",
        "add",
        "add?pin=perhaps",
        "add?cid-version=7",
        "block/put?cid-codec=git",
        "block/put?mhtype=md5",
        "pin/ls?type=odd",
        "block/put",
    ],
)
def test_bad_calls_are_answered_and_the_server_lives(server, path):
    assert _status(server, path) in (400, 500)
    assert _status(server) == 200


def test_paths_that_climb_out_are_refused(server):
    for name in ("../x", "a/../../x", "%2Fx", "a//b", "..%2Fx", "a/."):
        boundary = "b0undary"
        body = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            f"Content-Type: application/octet-stream\r\n\r\nx\r\n--{boundary}--\r\n"
        )
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("POST", "/api/v0/add", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        assert connection.getresponse().status == 500
        connection.close()


def test_an_upload_beyond_the_bound_leaves_nothing(store):
    with serving(store, max_upload=CHUNK_BYTES * 2) as server, IpfsClient(server.api) as client:
        with pytest.raises(StorageError, match="too large"):
            client.add(os.urandom(CHUNK_BYTES * 2 + 1))
        assert client.add(os.urandom(CHUNK_BYTES * 2))
    assert store.usage().blocks == 3
    assert list((store.directory / "tmp").iterdir()) == []


def test_a_client_that_hangs_up_leaves_nothing(store, server):
    head = (
        b"POST /api/v0/add HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 1000000\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nxxxxx' % server.port
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head)
    # The next call is answered after the server saw the hang-up of the one before, or not at all.
    with IpfsClient(server.api) as client:
        client.add(b"other")
    assert store.usage().blocks == 1
    assert store.pins().keys() == {Cid.of(Codec.RAW, b"other")}


def test_only_loopback_and_only_a_free_port(store, server):
    with pytest.raises(StorageError, match="loopback"):
        KuboRpcServer(store, host="0.0.0.0")
    with pytest.raises(StorageError, match="cannot be used"), serving(store, port=server.port):
        pass


def test_the_address_is_a_multiaddr(server):
    assert str(Multiaddr(server.api)) == server.api
