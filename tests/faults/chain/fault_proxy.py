"""A proxy in front of a chain's JSON-RPC that fails in the ways that networks and nodes do, by a seed."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

FAULTS = ("lost request", "lost reply", "delay", "twice", "429", "500", "truncated", "stale")
DELAY_SECONDS = 0.15


@dataclass
class Plan:
    """How often which fault comes. `on_send` is told of every transaction: before it is passed on, and after."""

    seed: int
    rate: float
    faults: tuple[str, ...] = FAULTS
    on_send: Callable[[str], None] = lambda _moment: None
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def next(self) -> str | None:
        """The fault of the next request, if any."""
        return self.random.choice(self.faults) if self.random.random() < self.rate else None


class FaultProxy:
    """Serves on a free port of the loopback while it is entered; `plan` may be changed at any time."""

    def __init__(self, url: str, plan: Plan) -> None:
        self.plan = plan
        self.seen: dict[str, int] = {}
        self._target = urlsplit(url)
        self._older: dict[str, bytes] = {}
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with proxy._lock:
                    fault = proxy.plan.next()
                if fault:
                    proxy.seen[fault] = proxy.seen.get(fault, 0) + 1
                proxy._serve(self, body, fault)

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    """The client was killed; that is what these tests are about."""

            def log_message(self, *_arguments: Any) -> None:
                """The test's output is for the test."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler, body: bytes, fault: str | None) -> None:
        request = json.loads(body)
        sends = request["method"] == "eth_sendRawTransaction"
        if sends:
            self.plan.on_send("before")
        if fault == "lost request":
            return self._hang_up(handler)
        if fault in {"429", "500"}:
            return self._answer(handler, b"busy", int(fault))
        if fault == "delay":
            time.sleep(DELAY_SECONDS)
        answer = self._forward(body)
        if fault == "twice":
            answer = self._forward(body)
        if sends:
            self.plan.on_send("after")
        if fault == "lost reply":
            return self._hang_up(handler)
        if fault == "truncated":
            answer = answer[: len(answer) // 2]
        elif fault == "stale" and not sends:
            answer = self._as_before(request, answer)
        return self._answer(handler, answer)

    def _as_before(self, request: dict[str, Any], answer: bytes) -> bytes:
        """What the same question was answered when it was first asked, as a node that lags behind would."""
        question = json.dumps([request["method"], request["params"]])
        old = json.loads(self._older.setdefault(question, answer))
        return json.dumps({**old, "id": request["id"]}).encode()

    def _forward(self, body: bytes) -> bytes:
        connection = http.client.HTTPConnection(self._target.hostname or "", self._target.port, timeout=20)
        try:
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            return connection.getresponse().read()
        finally:
            connection.close()

    @staticmethod
    def _answer(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    @staticmethod
    def _hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.connection.close()
