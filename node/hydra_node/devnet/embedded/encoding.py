"""The hexadecimal forms of JSON-RPC: parameters in, results out. Everything from outside is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from eth_utils.address import to_checksum_address

INVALID_PARAMS = -32602
FAILED = -32000
MAX_DATA_BYTES = 131_072


class RpcError(Exception):
    """An error answer of JSON-RPC: code, message and, for reverts, the returned data as hexadecimal."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def invalid(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"invalid params: {message}")


def quantity(value: int) -> str:
    return hex(value)


def data(value: bytes) -> str:
    return "0x" + value.hex()


@lru_cache(maxsize=4096)
def address(value: bytes) -> str:
    return to_checksum_address(value)


def parse_quantity(value: Any, name: str, *, bits: int = 256) -> int:
    """A number given as hexadecimal text or as a JSON number."""
    try:
        number = int(value, 16) if isinstance(value, str) and value.startswith("0x") else value
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError
    except ValueError:
        raise invalid(f"{name} is not a quantity: {str(value)[:80]!r}") from None
    if not 0 <= number < 1 << bits:
        raise invalid(f"{name} is out of range")
    return number


def parse_data(value: Any, name: str, *, limit: int = MAX_DATA_BYTES) -> bytes:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise invalid(f"{name} is not hexadecimal data")
    if len(value) > 2 + 2 * limit:
        raise invalid(f"{name} is longer than {limit} bytes")
    try:
        return bytes.fromhex(value[2:])
    except ValueError:
        raise invalid(f"{name} is not hexadecimal data") from None


def parse_address(value: Any, name: str = "address") -> bytes:
    parsed = parse_data(value, name, limit=20)
    if len(parsed) != 20:
        raise invalid(f"{name} has {len(parsed)} bytes, not 20")
    return parsed


def parse_hash(value: Any, name: str = "hash") -> bytes:
    parsed = parse_data(value, name, limit=32)
    if len(parsed) != 32:
        raise invalid(f"{name} has {len(parsed)} bytes, not 32")
    return parsed


def parse_object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"{name} is not an object")
    return value
