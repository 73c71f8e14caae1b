"""The JSON-RPC connection to a chain: one or several endpoints, patient with busy or restarting ones.

A request that meets a refused connection, a timeout, a 429 or a 5xx goes to the next endpoint at once, or is sent again
with exponential backoff and jitter, until its deadline. The first attempt waits a short time, each further one longer:
a request that the node lost (Ganache forgets an estimate of gas now and then) is soon repeated, and a slow one still
gets its time.

Of several endpoints the first that works is used. None is asked anything before it has shown that it serves the chain
that the others serve, by id and genesis block, and that it is not far behind: after each failure anew.

Reads may be repeated safely. A signed transaction that may have arrived is not repeated here: Ganache runs one twice
that comes again while its first copy is being mined. Its sender asks first whether the node has it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable
from typing import Any

from web3.types import RPCResponse

from hydra_node.chain.endpoints import Endpoints, Served
from hydra_node.chain.http_endpoint import HttpEndpoint, NoAnswer, UnknownEndpoint
from hydra_node.errors import HydraError

FIRST_TIMEOUT = 2.0
_LONGER = 1.5
FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 2.0
SEND = "eth_sendRawTransaction"

log = logging.getLogger(__name__)


class WrongChain(HydraError):
    """The endpoint serves another chain than the one asked for."""


class RpcUnavailable(HydraError):
    """No endpoint answered within the deadline. A request that was sent may have had its effect."""


class RpcError(HydraError):
    """The endpoint answered a request with an error. `code`, `message` and `data` are the node's own."""

    def __init__(self, method: str, error: Any) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        self.method = method
        self.code = fields.get("code")
        self.message = str(fields.get("message", ""))
        self.data = fields.get("data")
        super().__init__(f"the chain refused {method}: {' '.join(self.message.split())[:300]}")

    def says(self, phrases: Iterable[str]) -> bool:
        """Whether one of the phrases (lower case) is in the message, which is all that tells most refusals apart."""
        return any(phrase in self.message.lower() for phrase in phrases)


class Rpc:
    """A chain's endpoints. Thread-safe; one object may serve a whole process.

    `url` is one address, or several separated by commas, the preferred one first. `patience` is how long, in seconds,
    one request is retried before `RpcUnavailable`; `timeout` is the longest that one attempt takes. With `chain_id`,
    the first use of it checks that the endpoint serves that chain, and none of several that does not is used
    (`WrongChain`). Raises `UnknownEndpoint` for what is no address.
    """

    def __init__(self, url: str, *, chain_id: int | None = None, patience: float = 30.0, timeout: float = 10.0) -> None:
        addresses = dict.fromkeys(part.strip() for part in url.split(",") if part.strip()) or [url]
        self._failover = _Failover([HttpEndpoint(each) for each in addresses], chain_id, patience, timeout)
        self._expected = chain_id
        self._chain_id: int | None = None

    def __repr__(self) -> str:
        return f"Rpc({self._failover.name!r})"

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
                f"{self._failover.name} serves chain {served}",
                expected=f"chain {expected}",
                remedy="use another address",
            )

    def request(self, method: str, *params: Any) -> Any:
        """The raw result of one JSON-RPC request. Raises `RpcError`, `RpcUnavailable`, `UnknownEndpoint`, and with
        several endpoints `WrongChain`."""
        return _result(method, self._failover.request(method, list(params)))


class _Failover:
    """Asks the best endpoint, and others in its place, until a deadline."""

    def __init__(self, http: list[HttpEndpoint], chain_id: int | None, patience: float, timeout: float) -> None:
        self.name = ", ".join(endpoint.name for endpoint in http)
        self._http = http
        self._patience = patience
        self._timeout = timeout
        self._jitter = random.Random()
        self._lock = threading.Lock()
        self._endpoints = Endpoints.untried(len(http), chain_id)

    def request(self, method: str, params: list[Any]) -> RPCResponse:
        """The first response. Raises `RpcUnavailable`, `UnknownEndpoint`, `WrongChain`."""
        deadline = time.monotonic() + self._patience
        backoff = FIRST_BACKOFF
        timeout = self._timeout if method == SEND else min(FIRST_TIMEOUT, self._timeout)
        failures: dict[int, NoAnswer | UnknownEndpoint] = {}
        while True:
            index = self._best()
            try:
                return self._ask(index, method, params, timeout)
            except (NoAnswer, UnknownEndpoint) as error:
                failures[index] = error
                if isinstance(error, UnknownEndpoint) and self._none_is_known(failures):
                    raise
                if method == SEND and _may_have_arrived(error):
                    raise self._unavailable(failures) from None
            pause = self._jitter.uniform(backoff / 2, backoff) if self._all_rest() else 0.0
            if time.monotonic() + pause > deadline:
                raise self._unavailable(failures)
            if pause:
                # An endpoint does not tell when it is well again: it can only be asked, and not too often.
                time.sleep(pause)
                backoff = min(2 * backoff, LONGEST_BACKOFF)
            timeout = min(_LONGER * timeout, self._timeout)

    def _ask(self, index: int, method: str, params: list[Any], timeout: float) -> RPCResponse:
        """One attempt. Raises `NoAnswer`, `UnknownEndpoint`."""
        endpoint = self._endpoints.known[index]
        try:
            if len(self._http) > 1 and not endpoint.admitted:
                self._admit(index, min(FIRST_TIMEOUT * _LONGER ** min(endpoint.failures, 16), self._timeout))
            response = self._http[index].attempt(method, params, timeout)
        except (NoAnswer, UnknownEndpoint):
            with self._lock:
                self._endpoints = self._endpoints.failed(index, time.monotonic())
            raise
        head = response.get("result") if method == "eth_blockNumber" else None
        with self._lock:
            self._endpoints = self._endpoints.answered(index, int(str(head), 16) if head else 0)
        return response

    def _admit(self, index: int, timeout: float) -> None:
        """Let an endpoint show what it serves. Raises `NoAnswer` with `arrived` False, `UnknownEndpoint`."""
        endpoint = self._http[index]
        try:
            answers = [_result(method, endpoint.attempt(method, params, timeout)) for method, params in _INTRODUCTION]
            served = Served(int(answers[0], 16), str(answers[1]["hash"]), int(answers[2], 16))
        except (NoAnswer, RpcError) as error:
            raise NoAnswer(str(error), arrived=False) from None
        except (TypeError, ValueError, KeyError):
            raise UnknownEndpoint(f"{endpoint.name} does not say which chain it serves") from None
        with self._lock:
            self._endpoints = self._endpoints.introduced(index, served)
            state = self._endpoints.known[index]
        if state.barred:
            log.warning("%s is not used: it %s", endpoint.name, state.barred)
        if not state.admitted:
            raise NoAnswer(f"it {state.barred or 'is too many blocks behind'}", arrived=False)

    def _best(self) -> int:
        index = self._endpoints.best(time.monotonic())
        if index is None:
            raise WrongChain(
                f"{self._http[0].name} {self._endpoints.known[0].barred}, and so it is with every other address",
                remedy="use another address",
            )
        return index

    def _all_rest(self) -> bool:
        index, now = self._best(), time.monotonic()
        return self._endpoints.rests(index, now)

    def _none_is_known(self, failures: dict[int, NoAnswer | UnknownEndpoint]) -> bool:
        """Whether each address that may be asked proved to be no endpoint at all."""
        return all(
            endpoint.barred is not None or isinstance(failures.get(index), UnknownEndpoint)
            for index, endpoint in enumerate(self._endpoints.known)
        )

    def _unavailable(self, failures: dict[int, NoAnswer | UnknownEndpoint]) -> RpcUnavailable:
        reasons = [str(error) for error in failures.values()]
        if len(self._http) > 1:
            reasons = [f"{self._http[index].name}: {error}" for index, error in failures.items()]
        return RpcUnavailable(
            f"the chain at {self.name} did not answer within {self._patience:g} s ({'; '.join(reasons)})",
            remedy="check that it runs and that the address is right",
        )


_INTRODUCTION: tuple[tuple[str, list[Any]], ...] = (
    ("eth_chainId", []),
    ("eth_getBlockByNumber", ["0x0", False]),
    ("eth_blockNumber", []),
)


def _result(method: str, response: RPCResponse) -> Any:
    """What an endpoint answered. Raises `RpcError`."""
    if response.get("error") is not None:
        raise RpcError(method, response["error"])
    return response.get("result")


def _may_have_arrived(error: NoAnswer | UnknownEndpoint) -> bool:
    return isinstance(error, UnknownEndpoint) or error.arrived
