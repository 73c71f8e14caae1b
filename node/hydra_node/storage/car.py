"""CAR v1 archives: blocks with their CIDs in one stream, to carry content without a network.

Source: the CARv1 specification (ipld.io/specs/transport/car/carv1).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from hydra_node.storage import dag
from hydra_node.storage.blockstore import MAX_BLOCK_BYTES, BlockStore
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import InvalidCid, MalformedNode, StorageError, TooLarge

MAX_HEADER_BYTES = 64 * 1024
_VARINT_BYTES = 9
_V0 = bytes((0x12, 0x20))
_V0_BYTES, _V1_BYTES = 34, 36


class MalformedCar(StorageError):
    """A stream is no CAR v1 archive, or ends in the middle of one."""


def pieces(roots: Iterable[Cid], blocks: Iterable[tuple[Cid, bytes]]) -> Iterator[bytes]:
    """The archive's bytes, a block at a time."""
    header = dag.encode({"roots": list(roots), "version": 1})
    yield _varint(len(header)) + header
    for cid, data in blocks:
        name = bytes(cid)
        yield _varint(len(name) + len(data)) + name + data


def export_car(store: BlockStore, root: Cid) -> Iterator[bytes]:
    """The archive of `root` and all below it, each block once, parents before children. Raises BlockNotFound."""
    return pieces([root], ((cid, store.get(cid)) for cid in store.walk(root)))


def import_car(stream: BinaryIO, put: Callable[[Cid, bytes], object]) -> list[Cid]:
    """Hand every block, verified, to `put`; the archive's roots. Raises MalformedCar, CorruptBlock, TooLarge."""
    roots = _header(stream)
    while (length := _read_varint(stream)) is not None:
        if length > MAX_BLOCK_BYTES + _V1_BYTES:
            raise TooLarge(f"a CAR section of {length} bytes", expected=f"at most {MAX_BLOCK_BYTES + _V1_BYTES}")
        section = _read(stream, length)
        size = _V0_BYTES if section.startswith(_V0) else _V1_BYTES
        try:
            cid = Cid.from_bytes(section[:size])
        except InvalidCid as error:
            raise MalformedCar(f"a CAR section without a readable CID ({error.what})") from error
        data = section[size:]
        cid.verify(data)
        put(cid, data)
    return roots


def _header(stream: BinaryIO) -> list[Cid]:
    length = _read_varint(stream)
    if length is None or length > MAX_HEADER_BYTES:
        raise MalformedCar("not a CAR archive", expected="a CARv1 header")
    try:
        header = dag.decode(_read(stream, length))
    except MalformedNode as error:
        raise MalformedCar(f"not a CAR archive ({error.what})", expected="a CARv1 header") from error
    roots = header.get("roots") if isinstance(header, dict) and header.get("version") == 1 else None
    if not isinstance(roots, list):
        raise MalformedCar("a CAR header of another version", expected="version 1 with roots")
    cids = [root for root in roots if isinstance(root, Cid)]
    if len(cids) != len(roots):
        raise MalformedCar("a CAR header whose roots are no CIDs")
    return cids


def _read(stream: BinaryIO, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = stream.read(length - len(data))
        if not piece:
            raise MalformedCar("the CAR archive ends in the middle of a block")
        data += piece
    return bytes(data)


def _read_varint(stream: BinaryIO) -> int | None:
    """The next unsigned LEB128 number; None at the end of the stream."""
    value = 0
    for i in range(_VARINT_BYTES):
        byte = stream.read(1)
        if not byte:
            if i == 0:
                return None
            raise MalformedCar("the CAR archive ends in the middle of a length")
        value |= (byte[0] & 0x7F) << (7 * i)
        if byte[0] < 0x80:
            return value
    raise MalformedCar("a length in the CAR archive is longer than nine bytes")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
