"""The part of Kubo's RPC that Hydra uses, over the embedded block store.

Source: Kubo's RPC reference (docs.ipfs.tech/reference/kubo/rpc). A Kubo daemon can take this server's place and
the other way round. Who reaches it may fill the store, so it listens on loopback only, and a web page in the user's
browser is kept out: every call is a POST, and foreign Host and Origin headers are refused.
"""

import asyncio
import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiohttp import hdrs, web

from hydra_node.errors import HydraError
from hydra_node.storage import dag, dagpb, unixfs, uploads
from hydra_node.storage.blockstore import BlockStore, PinMode
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import MalformedNode, NotPinned, StorageError
from hydra_node.storage.fetching import Fetch, FetchingReader
from hydra_node.storage.rpc_calls import (
    CODECS,
    BadRequest,
    argument,
    arguments,
    codec_named,
    duration,
    error_answer,
    flag,
    json_lines,
    multipart,
    number,
    one_block,
)
from hydra_node.storage.unixfs import Kind

VERSION = "0.8.0-hydra"
"""Read by clients as Kubo 0.8, whose calls these are."""
MAX_UPLOAD_BYTES = 16 * 1024 * 1024 * 1024
DEFAULT_TIMEOUT = 120.0
UPLOAD_TIMEOUT = 3600.0

_UPLOADS = ("/add", "/dag/import")
_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ConnectedPeer(NamedTuple):
    """A peer as `swarm/peers` shows it."""

    peer_id: str
    address: str


class KuboRpcServer:
    """Serves a block store under `/api/v0/`; use as an async context manager.

    `fetch` brings missing blocks from peers (None: the store is all there is). `peer_id` and `peers` are what `id`
    and `swarm/peers` answer. `port=0` takes a free port; `api` says which. Times are seconds, sizes bytes.
    """

    def __init__(
        self,
        store: BlockStore,
        fetch: Fetch | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        peer_id: str = "",
        peers: Callable[[], Sequence[ConnectedPeer]] = tuple,
        max_upload: int = MAX_UPLOAD_BYTES,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if not ipaddress.ip_address(host).is_loopback:
            raise StorageError(f"the storage API may not listen on {host}", expected="a loopback address")
        self._store = store
        self._reader = FetchingReader(store, fetch)
        self._host, self._port = host, port
        self._peer_id, self._peers = peer_id, peers
        self._max_upload = max_upload
        self._timeout = timeout
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The TCP port it listens on, once started."""
        return self._port

    @property
    def api(self) -> str:
        """The multiaddr for `IpfsClient`, once started."""
        family = "ip6" if ":" in self._host else "ip4"
        return f"/{family}/{self._host}/tcp/{self._port}/http"

    async def start(self) -> None:
        """Listen; raises StorageError when the port is taken."""
        app = web.Application(middlewares=[self._guard, self._answer_errors])
        for path, handler in self._routes().items():
            app.router.add_post(f"/api/v0/{path}", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise StorageError(
                f"port {self._port} on {self._host} cannot be used ({error.strerror})", remedy="choose another port"
            ) from error
        self._port = runner.addresses[0][1]
        self._runner = runner

    async def close(self) -> None:
        """Stop listening and end the calls in progress."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _routes(self) -> dict[str, _Handler]:
        return {
            "version": self._version,
            "id": self._id,
            "add": self._add,
            "cat": self._cat,
            "ls": self._ls,
            "block/get": self._block_get,
            "block/put": self._block_put,
            "block/stat": self._block_stat,
            "dag/get": self._dag_get,
            "dag/put": self._dag_put,
            "pin/add": self._pin_add,
            "pin/ls": self._pin_ls,
            "pin/rm": self._pin_rm,
            "repo/gc": self._repo_gc,
            "repo/stat": self._repo_stat,
            "swarm/peers": self._swarm_peers,
        }

    # Around every call

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuse calls that a web page could have caused, by another origin or by a rebound name (DNS rebinding)."""
        hosts = {f"{name}:{self._port}" for name in ("127.0.0.1", "localhost", "[::1]", self._host)}
        if request.headers.get(hdrs.HOST, "") not in hosts:
            raise web.HTTPForbidden(text="403 - Forbidden: foreign Host header")
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            raise web.HTTPForbidden(text="403 - Forbidden: foreign Origin header")
        return await handler(request)

    @web.middleware
    async def _answer_errors(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Run the call within its deadline; named errors become Kubo's error answer."""
        try:
            async with asyncio.timeout(self._deadline(request)):
                return await handler(request)
        except TimeoutError:
            return error_answer("context deadline exceeded")
        except BadRequest as error:
            return error_answer(str(error), status=400)
        except HydraError as error:
            return error_answer(str(error))

    def _deadline(self, request: web.Request) -> float:
        return duration(request, "timeout", UPLOAD_TIMEOUT if request.path.endswith(_UPLOADS) else self._timeout)

    # The node

    async def _version(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"Version": VERSION, "Commit": "", "Repo": "11", "System": "hydra", "Golang": ""})

    async def _id(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {
                "ID": self._peer_id,
                "PublicKey": "",
                "Addresses": [],
                "AgentVersion": "hydra-node",
                "ProtocolVersion": "hydra/1",
            }
        )

    async def _swarm_peers(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"Peers": [{"Addr": peer.address, "Peer": peer.peer_id} for peer in self._peers()]})

    async def _repo_stat(self, _request: web.Request) -> web.StreamResponse:
        usage = await asyncio.to_thread(self._store.usage)
        return web.json_response(
            {
                "NumObjects": usage.blocks,
                "RepoSize": usage.size,
                "StorageMax": self._store.quota or 0,
                "RepoPath": str(self._store.directory),
                "Version": "fs-repo@11",
            }
        )

    async def _repo_gc(self, _request: web.Request) -> web.StreamResponse:
        removed = await asyncio.to_thread(self._store.gc)
        return json_lines([{"Key": {"/": str(Cid(Codec.RAW, bytes.fromhex(digest)))}} for digest in removed])

    # Files

    async def _add(self, request: web.Request) -> web.StreamResponse:
        for option in ("trickle", "nocopy", "inline"):
            if flag(request, option, False):
                raise BadRequest(f"option {option} is not supported")
        if request.query.get("chunker", "size-262144") not in ("size-262144", "default"):
            raise BadRequest(f"chunker {request.query['chunker']}", expected="size-262144")
        raw_leaves = flag(request, "raw-leaves", True)
        options = uploads.AddOptions(
            # Without options: CIDv1, raw leaves. Refusing raw leaves asks for Kubo's older form, whose version is 0.
            version=number(request, "cid-version", 1 if raw_leaves else 0),
            raw_leaves=raw_leaves,
            pin=flag(request, "pin", True),
            only_hash=flag(request, "only-hash", False),
            wrap=flag(request, "wrap-with-directory", False),
        )
        if options.version not in (0, 1):
            raise BadRequest(f"cid-version {options.version}", expected="0 or 1")
        added = await uploads.add(self._store, await multipart(request), options, self._max_upload)
        return json_lines([{"Name": a.name, "Hash": str(a.entry.cid), "Size": str(a.entry.total_size)} for a in added])

    async def _cat(self, request: web.Request) -> web.StreamResponse:
        cid = await self._reader.resolve(argument(request))
        skip = number(request, "offset", 0)
        left = number(request, "length", 2**63)
        pieces = self._reader.file(cid)
        piece: bytes | None = await anext(pieces)  # an error in the root is still answered in words
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", "X-Stream-Output": "1"})
        await response.prepare(request)
        try:
            while piece is not None and left > 0:
                shown = piece[skip : skip + left]
                skip = max(0, skip - len(piece))
                left -= len(shown)
                await response.write(shown)
                piece = await anext(pieces, None)
            await response.write_eof()
        except ConnectionResetError:
            _log.debug("cat %s: the client went away", cid)  # it may, once it has read enough
        except (HydraError, asyncio.CancelledError):
            # The status line is sent, so only a broken connection can tell the client that this is not the end.
            _log.warning("cat %s broke off", cid, exc_info=True)
            if request.transport is not None:
                request.transport.abort()
            raise
        return response

    async def _ls(self, request: web.Request) -> web.StreamResponse:
        objects = []
        for path in arguments(request):
            cid = await self._reader.resolve(path)
            links = []
            if cid.codec is Codec.DAG_PB:
                node = unixfs.read_node(cid, await self._reader.get(cid))
                if node.kind is Kind.DIRECTORY:
                    links = [await self._ls_entry(link) for link in node.links]
            objects.append({"Hash": path, "Links": links})
        return web.json_response({"Objects": objects})

    async def _ls_entry(self, link: dagpb.Link) -> dict[str, Any]:
        kind, size = Kind.FILE, link.total_size
        if link.cid.codec is Codec.DAG_PB:
            node = unixfs.read_node(link.cid, await self._reader.get(link.cid))
            kind, size = node.kind, node.size
        return {"Name": link.name, "Hash": str(link.cid), "Size": size, "Type": int(kind), "Target": ""}

    # Blocks and nodes

    async def _block_get(self, request: web.Request) -> web.StreamResponse:
        block = await self._reader.get(await self._reader.resolve(argument(request)))
        return web.Response(body=block, headers={"X-Stream-Output": "1"})

    async def _block_stat(self, request: web.Request) -> web.StreamResponse:
        cid = await self._reader.resolve(argument(request))
        return web.json_response({"Key": str(cid), "Size": len(await self._reader.get(cid))})

    async def _block_put(self, request: web.Request) -> web.StreamResponse:
        form = request.query.get("cid-codec") or request.query.get("format", "raw")
        block = await one_block(request)
        cid = Cid.of(codec_named(request, form), block, 0 if form == "v0" else 1)
        await self._put(cid, block, pin=flag(request, "pin", False))
        return web.json_response({"Key": str(cid), "Size": len(block)})

    async def _dag_put(self, request: web.Request) -> web.StreamResponse:
        given = request.query.get("input-codec") or request.query.get("input-enc", "dag-json")
        stored = request.query.get("store-codec") or request.query.get("format", "dag-cbor")
        codec = codec_named(request, stored)
        data = await one_block(request)
        if given in ("json", "dag-json") and codec is Codec.DAG_CBOR:
            try:
                data = dag.encode(dag.from_json(json.loads(data)))
            except (ValueError, RecursionError) as error:
                raise MalformedNode(f"not dag-json ({error})") from error
        elif CODECS.get(given) is not codec:
            raise BadRequest(f"from {given} to {stored}", expected="dag-json to dag-cbor, or no conversion")
        cid = Cid.of(codec, data)
        await self._put(cid, data, pin=flag(request, "pin", False))
        return web.json_response({"Cid": {"/": str(cid)}})

    async def _put(self, cid: Cid, block: bytes, *, pin: bool) -> None:
        if cid.codec is Codec.DAG_CBOR:
            await asyncio.to_thread(dag.decode, block)  # refuses what nobody could read again
        elif cid.codec is Codec.DAG_PB:
            dagpb.decode(block)
        await asyncio.to_thread(self._store.put, cid, block)
        if pin:
            await self._pin(cid, recursive=True)

    async def _dag_get(self, request: web.Request) -> web.StreamResponse:
        cid = await self._reader.resolve(argument(request))
        block = await self._reader.get(cid)
        if request.query.get("output-codec", "dag-json") in ("raw", "dag-cbor", "dag-pb"):
            return web.Response(body=block)
        return web.json_response(await asyncio.to_thread(_json_of, cid, block))

    # Pins

    async def _pin_add(self, request: web.Request) -> web.StreamResponse:
        cids = [await self._reader.resolve(path) for path in arguments(request)]
        for cid in cids:
            await self._pin(cid, recursive=flag(request, "recursive", True))
        return web.json_response({"Pins": [str(cid) for cid in cids]})

    async def _pin(self, cid: Cid, *, recursive: bool) -> None:
        await (self._reader.whole(cid) if recursive else self._reader.get(cid))
        await asyncio.to_thread(lambda: self._store.pin(cid, recursive=recursive))

    async def _pin_rm(self, request: web.Request) -> web.StreamResponse:
        cids = [await self._reader.resolve(path) for path in arguments(request)]
        for cid in cids:
            await asyncio.to_thread(self._store.unpin, cid)
        return web.json_response({"Pins": [str(cid) for cid in cids]})

    async def _pin_ls(self, request: web.Request) -> web.StreamResponse:
        wanted = [await self._reader.resolve(path) for path in request.query.getall("arg", [])]
        kinds = await asyncio.to_thread(self._pin_kinds, request.query.get("type", "all"))
        for cid in wanted:
            if cid not in kinds:
                raise NotPinned(f"path '{cid}' is not pinned")
        shown = {cid: kind for cid, kind in kinds.items() if not wanted or cid in wanted}
        return web.json_response({"Keys": {str(cid): {"Type": kind} for cid, kind in shown.items()}})

    def _pin_kinds(self, asked: str) -> dict[Cid, str]:
        if asked not in ("all", "indirect", "recursive", "direct"):
            raise BadRequest(f"pin type {asked!r}", expected="all, indirect, recursive or direct")
        pins = self._store.pins()
        kinds: dict[Cid, str] = {}
        if asked in ("all", "indirect"):
            for root, mode in pins.items():
                if mode is PinMode.RECURSIVE:
                    kinds.update((cid, "indirect") for cid in self._store.walk(root) if cid != root)
        kinds.update((cid, mode.value) for cid, mode in pins.items() if asked in ("all", mode.value))
        return kinds


def _json_of(cid: Cid, block: bytes) -> Any:
    if cid.codec is Codec.DAG_CBOR:
        return dag.to_json(dag.decode(block))
    if cid.codec is Codec.RAW:
        return dag.to_json(block)
    node = dagpb.decode(block)
    links: list[dag.Node] = [{"Hash": link.cid, "Name": link.name, "Tsize": link.total_size} for link in node.links]
    return dag.to_json({"Data": node.data, "Links": links})
