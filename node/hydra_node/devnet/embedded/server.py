"""JSON-RPC 2.0 over HTTP POST, single requests and batches."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from hydra_node.devnet.embedded.encoding import INVALID_PARAMS, RpcError

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 << 20
MAX_BATCH = 1_000
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WORKERS = 4

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RpcServer:
    """Answers requests with the callables it is given: coroutine functions here, plain ones in worker threads."""

    def __init__(self, methods: dict[str, Callable[..., Any]]) -> None:
        self._methods = methods
        self._workers = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="rpc")

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_loopback_origins_only])
        app.router.add_post("/", self._post)
        app.on_cleanup.append(self._close)
        return app

    async def answer(self, body: bytes) -> bytes | None:
        """The answer to one HTTP body; None when it held notifications only."""
        try:
            request = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _encode(_failure(None, PARSE_ERROR, f"parse error: {error}"))
        if not isinstance(request, list):
            answer = await self._one(request)
            return None if answer is None else _encode(answer)
        if not 1 <= len(request) <= MAX_BATCH:
            return _encode(_failure(None, INVALID_REQUEST, f"a batch holds 1 to {MAX_BATCH} requests"))
        answers = [answer for item in request if (answer := await self._one(item)) is not None]
        return _encode(answers) if answers else None

    async def _post(self, request: web.Request) -> web.StreamResponse:
        answer = await self.answer(await request.read())
        if answer is None:
            return web.Response(status=204)
        return web.Response(body=answer, content_type="application/json")

    async def _close(self, _: web.Application) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def _one(self, request: Any) -> dict[str, Any] | None:
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _failure(None, INVALID_REQUEST, "invalid request")
        identity, parameters = request.get("id"), request.get("params") or []
        if not isinstance(parameters, list):
            return _failure(identity, INVALID_PARAMS, "invalid params: expected a list")
        try:
            result = await self._call(request["method"], parameters)
        except RpcError as error:
            answer = _failure(identity, error.code, error.message, error.data)
        except Exception as error:
            log.exception("request %s failed", request["method"])
            answer = _failure(identity, INTERNAL_ERROR, f"internal error: {type(error).__name__}: {error}")
        else:
            answer = {"jsonrpc": "2.0", "id": identity, "result": result}
        return answer if "id" in request else None

    async def _call(self, name: str, parameters: list[Any]) -> Any:
        method = self._methods.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"the method {name[:80]} does not exist/is not available")
        try:
            inspect.signature(method).bind(*parameters)
        except TypeError as error:
            raise RpcError(INVALID_PARAMS, f"invalid params: {error}") from error
        if inspect.iscoroutinefunction(method):
            return await method(*parameters)
        return await asyncio.get_running_loop().run_in_executor(self._workers, lambda: method(*parameters))


@web.middleware
async def _loopback_origins_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep web pages of other sites from using a chain on the visitor's machine; let local pages read answers."""
    origin = request.headers.get("Origin")
    if origin is None:
        return await handler(request)
    if urlsplit(origin).hostname not in _LOOPBACK:
        raise web.HTTPForbidden(text="this chain answers pages from this machine only")
    response = web.Response(status=204) if request.method == "OPTIONS" else await handler(request)
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Allow-Headers"] = "content-type"
    response.headers["Vary"] = "Origin"
    return response


def _failure(identity: Any, code: int, message: str, data: str | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": identity, "error": error}


def _encode(answer: Any) -> bytes:
    return msgspec.json.encode(answer)
