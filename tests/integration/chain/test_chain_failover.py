"""Several endpoints for one chain: real sockets, some of them to a real chain, and what is wrong with the others."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hydra_node.chain import endpoints
from hydra_node.chain import rpc as rpc_module
from hydra_node.chain.rpc import SEND, Rpc, RpcError, RpcUnavailable, UnknownEndpoint, WrongChain
from hydra_node.devnet.chains import LocalChain


@dataclass
class Node:
    """An endpoint that answers by itself, in front of no chain. Its fields may be changed at any time."""

    chain_id: int = 1337
    genesis: str | None = "0xaa"
    head: int = 100
    status: int = 200
    hangs: bool = False
    seconds: float = 0.0
    name: str = ""
    asked: list[str] = field(default_factory=list)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str) -> object:
        return {
            "eth_chainId": hex(self.chain_id),
            "eth_blockNumber": hex(self.head),
            "eth_getBlockByNumber": self.genesis and {"hash": self.genesis},
        }.get(method, self.name)


@contextmanager
def serving(*nodes: Node) -> Iterator[str]:
    """The addresses of the nodes, as one text."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(node)) for node in nodes]
    for node, server in zip(nodes, servers, strict=True):
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        node.url = f"http://127.0.0.1:{server.server_port}/secret-access-key"
    try:
        yield ",".join(node.url for node in nodes)
    finally:
        for node, server in zip(nodes, servers, strict=True):
            node.released.set()
            server.shutdown()
            server.server_close()


def _handler(node: Node) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            method = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["method"]
            node.asked.append(method)
            if node.hangs:
                node.released.wait()
                return
            node.released.wait(node.seconds)
            content = json.dumps({"jsonrpc": "2.0", "id": 0, "result": node.answer(method)}).encode()
            self.send_response(node.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint is asked again a fiftieth of a second after it failed."""
    monkeypatch.setattr(endpoints, "FIRST_REST", 0.02)
    monkeypatch.setattr(endpoints, "LONGEST_REST", 0.02)


@pytest.mark.parametrize("fault", ["down", "busy", "hanging", "not a chain"])
def test_the_second_endpoint_answers_when_the_first_does_not(fault: str, unused_port: int) -> None:
    first, second = Node(name="first"), Node(name="second")
    with serving(first, second):
        if fault == "down":
            first.url = f"http://127.0.0.1:{unused_port}"
        first.status = {"busy": 503, "not a chain": 404}.get(fault, 200)
        first.hangs = fault == "hanging"
        rpc = Rpc(f"{first.url},{second.url}", timeout=0.3)
        assert rpc.request("web3_clientVersion") == "second"


def test_the_first_is_used_while_it_works() -> None:
    first, second = Node(name="first"), Node(name="second")
    with serving(first, second) as urls:
        rpc = Rpc(urls)
        assert {rpc.request("web3_clientVersion") for _ in range(20)} == {"first"}
    assert not second.asked


def test_one_endpoint_is_asked_nothing_but_the_question() -> None:
    only = Node(name="only")
    with serving(only) as url:
        assert Rpc(url).request("web3_clientVersion") == "only"
    assert only.asked == ["web3_clientVersion"]


@pytest.mark.usefixtures("short_rests")
def test_an_endpoint_that_comes_back_is_used_again() -> None:
    first, second = Node(name="first", status=503), Node(name="second")
    with serving(first, second) as urls:
        rpc = Rpc(urls)
        assert rpc.request("web3_clientVersion") == "second"
        first.status = 200
        for _ in range(1000):
            if rpc.request("web3_clientVersion") == "first":
                return
    raise AssertionError("the first endpoint was never used again")


@pytest.mark.usefixtures("short_rests")
def test_a_slow_endpoint_gets_the_time_to_show_what_it_serves(
    unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_module, "FIRST_TIMEOUT", 0.05)
    with serving(Node(name="slow", seconds=0.2)) as url:
        assert Rpc(f"http://127.0.0.1:{unused_port},{url}").request("web3_clientVersion") == "slow"


@pytest.mark.parametrize("strange", [Node(chain_id=5, name="strange"), Node(genesis="0xbb", name="strange")])
@pytest.mark.usefixtures("short_rests")
def test_an_endpoint_of_another_chain_is_told_of_and_asked_nothing_else(
    strange: Node, caplog: pytest.LogCaptureFixture
) -> None:
    first = Node(name="first")
    with serving(first, strange) as urls, caplog.at_level(logging.WARNING):
        rpc = Rpc(urls, patience=0.5)
        assert rpc.chain_id == 1337
        first.status = 503
        for method in ("web3_clientVersion", SEND):
            with pytest.raises(RpcUnavailable):
                rpc.request(method)
        first.status = 200
        assert rpc.request("web3_clientVersion") == "first"
    assert set(strange.asked) <= {"eth_chainId", "eth_getBlockByNumber", "eth_blockNumber"}
    assert "is not used: it serves" in caplog.text
    assert "secret" not in caplog.text


def test_endpoints_of_another_chain_only_are_refused() -> None:
    with serving(Node(chain_id=5), Node(chain_id=6)) as urls, pytest.raises(WrongChain, match="serves chain 5, not 7"):
        _ = Rpc(urls, chain_id=7).chain_id


def test_an_endpoint_of_another_chain_does_no_harm_in_the_first_place() -> None:
    with serving(Node(chain_id=5), Node(chain_id=7)) as urls:
        assert Rpc(urls, chain_id=7).chain_id == 7


def test_no_endpoint_at_all_among_several_is_named_at_once() -> None:
    first, second = Node(status=404), Node(genesis=None)
    with serving(first, second) as urls, pytest.raises(UnknownEndpoint):
        Rpc(urls).request("web3_clientVersion")
    assert len(first.asked) == 1


def test_one_that_is_far_behind_waits_until_it_has_caught_up() -> None:
    first, second = Node(name="first", head=200), Node(name="second", head=100)
    with serving(first, second) as urls:
        rpc = Rpc(urls, patience=0.5)
        assert int(rpc.request("eth_blockNumber"), 16) == 200
        first.status = 503
        with pytest.raises(RpcUnavailable, match="too many blocks behind"):
            rpc.request("web3_clientVersion")
        second.head = 199
        assert rpc.request("web3_clientVersion") == "second"


def test_all_that_are_down_are_named_without_their_keys() -> None:
    nodes = Node(status=503), Node(status=500)
    with serving(*nodes) as urls, pytest.raises(RpcUnavailable) as caught:
        Rpc(urls, patience=0.3).request("web3_clientVersion")
    text = str(caught.value)
    assert "HTTP status 503" in text
    assert "HTTP status 500" in text
    assert all(node.url.removesuffix("/secret-access-key") in text for node in nodes)
    assert "secret" not in text


def test_what_may_have_arrived_is_not_sent_to_the_next() -> None:
    first, second = Node(name="first"), Node(name="second")
    with serving(first, second) as urls:
        rpc = Rpc(urls, timeout=0.3)
        assert rpc.chain_id == 1337
        first.hangs = True
        with pytest.raises(RpcUnavailable):
            rpc.request(SEND, "0x00")
    assert SEND not in second.asked


def test_what_has_not_arrived_is_sent_to_the_next() -> None:
    first, second = Node(name="first"), Node(name="second")
    with serving(first, second) as urls:
        rpc = Rpc(urls)
        assert rpc.chain_id == 1337
        first.status = 429
        assert rpc.request(SEND, "0x00") == "second"


def test_an_error_of_the_chain_is_its_answer(chain: LocalChain, unused_port: int) -> None:
    rpc = Rpc(f"http://127.0.0.1:{unused_port}, {chain.rpc_url}")
    assert rpc.chain_id == chain.chain_id
    with pytest.raises(RpcError):
        rpc.request("eth_magic")


@pytest.mark.parametrize(
    "urls", ["", ",", "http://127.0.0.1:1,ftp://127.0.0.1", "http://127.0.0.1:99999", "http://[::1", "http://"]
)
def test_what_is_no_address_among_several_is_refused(urls: str) -> None:
    with pytest.raises(UnknownEndpoint, match="no address of a chain"):
        Rpc(urls)


@pytest.mark.parametrize(
    "url",
    [
        "secret:word@127.0.0.1:8545",
        "ftp://secret:word@127.0.0.1/",
        "https://secret:word@127.0.0.1:99999",
        "http://[secret:word@::1",
        "https:/127.0.0.1/secret",
        "://127.0.0.1/secret",
        "127.0.0.1/secret",
        "127.0.0.1?secret",
        "http://secret@",
        "ws://127.0.0.1/#secret",
    ],
)
def test_an_address_that_is_refused_does_not_show_its_key(url: str) -> None:
    with pytest.raises(UnknownEndpoint) as caught:
        Rpc(url)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(caught.value)


def test_addresses_that_are_one_count_once(unused_port: int) -> None:
    url = f"http://127.0.0.1:{unused_port}"
    assert repr(Rpc(f"{url},{url}")) == repr(Rpc(url))


def test_a_blackhole_is_left_alone_and_does_not_cost_each_request(chain: LocalChain) -> None:
    """The first address takes connections and never answers: it is tried once, then left alone for its rest."""
    with socket.create_server(("127.0.0.1", 0)) as hole:
        rpc = Rpc(f"http://127.0.0.1:{hole.getsockname()[1]},{chain.rpc_url}", timeout=0.3)
        hole.settimeout(0.0)
        answers = [rpc.request("eth_blockNumber") for _ in range(20)]
        assert len(answers) == 20
        tried = 0
        while True:
            try:
                connection, _ = hole.accept()
            except BlockingIOError:
                break
            connection.close()
            tried += 1
    assert tried < len(answers)
