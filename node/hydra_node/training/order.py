"""The global order of samples: a permutation an epoch that can be read at any place."""

import hashlib

import numpy as np
import numpy.typing as npt

from hydra_node.errors import HydraError

_ROUNDS = 8

Indices = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class BadPosition(HydraError):
    """A position or size that no sample order has."""


class SampleOrder:
    """Position p of the endless order is sample `index` of epoch p // size; each epoch is its own permutation.

    A Feistel network of eight rounds over the smallest even number of bits that holds `size`, walked along its
    cycle until the value falls below `size` (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
    Memory is constant whatever the size; keys come from the seed and the epoch by SHA-256.
    """

    def __init__(self, seed: int, size: int) -> None:
        if not (0 < size <= 2**48 and 0 <= seed < 2**63):
            raise BadPosition(
                f"no order of {size} samples with seed {seed}", expected="1 to 2^48 samples, a seed below 2^63"
            )
        self.seed = seed
        self.size = size
        self._half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)

    def __getitem__(self, position: int) -> tuple[int, int]:
        """(epoch, index) of one position."""
        return position // self.size, int(self.indices(position, position + 1)[0])

    def indices(self, start: int, stop: int) -> Indices:
        """Sample indices, int64, of the positions start <= p < stop; they may run over an epoch's end."""
        if not 0 <= start <= stop:
            raise BadPosition(f"positions {start} to {stop} are not a range of the sample order")
        parts = []
        for epoch in range(start // self.size, max(stop - 1, start) // self.size + 1):
            first = epoch * self.size
            places = np.arange(max(start, first) - first, min(stop, first + self.size) - first, dtype=np.uint64)
            parts.append(self._permute(epoch, places))
        return np.concatenate(parts).astype(np.int64)

    def _permute(self, epoch: int, places: Words) -> Words:
        keys = self._keys(epoch)
        values = self._encipher(places, keys)
        while (outside := values >= self.size).any():
            values[outside] = self._encipher(values[outside], keys)
        return values

    def _encipher(self, values: Words, keys: list[np.uint64]) -> Words:
        left, right = values >> self._half, values & self._mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << self._half) | right

    def _keys(self, epoch: int) -> list[np.uint64]:
        seed = f"hydra-order:{self.seed}:{self.size}:{epoch}:".encode()
        return [
            np.uint64(int.from_bytes(hashlib.sha256(seed + bytes([number])).digest()[:8], "big"))
            for number in range(_ROUNDS)
        ]


def _mix(words: Words) -> Words:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014), modulo 2^64."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
