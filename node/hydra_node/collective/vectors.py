"""Arithmetic and hashing of vectors: what every member must do in exactly the same way.

A vector is float32, little-endian, one dimension. It is cut into at most `MAX_CHUNKS` chunks whose size depends on its
length alone. Its digest is the SHA-256 of its length and its chunks' SHA-256 digests, so an owner of some chunks can
check them against a list that the sender signed once, whoever owns which chunks in this attempt.
"""

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

MAX_CHUNKS = 64
MIN_CHUNK = 1024
DTYPE = np.dtype("<f4")


def chunk_length(size: int) -> int:
    """How many numbers a chunk of a vector of `size` numbers has (the last one may have fewer)."""
    return max(MIN_CHUNK, math.ceil(size / MAX_CHUNKS))


def chunk_digests(part: Vector, chunk: int) -> tuple[bytes, ...]:
    """SHA-256 of each chunk of `part`, which starts at a chunk's border."""
    raw = np.ascontiguousarray(part, dtype=DTYPE).view(np.uint8).data if len(part) else memoryview(b"")
    step = chunk * DTYPE.itemsize
    return tuple(hashlib.sha256(raw[at : at + step]).digest() for at in range(0, len(raw), step))


@lru_cache(maxsize=4096)
def combine(size: int, digests: tuple[bytes, ...]) -> bytes:
    """The digest of a vector of `size` numbers whose chunks have these digests."""
    return hashlib.sha256(b"hydra-vector/1" + size.to_bytes(8, "big") + b"".join(digests)).digest()


def vector_digest(vector: Vector) -> bytes:
    """The digest by which records name a contribution or a result."""
    return combine(len(vector), chunk_digests(vector, chunk_length(len(vector))))


def to_bytes(vector: Vector) -> bytes:
    """Little-endian float32 bytes of a vector."""
    return np.ascontiguousarray(vector, dtype=DTYPE).tobytes()


def from_bytes(raw: bytes | bytearray | memoryview) -> Vector:
    """The vector of these bytes, without a copy."""
    return np.frombuffer(raw, dtype=DTYPE)


@lru_cache(maxsize=64)
def shards(size: int, peers: tuple[str, ...]) -> Mapping[str, tuple[int, int]]:
    """Who owns which numbers: (start, stop) by peer, equal up to one chunk; without peers that would own none."""
    chunk = chunk_length(size)
    count = math.ceil(size / chunk)
    cuts = [count * place // len(peers) for place in range(len(peers) + 1)]
    bounds = ((cuts[i] * chunk, min(cuts[i + 1] * chunk, size)) for i in range(len(peers)))
    return MappingProxyType({peer: bound for peer, bound in zip(peers, bounds, strict=True) if bound[0] < bound[1]})


def squared_norm(part: Vector) -> float:
    """The sum of squares in float64; infinite or NaN exactly when some number is."""
    wide = part.astype(np.float64)
    return float(np.dot(wide, wide))


def weighted_mean(parts: Sequence[Vector], samples: Sequence[int], clips: Sequence[float]) -> Vector:
    """sum(samples x clip x part) / sum(samples) in the order given, in float64, rounded once; zeros for no samples."""
    total = sum(samples)
    result = np.zeros(len(parts[0]), dtype=np.float64)
    for part, count, clip in zip(parts, samples, clips, strict=True):
        if count:
            result += part.astype(np.float64) * (count * clip / total)
    return result.astype(DTYPE)


def clip_factors(norms: Sequence[float], samples: Sequence[int], slack: float) -> tuple[float, ...]:
    """What each contribution is scaled by: 1, or radius / norm for one that is longer than its radius.

    The radius of b_i of B samples is slack x median norm x sqrt(B / b_i): a mean of fewer samples is noisier. The
    median is the lower one. Fewer than three contributions have no meaningful median and are not clipped.
    """
    counted = [norm for norm, count in zip(norms, samples, strict=True) if count]
    if slack <= 0 or len(counted) < 3:
        return (1.0,) * len(norms)
    typical = slack * statistics.median_low(counted)
    total = sum(samples)
    radii = [typical * math.sqrt(total / count) if count else math.inf for count in samples]
    return tuple(1.0 if norm <= radius else radius / norm for norm, radius in zip(norms, radii, strict=True))
