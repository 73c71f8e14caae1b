"""The connection against servers that are down, busy, slow or something else: real sockets, one answer at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from hydra_node.chain.rpc import Rpc, RpcError, RpcUnavailable, UnknownEndpoint, WrongChain

if TYPE_CHECKING:
    from hydra_node.devnet.chains import LocalChain

GOOD = {"jsonrpc": "2.0", "id": 0, "result": "0x539"}
Answer = tuple[int, bytes]


def answer(content: object, status: int = 200) -> Answer:
    return status, json.dumps(content).encode()


@contextmanager
def server(answers: list[Answer]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in turn, the last for ever; also the methods it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["method"])
            status, content = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/secret-access-key", asked
        finally:
            http.shutdown()
            thread.join()


def test_a_chain_that_is_down_is_one_line_with_the_address(unused_port: int) -> None:
    with pytest.raises(RpcUnavailable) as caught:
        Rpc(f"http://127.0.0.1:{unused_port}", patience=0.3).request("eth_blockNumber")
    text = str(caught.value)
    assert f"the chain at http://127.0.0.1:{unused_port} did not answer within 0.3 s" in text
    assert "refused" in text
    assert "\n" not in text
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "busy",
    [
        (429, b"slow down"),
        (503, b""),
        (500, b"<html>"),
        answer({"jsonrpc": "2.0", "id": 0, "error": {"code": -32005, "message": "limit exceeded"}}),
        answer({"jsonrpc": "2.0", "id": 0, "error": {"code": 429, "message": "too many requests"}}),
    ],
)
def test_a_busy_chain_is_asked_again(busy: Answer) -> None:
    with server([busy, busy, answer(GOOD)]) as (url, asked):
        assert Rpc(url).chain_id == 1337
    assert asked == ["eth_chainId"] * 3


def test_a_chain_that_starts_late_is_waited_for(unused_port: int) -> None:
    results: list[int] = []
    asking = threading.Thread(
        target=lambda: results.append(Rpc(f"http://127.0.0.1:{unused_port}", patience=30).chain_id)
    )
    asking.start()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            content = json.dumps(GOOD).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", unused_port), Handler) as http:
        serving = threading.Thread(target=http.serve_forever, daemon=True)
        serving.start()
        asking.join(30)
        http.shutdown()
    assert results == [1337]


def test_a_chain_that_never_has_time_is_given_up() -> None:
    with (
        server([(503, b"")]) as (url, asked),
        pytest.raises(RpcUnavailable, match=r"within 0\.5 s \(HTTP status 503\)"),
    ):
        Rpc(url, patience=0.5).request("eth_blockNumber")
    assert len(asked) > 1


def test_a_chain_that_hangs_is_given_up(unused_port: int) -> None:
    import socket

    with socket.create_server(("127.0.0.1", unused_port)), pytest.raises(RpcUnavailable, match="timeout"):
        Rpc(f"http://127.0.0.1:{unused_port}", patience=0.5, timeout=0.2).request("eth_blockNumber")


@pytest.mark.parametrize(
    "other",
    [
        (404, b"not here"),
        (200, b"<html>hello</html>"),
        (200, b"[1, 2]"),
        (200, b'{"hello": "world"}'),
        (200, b"\xff\xfe"),
    ],
)
def test_a_server_that_is_no_chain_is_named_at_once(other: Answer) -> None:
    with server([other]) as (url, asked), pytest.raises(UnknownEndpoint) as caught:
        Rpc(url).request("eth_blockNumber")
    assert len(asked) == 1
    assert "\n" not in str(caught.value)


def test_an_access_key_in_the_address_is_never_shown() -> None:
    with server([(404, b"")]) as (url, _), pytest.raises(UnknownEndpoint) as caught:
        Rpc(url).request("eth_blockNumber")
    assert "secret-access-key" not in str(caught.value)
    assert "secret-access-key" not in repr(Rpc(url))


@pytest.mark.parametrize("url", ["", "127.0.0.1:8545", "ws://127.0.0.1:8545", "file:///etc/passwd", "http://"])
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(UnknownEndpoint, match="no address of a chain"):
        Rpc(url)


def test_a_name_that_nobody_has_is_not_waited_for() -> None:
    with pytest.raises(UnknownEndpoint, match=r"no machine is known as 'chain\.invalid'"):
        Rpc("http://chain.invalid:8545").request("eth_blockNumber")


def test_an_error_of_the_chain_is_passed_on_in_one_line() -> None:
    refusal = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "no\nsuch method"}}
    with server([answer(refusal)]) as (url, asked), pytest.raises(RpcError, match="no such method") as caught:
        Rpc(url).request("eth_magic")
    assert (caught.value.code, caught.value.method, len(asked)) == (-32601, "eth_magic", 1)


def test_another_chain_is_refused(chain: LocalChain) -> None:
    assert Rpc(chain.rpc_url).chain_id > 0
    with pytest.raises(WrongChain, match="expected chain 5"):
        _ = Rpc(chain.rpc_url, chain_id=5).chain_id
    with pytest.raises(WrongChain):
        Rpc(chain.rpc_url).check_chain(5)
