"""The way agents reach storage: `ipfshttpclient` over the embedded node's Kubo RPC, or over a Kubo daemon's.

Nothing the daemon says is believed: what is added gets the CID computed here, and what is read hashes to the CID
asked for, or an error is raised.
"""

import io
import ipaddress
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import ipfshttpclient
import requests
from ipfshttpclient import client as ipfs_versions
from ipfshttpclient import exceptions as ipfs_errors

from hydra_node.storage import dag, unixfs
from hydra_node.storage.blockstore import MAX_BLOCK_BYTES
from hydra_node.storage.cid import Cid, Codec
from hydra_node.storage.errors import ContentNotFound, StorageError, StorageUnavailable, TooLarge, UnreadableFile
from hydra_node.storage.unixfs import Kind

DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_BYTES = 256 * 1024 * 1024
_ANSWER_MARGIN = 5.0
"""Seconds the daemon gets to say that its own deadline passed, before the socket's does."""
_SEND_BYTES = 256 * 1024
_NOT_FOUND = ("not found", "could not find", "deadline exceeded", "no link named")
_log = logging.getLogger(__name__)

# ipfshttpclient passes urllib3 an option that no longer has a meaning; users cannot do anything about it.
warnings.filterwarnings("ignore", message="The 'strict' parameter is no longer needed", category=FutureWarning)
_CODEC_NAMES = {Codec.RAW: "raw", Codec.DAG_PB: "dag-pb", Codec.DAG_CBOR: "dag-cbor"}


class DirectoryEntry(NamedTuple):
    """One line of `ls`: `size` is the content's for files."""

    name: str
    cid: Cid
    size: int
    kind: Kind


class IpfsClient:
    """A synchronous client; several threads may use one.

    `api` is a multiaddr such as "/ip4/127.0.0.1/tcp/5001/http" or a URL such as "http://127.0.0.1:5001". Each call
    ends within `timeout` seconds, its own or this default. Every method raises StorageUnavailable when the node is
    away and ContentNotFound when the content is.
    """

    def __init__(self, api: str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.api = _multiaddr(api)
        self.timeout = timeout
        self._local = threading.local()
        self._clients: list[Any] = []
        self._guard = threading.Lock()
        self._version_checked = False

    def close(self) -> None:
        """Close the connections of all threads; the client may be used again."""
        with self._guard:
            for client in self._clients:
                client.close()
            self._clients.clear()
            self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Content

    def add(self, content: bytes | Path, *, pin: bool = True, timeout: float | None = None) -> Cid:
        """Store bytes, a file, or a directory tree, durable when this returns; the root's CID."""
        if isinstance(content, bytes):
            expected = unixfs.cid_of(content)
            send = partial(_add_bytes, content)
        else:
            expected = _cid_of_path(content)
            send = partial(_add_path, content)
        options = {"cid-version": "1", "raw-leaves": "true", "pin": _text(pin)}
        _expect(expected, self._call(f"add {expected}", timeout, send, options))
        return expected

    def cat(self, cid: Cid, max_bytes: int = DEFAULT_MAX_BYTES, *, timeout: float | None = None) -> bytes:
        """A file's bytes, verified against `cid`. Raises TooLarge beyond `max_bytes`, CorruptBlock for other bytes."""
        deadline = time.monotonic() + self._seconds(timeout)

        def read(client: Any, **common: Any) -> bytes:
            return _collect(cid, client.cat(str(cid), stream=True, **common), max_bytes, deadline)

        # One byte more than allowed tells "too large" from "just fits", and is all that is ever sent.
        data: bytes = self._call(f"cat {cid}", timeout, read, {"length": str(max_bytes + 1)})
        if unixfs.cid_of(data) == cid:
            return data
        # A file stored with other chunks, or a lie: its own blocks, each verified, tell which.
        return b"".join(self._verified_blocks(cid, max_bytes, deadline))

    def _verified_blocks(self, cid: Cid, max_bytes: int, deadline: float) -> Iterator[bytes]:
        def get(block: Cid) -> bytes:
            return self.block(block, timeout=max(0.1, deadline - time.monotonic()))

        yield from unixfs.export_file(cid, get, max_bytes)

    def ls(self, cid: Cid, *, timeout: float | None = None) -> list[DirectoryEntry]:
        """The entries of a directory, by name; a file has none."""
        answer = self._call(f"ls {cid}", timeout, lambda client, **common: client.ls(str(cid), **common).as_json())
        try:
            return [
                DirectoryEntry(link["Name"], Cid.parse(link["Hash"]), link["Size"], Kind(link["Type"]))
                for link in answer["Objects"][0]["Links"]
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise StorageUnavailable(f"ls {cid}: an answer of unknown form", expected="Kubo's") from error

    # Blocks and nodes

    def put_node(self, node: dag.Node, *, pin: bool = True, timeout: float | None = None) -> Cid:
        """Store a dag-cbor node of at most 2 MiB; `Cid` values in it are links."""
        data = dag.encode(node)
        if len(data) > MAX_BLOCK_BYTES:
            raise TooLarge(f"a node of {len(data)} bytes", expected=f"at most {MAX_BLOCK_BYTES}")
        return self.put_block(Cid.of(Codec.DAG_CBOR, data), data, pin=pin, timeout=timeout)

    def get_node(self, cid: Cid, *, timeout: float | None = None) -> dag.Node:
        """A dag-cbor node, verified. Raises CorruptBlock, MalformedNode."""
        return dag.decode(self.block(cid, timeout=timeout))

    def put_block(self, cid: Cid, data: bytes, *, pin: bool = False, timeout: float | None = None) -> Cid:
        """Store one block under its CID; raises CorruptBlock when they do not belong together."""
        cid.verify(data)

        def send(client: Any, **common: Any) -> Any:
            return client.block.put(io.BytesIO(data), **common)["Key"]

        options = {"cid-codec": _CODEC_NAMES[cid.codec], "mhtype": "sha2-256", "pin": _text(pin)}
        _expect(cid, self._call(f"block put {cid}", timeout, send, options))
        return cid

    def block(self, cid: Cid, *, timeout: float | None = None) -> bytes:
        """One block, verified. Raises CorruptBlock."""
        deadline = time.monotonic() + self._seconds(timeout)

        def read(client: Any, **common: Any) -> bytes:
            return _collect(cid, client.block.get(str(cid), stream=True, **common), MAX_BLOCK_BYTES, deadline)

        data: bytes = self._call(f"block get {cid}", timeout, read)
        cid.verify(data)
        return data

    # Pins

    def pin(self, cid: Cid, *, timeout: float | None = None) -> None:
        """Keep content, fetching what is missing of it."""
        self._call(f"pin {cid}", timeout, lambda client, **common: client.pin.add(str(cid), **common))

    def unpin(self, cid: Cid, *, timeout: float | None = None) -> None:
        """Let content go at the next garbage collection; raises StorageError when it is not pinned."""
        self._call(f"unpin {cid}", timeout, lambda client, **common: client.pin.rm(str(cid), **common))

    def pins(self, *, timeout: float | None = None) -> set[Cid]:
        """What is pinned with all below it."""

        def read(client: Any, **common: Any) -> Any:
            return client.pin.ls(type="recursive", **common).as_json()

        return {Cid.parse(text) for text in self._call("pin ls", timeout, read).get("Keys", {})}

    def version(self, *, timeout: float | None = None) -> str:
        """The node's version: also a probe whether it is there."""
        return str(self._call("version", timeout, lambda client, **common: client.version(**common)["Version"]))

    # Calls

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout

    def _call(
        self, what: str, timeout: float | None, call: Callable[..., Any], options: dict[str, str] | None = None
    ) -> Any:
        """`call(client, opts=..., timeout=...)` on this thread's connection, with errors by their names here."""
        seconds = self._seconds(timeout)
        # The daemon's own deadline comes first, so that it can still answer in words.
        common = {"timeout": seconds + _ANSWER_MARGIN, "opts": {**(options or {}), "timeout": f"{seconds:.3f}s"}}
        with _named_errors(what, self.api):
            return call(self._client(), **common)

    def _client(self) -> Any:
        client = getattr(self._local, "client", None)
        if client is None:
            # Not `ipfshttpclient.connect`, which fails on a version it cannot read.
            client = ipfshttpclient.Client(self.api, session=True, chunk_size=_SEND_BYTES, timeout=self.timeout)
            _ignore_proxies(client)
            self._local.client = client
            with self._guard:
                self._clients.append(client)
        if not self._version_checked:
            _warn_of_version(str(client.version()["Version"]))
            self._version_checked = True
        return client


def _add_bytes(content: bytes, client: Any, **common: Any) -> str:
    return str(client.add_bytes(content, **common))


def _add_path(path: Path, client: Any, **common: Any) -> str:
    options: dict[str, str] = common.pop("opts")
    pin = options["pin"] == "true"
    answer = client.add(str(path), recursive=True, cid_version=1, raw_leaves=True, pin=pin, opts=options, **common)
    return str((answer[-1] if isinstance(answer, list) else answer)["Hash"])


def _cid_of_path(path: Path) -> Cid:
    def forget(_cid: Cid, _block: bytes) -> None: ...

    try:
        if path.is_dir():
            return unixfs.import_directory(path, forget).cid
        with path.open("rb") as stream:
            return unixfs.import_file(stream, forget)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror or error})", remedy="check the path") from error


def _collect(cid: Cid, stream: Any, max_bytes: int, deadline: float) -> bytes:
    """Join a streamed answer; raises TooLarge past `max_bytes`, StorageUnavailable past the deadline."""
    data = bytearray()
    with stream as pieces:
        for piece in pieces:
            data += piece
            if len(data) > max_bytes:
                raise TooLarge(f"{cid} is too large", expected=f"at most {max_bytes} bytes")
            if time.monotonic() > deadline:
                raise StorageUnavailable(f"the storage node sends {cid} too slowly", remedy="allow more time")
    return bytes(data)


def _expect(expected: Cid, answer: object) -> None:
    if str(answer) != str(expected):
        raise StorageError(
            f"the storage node stored {answer}", expected=str(expected), remedy="do not change files while adding them"
        )


@contextmanager
def _named_errors(what: str, api: str) -> Iterator[None]:
    try:
        yield
    except ipfs_errors.ErrorResponse as error:
        message = str(error)
        if any(sign in message for sign in _NOT_FOUND):
            raise ContentNotFound(f"{what}: {message}", remedy="check that somebody who has it is online") from error
        raise StorageError(f"{what}: the storage node refused: {message}") from error
    except ipfs_errors.AddressError as error:
        raise StorageUnavailable(f"{api!r} is no address", expected="such as /ip4/127.0.0.1/tcp/5001/http") from error
    except (ipfs_errors.TimeoutError, requests.Timeout) as error:
        raise StorageUnavailable(f"{what}: the storage node at {api} did not answer in time") from error
    except ipfs_errors.ConnectionError as error:
        raise StorageUnavailable(f"{what}: no storage node answers at {api}", remedy="check that it runs") from error
    except (ipfs_errors.Error, requests.RequestException, KeyError, AssertionError) as error:
        raise StorageUnavailable(
            f"{what}: the storage node at {api} cannot be used ({_first_line(error)})", remedy="check that it runs"
        ) from error


def _warn_of_version(version: str) -> None:
    """One line in the log for a version that `ipfshttpclient` was not made for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ipfs_versions.assert_version(version)
        except ValueError:
            _log.warning("storage node has the unreadable version %r; going on", version)
    if caught:
        _log.warning("storage node has version %s, which ipfshttpclient does not know; going on", version)


def _ignore_proxies(client: Any) -> None:
    """Reach the node itself even where HTTP_PROXY is set, as the library does for Unix sockets; it has no option."""
    client._client._request_proxies = {"no_proxy": "*"}


def _multiaddr(api: str) -> str:
    """A URL as a multiaddr; multiaddrs as they are."""
    url = urlsplit(api)
    if url.scheme not in ("http", "https") or url.hostname is None:
        return api
    try:
        kind = f"ip{ipaddress.ip_address(url.hostname).version}"
    except ValueError:
        kind = "dns"
    port = url.port or (443 if url.scheme == "https" else 80)
    return f"/{kind}/{url.hostname}/tcp/{port}/{url.scheme}"


def _text(flag: bool) -> str:
    return "true" if flag else "false"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
