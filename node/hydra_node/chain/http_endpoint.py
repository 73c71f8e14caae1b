"""One address of a chain's JSON-RPC, asked once at a time: web3.py over HTTP with the failures named."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
from web3 import HTTPProvider
from web3.exceptions import Web3Exception
from web3.types import RPCEndpoint, RPCResponse

from hydra_node.errors import HydraError

_BUSY_STATUS = frozenset({429, 500, 502, 503, 504})
_BUSY_CODES = frozenset({429, -32005, -32097})  # JSON-RPC's own ways of saying "too many requests"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_PROXY = {"http": "", "https": "", "all": ""}


class UnknownEndpoint(HydraError):
    """The address is no JSON-RPC endpoint of a chain."""


class NoAnswer(Exception):
    """One attempt failed in a way that another may not. `reason` is for people; with `arrived` False the endpoint has
    certainly not acted on the request."""

    def __init__(self, reason: str, *, arrived: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.arrived = arrived


class HttpEndpoint(HTTPProvider):
    """web3's HTTP provider, one attempt a request, each with its own time limit. Thread-safe.

    Raises `UnknownEndpoint` for a URL that cannot be one.
    """

    def __init__(self, url: str) -> None:
        parts = _parts(url)
        if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UnknownEndpoint(
                f"{shown(url)!r} is no address of a chain", expected='one like "http://127.0.0.1:8545"'
            )
        super().__init__(url, exception_retry_configuration=None)
        self.name = shown(url)
        self._host = parts.hostname
        self._attempt = threading.local()

    def attempt(self, method: str, params: Any, timeout: float) -> RPCResponse:
        """The response, after at most about `timeout` seconds of silence. Raises `NoAnswer`, `UnknownEndpoint`."""
        self._attempt.timeout = timeout
        try:
            response = self.make_request(RPCEndpoint(method), params)
        except requests.RequestException as error:
            raise self._no_answer(error) from None
        except (ValueError, Web3Exception):
            if _is_cut_short(self._attempt.answer):
                raise NoAnswer("the answer was cut short") from None
            raise self._no_json_rpc() from None
        if not isinstance(response, dict) or ("error" not in response and "result" not in response):
            raise self._no_json_rpc()
        if _is_busy(method, response):
            raise NoAnswer("it is asked too often", arrived=False)
        return response

    def get_request_kwargs(self) -> dict[str, Any]:
        """The arguments of the HTTP request, with the time limit of this thread's attempt."""
        options = {"headers": self.get_request_headers(), "timeout": self._attempt.timeout}
        return {**options, "proxies": _NO_PROXY} if self._host in _LOOPBACK else options

    def _make_request(self, method: RPCEndpoint, request_data: bytes) -> bytes:
        """The answer's bytes, kept for `_is_cut_short`."""
        self._attempt.answer = b""
        self._attempt.answer = super()._make_request(method, request_data)
        return bytes(self._attempt.answer)

    def _no_answer(self, error: requests.RequestException) -> NoAnswer:
        """Why the request is worth repeating. Raises `UnknownEndpoint` when it is not."""
        if isinstance(error, requests.HTTPError) and error.response is not None:
            status = error.response.status_code
            if status in _BUSY_STATUS:
                return NoAnswer(f"HTTP status {status}", arrived=status != 429)
            raise UnknownEndpoint(f"{self.name} answers with HTTP status {status}", expected="a JSON-RPC endpoint")
        if isinstance(error, requests.JSONDecodeError | requests.exceptions.InvalidURL):
            raise self._no_json_rpc()
        if isinstance(error, requests.Timeout):
            return NoAnswer("timeout")
        if "NameResolutionError" in repr(error):
            raise UnknownEndpoint(f"no machine is known as {self._host!r}", remedy="check the address")
        refused = "NewConnectionError" in repr(error)
        return NoAnswer("connection refused" if refused else "connection lost", arrived=not refused)

    def _no_json_rpc(self) -> UnknownEndpoint:
        return UnknownEndpoint(f"{self.name} does not speak JSON-RPC", remedy="check the address of the chain")


def shown(url: str) -> str:
    """The address without what may be secret in it: credentials, the path with an access key, the query."""
    if not set(url) & set("@/?#"):
        return url[:80]
    parts = _parts(url)
    if parts is None or not parts.netloc:
        return "(an address that is not shown, since it may hold a key)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL, or None when it is malformed: a port beyond 65535, a bracket that is never closed."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _is_cut_short(answer: bytes) -> bool:
    """Whether the bytes are the beginning of a JSON object: a web page or another protocol begins otherwise."""
    return answer.lstrip()[:1] == b"{" and not answer.rstrip().endswith(b"}")


def _is_busy(method: str, response: RPCResponse) -> bool:
    error = response.get("error")
    # For eth_getLogs the same codes mean "too many results", which asking again does not cure.
    return isinstance(error, dict) and error.get("code") in _BUSY_CODES and method != "eth_getLogs"
