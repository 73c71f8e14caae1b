"""Content identifiers (CIDs): the name of a block is its hash.

Source: the CID specification (github.com/multiformats/cid). Only what Hydra stores is accepted: SHA2-256 over
raw, dag-pb and dag-cbor blocks. Text comes out as CIDv1 in base32; version 0 is read and kept, so that content
added by an older Kubo keeps its name.
"""

import hashlib
from base64 import b32encode
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import multiformats

from hydra_node.storage.errors import CorruptBlock, InvalidCid

DIGEST_BYTES = 32
MAX_TEXT = 128
_SHA2_256 = 0x12


class Codec(IntEnum):
    """How a block's bytes are read (multicodec codes)."""

    RAW = 0x55
    DAG_PB = 0x70
    DAG_CBOR = 0x71


@dataclass(frozen=True, slots=True, order=True)
class Cid:
    """The address of one block: codec, 32-byte SHA2-256 digest, and the CID version it is written in."""

    codec: Codec
    digest: bytes
    version: int = 1

    def __post_init__(self) -> None:
        if len(self.digest) != DIGEST_BYTES:
            raise InvalidCid(f"a CID's digest has {len(self.digest)} bytes", expected=f"{DIGEST_BYTES}")
        if self.version not in (0, 1) or (self.version == 0 and self.codec is not Codec.DAG_PB):
            raise InvalidCid(f"version {self.version} with {self.codec.name}", expected="CIDv1, or CIDv0 with dag-pb")

    @classmethod
    def of(cls, codec: Codec, data: bytes, version: int = 1) -> Self:
        """The CID of a block that holds `data`."""
        return cls(codec, hashlib.sha256(data).digest(), version)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a CID in any multibase, or a CIDv0; raises InvalidCid."""
        if len(text) > MAX_TEXT:
            raise InvalidCid(f"{len(text)} characters are no CID", expected=f"at most {MAX_TEXT}")
        return cls._decode(text)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the binary form (as in dag-pb links and CAR files); raises InvalidCid."""
        if len(data) > MAX_TEXT:
            raise InvalidCid(f"{len(data)} bytes are no CID", expected=f"at most {MAX_TEXT}")
        return cls._decode(data)

    @classmethod
    def _decode(cls, source: str | bytes) -> Self:
        try:
            decoded = multiformats.CID.decode(source)
        except (ValueError, LookupError) as error:
            shown = source if isinstance(source, str) else source.hex()
            raise InvalidCid(f"{shown!r} is no CID ({error})", expected="such as bafkrei...") from error
        if decoded.hashfun.code != _SHA2_256:
            raise InvalidCid(f"hash function {decoded.hashfun.name}", expected="sha2-256")
        try:
            codec = Codec(decoded.codec.code)
        except ValueError as error:
            raise InvalidCid(f"codec {decoded.codec.name}", expected="raw, dag-pb or dag-cbor") from error
        return cls(codec, bytes(decoded.raw_digest), int(decoded.version))

    def __bytes__(self) -> bytes:
        """The binary form; both codec and hash codes fit one varint byte."""
        multihash = bytes((_SHA2_256, DIGEST_BYTES)) + self.digest
        return multihash if self.version == 0 else bytes((1, self.codec)) + multihash

    def __str__(self) -> str:
        if self.version == 0:
            return str(multiformats.CID("base58btc", 0, "dag-pb", bytes(self)))
        # Lower-case base32 without padding is multibase "b"; the standard library is 100 times faster at it.
        return "b" + b32encode(bytes(self)).decode("ascii").rstrip("=").lower()

    def matches(self, data: bytes) -> bool:
        """Whether `data` hashes to this CID."""
        return hashlib.sha256(data).digest() == self.digest

    def verify(self, data: bytes) -> None:
        """Raise CorruptBlock unless `data` hashes to this CID."""
        if not self.matches(data):
            raise CorruptBlock(
                f"{len(data)} bytes do not hash to {self}", expected="the block of that name", remedy="fetch it again"
            )
