"""Reading the arguments and bodies of Kubo RPC calls, and the forms of their answers."""

import json
import re
from collections.abc import Sequence
from typing import Any

from aiohttp import BodyPartReader, web

from hydra_node.storage import unixfs
from hydra_node.storage.blockstore import MAX_BLOCK_BYTES
from hydra_node.storage.cid import Codec
from hydra_node.storage.errors import StorageError, TooLarge

CODECS = {
    "raw": Codec.RAW,
    "protobuf": Codec.DAG_PB,
    "dag-pb": Codec.DAG_PB,
    "v0": Codec.DAG_PB,
    "cbor": Codec.DAG_CBOR,
    "dag-cbor": Codec.DAG_CBOR,
}
"""Every name under which Kubo's versions take these codecs."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class BadRequest(StorageError):
    """A call with arguments this server cannot serve."""


def error_answer(message: str, status: int = 500) -> web.Response:
    """Kubo's form of an error."""
    return web.json_response({"Message": message, "Code": 0, "Type": "error"}, status=status)


def json_lines(objects: Sequence[Any]) -> web.Response:
    """Objects as Kubo streams them, one a line."""
    return web.Response(text="".join(json.dumps(o) + "\n" for o in objects), content_type="application/json")


def argument(request: web.Request) -> str:
    """The first `arg` of a call; raises BadRequest without one."""
    return arguments(request)[0]


def arguments(request: web.Request) -> list[str]:
    """Every `arg` of a call; raises BadRequest without one."""
    found = request.query.getall("arg", [])
    if not found:
        raise BadRequest('argument "ipfs-path" is required')
    return found


def flag(request: web.Request, name: str, default: bool) -> bool:
    """A boolean option; raises BadRequest."""
    text = request.query.get(name, str(default)).lower()
    if text not in ("true", "false", "1", "0"):
        raise BadRequest(f"option {name}={text}", expected="true or false")
    return text in ("true", "1")


def number(request: web.Request, name: str, default: int) -> int:
    """A whole-number option, not negative; raises BadRequest."""
    text = request.query.get(name, str(default))
    if not re.fullmatch(r"\d{1,19}", text):
        raise BadRequest(f"option {name}={text}", expected="a whole number")
    return int(text)


def codec_named(request: web.Request, name: str) -> Codec:
    """The codec of a name, for a call that hashes with SHA2-256; raises BadRequest."""
    if request.query.get("mhtype", "sha2-256") != "sha2-256":
        raise BadRequest(f"hash function {request.query['mhtype']}", expected="sha2-256")
    if name not in CODECS:
        raise BadRequest(f"codec {name}", expected="raw, dag-pb or dag-cbor")
    return CODECS[name]


async def multipart(request: web.Request) -> Any:
    """The reader of the body's parts; raises BadRequest for another body."""
    if not request.content_type.startswith("multipart/"):
        raise BadRequest(f"a body of type {request.content_type}", expected="multipart/form-data")
    try:
        return await request.multipart()
    except (ValueError, AssertionError) as error:
        raise BadRequest(f"malformed multipart body ({error})") from error


async def one_block(request: web.Request) -> bytes:
    """The first part of the body, at most one block."""
    part = await (await multipart(request)).next()
    if not isinstance(part, BodyPartReader):
        raise BadRequest("the body holds no file")
    data = bytearray()
    while chunk := await part.read_chunk(unixfs.CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_BLOCK_BYTES:
            raise TooLarge("the block is too large", expected=f"at most {MAX_BLOCK_BYTES} bytes")
    return bytes(data)


def duration(request: web.Request, name: str, default: float) -> float:
    """Seconds of an option in Go's notation; raises BadRequest."""
    text = request.query.get(name)
    if text is None:
        return default
    if not re.fullmatch(f"({_DURATION.pattern})+", text):
        raise BadRequest(f"option {name}={text!r}", expected="a duration such as 30s or 1m30s")
    return sum(float(amount) * _UNITS[unit] for amount, unit in _DURATION.findall(text))
