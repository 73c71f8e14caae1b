"""The JSON-RPC connection to a chain: web3.py over HTTP, patient with a busy or restarting node.

A request that meets a refused connection, a timeout, a 429 or a 5xx is sent again with exponential backoff and jitter
until its deadline. The first attempt waits a short time, each further one longer: a request that the node lost
(Ganache forgets an estimate of gas now and then) is soon repeated, and a slow one still gets its time.

Reads may be repeated safely. A signed transaction that may have arrived is not repeated here: Ganache runs one twice
that comes again while its first copy is being mined. Its sender asks first whether the node has it.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import requests
from web3 import HTTPProvider, Web3
from web3.exceptions import Web3Exception
from web3.types import RPCEndpoint, RPCResponse

from hydra_node.errors import HydraError

FIRST_TIMEOUT = 2.0
_LONGER = 1.5
FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 2.0
_BUSY_STATUS = frozenset({429, 500, 502, 503, 504})
_BUSY_CODES = frozenset({429, -32005, -32097})  # JSON-RPC's own ways of saying "too many requests"
SEND = "eth_sendRawTransaction"
_BUSY = "it is asked too often"
_REFUSED = "connection refused"
_NOT_ARRIVED = frozenset({_BUSY, _REFUSED})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_PROXY = {"http": "", "https": "", "all": ""}


class UnknownEndpoint(HydraError):
    """The address is no JSON-RPC endpoint of a chain."""


class WrongChain(HydraError):
    """The endpoint serves another chain than the one asked for."""


class RpcUnavailable(HydraError):
    """The endpoint did not answer within the deadline. A request that was sent may have had its effect."""


class RpcError(HydraError):
    """The endpoint answered a request with an error. `code`, `message` and `data` are the node's own."""

    def __init__(self, method: str, error: Any) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        self.method = method
        self.code = fields.get("code")
        self.message = str(fields.get("message", ""))
        self.data = fields.get("data")
        super().__init__(f"the chain refused {method}: {' '.join(self.message.split())[:300]}")


class Rpc:
    """A chain's endpoint. Thread-safe; one object may serve a whole process.

    `patience` is how long, in seconds, one request is retried before `RpcUnavailable`; `timeout` is the longest that
    one attempt takes. With `chain_id`, the first use checks that the endpoint serves that chain (`WrongChain`).
    """

    def __init__(self, url: str, *, chain_id: int | None = None, patience: float = 30.0, timeout: float = 10.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UnknownEndpoint(
                f"{shown(url)!r} is no address of a chain", expected='one like "http://127.0.0.1:8545"'
            )
        self.url = url
        self.web3 = Web3(_PatientProvider(url, patience=patience, timeout=timeout))
        self._expected = chain_id
        self._chain_id: int | None = None

    def __repr__(self) -> str:
        return f"Rpc({shown(self.url)!r})"

    @property
    def chain_id(self) -> int:
        """The id of the chain served, asked for once. Raises `WrongChain` when another was expected."""
        if self._chain_id is None:
            served = int(self.request("eth_chainId"), 16)
            self._check(served, self._expected)
            self._chain_id = served
        return self._chain_id

    def check_chain(self, expected: int) -> None:
        """Ask the endpoint again which chain it serves. Raises `WrongChain`."""
        self._check(int(self.request("eth_chainId"), 16), expected)

    def _check(self, served: int, expected: int | None) -> None:
        if expected is not None and served != expected:
            raise WrongChain(
                f"{shown(self.url)} serves chain {served}", expected=f"chain {expected}", remedy="use another address"
            )

    def request(self, method: str, *params: Any) -> Any:
        """The raw result of one JSON-RPC request. Raises `RpcError`, `RpcUnavailable`, `UnknownEndpoint`."""
        response = self.web3.provider.make_request(RPCEndpoint(method), list(params))
        if not isinstance(response, dict) or ("error" not in response and "result" not in response):
            raise UnknownEndpoint(f"{shown(self.url)} does not speak JSON-RPC")
        if response.get("error") is not None:
            raise RpcError(method, response["error"])
        return response.get("result")


class _PatientProvider(HTTPProvider):
    """web3's HTTP provider with retries until a deadline and the failures named."""

    def __init__(self, url: str, *, patience: float, timeout: float) -> None:
        super().__init__(url, exception_retry_configuration=None)
        self._url = url
        self._direct = urlsplit(url).hostname in _LOOPBACK
        self._timeout = timeout
        self._attempt = threading.local()
        self._patience = patience
        self._jitter = random.Random()

    def get_request_kwargs(self) -> dict[str, Any]:
        """The arguments of the HTTP request, with the time limit of this thread's attempt."""
        options = {"headers": self.get_request_headers(), "timeout": getattr(self._attempt, "timeout", self._timeout)}
        return {**options, "proxies": _NO_PROXY} if self._direct else options

    def _make_request(self, method: RPCEndpoint, request_data: bytes) -> bytes:
        """The answer's bytes, kept for `_is_cut_short`."""
        self._attempt.answer = b""
        self._attempt.answer = super()._make_request(method, request_data)
        return bytes(self._attempt.answer)

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        deadline = time.monotonic() + self._patience
        once = method == SEND
        backoff, timeout = FIRST_BACKOFF, self._timeout if once else min(FIRST_TIMEOUT, self._timeout)
        while True:
            self._attempt.timeout = timeout
            try:
                response = super().make_request(method, params)
                if not _is_busy(method, response):
                    return response
                reason = _BUSY
            except requests.RequestException as error:
                reason = self._retriable(error)
            except (ValueError, Web3Exception):
                if not _is_cut_short(self._attempt.answer):
                    raise UnknownEndpoint(
                        f"{shown(self._url)} does not speak JSON-RPC", remedy="check the address of the chain"
                    ) from None
                reason = "the answer was cut short"
            pause = self._jitter.uniform(backoff / 2, backoff)
            if time.monotonic() + pause > deadline or (once and reason not in _NOT_ARRIVED):
                raise RpcUnavailable(
                    f"the chain at {shown(self._url)} did not answer within {self._patience:g} s ({reason})",
                    remedy="check that it runs and that the address is right",
                )
            time.sleep(pause)
            backoff = min(2 * backoff, LONGEST_BACKOFF)
            timeout = min(_LONGER * timeout, self._timeout)

    def _retriable(self, error: requests.RequestException) -> str:
        """Why the request is worth repeating. Raises `UnknownEndpoint` when it is not."""
        if isinstance(error, requests.HTTPError) and error.response is not None:
            status = error.response.status_code
            if status in _BUSY_STATUS:
                return f"HTTP status {status}"
            raise UnknownEndpoint(
                f"{shown(self._url)} answers with HTTP status {status}", expected="a JSON-RPC endpoint"
            )
        if isinstance(error, requests.JSONDecodeError | requests.exceptions.InvalidURL):
            raise UnknownEndpoint(f"{shown(self._url)} does not speak JSON-RPC")
        if isinstance(error, requests.Timeout):
            return "timeout"
        if "NameResolutionError" in repr(error):
            raise UnknownEndpoint(
                f"no machine is known as {urlsplit(self._url).hostname!r}", remedy="check the address"
            )
        return _REFUSED if "NewConnectionError" in repr(error) else "connection lost"


def shown(url: str) -> str:
    """The address without what may be secret in it: credentials, the path with an access key, the query."""
    parts = urlsplit(url)
    if not parts.scheme and not set(url) & set("@/?"):
        return url[:80]
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def _is_cut_short(answer: bytes) -> bool:
    """Whether the bytes are the beginning of a JSON object: a web page or another protocol begins otherwise."""
    return answer.lstrip()[:1] == b"{" and not answer.rstrip().endswith(b"}")


def _is_busy(method: str, response: RPCResponse) -> bool:
    error = response.get("error") if isinstance(response, dict) else None
    # For eth_getLogs the same codes mean "too many results", which asking again does not cure.
    return isinstance(error, dict) and error.get("code") in _BUSY_CODES and method != "eth_getLogs"
