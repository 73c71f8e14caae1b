"""Python values to and from the ABI's bytes: structs are dataclasses, enums `IntEnum`s, addresses checksummed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from eth_abi.codec import ABICodec
from eth_abi.decoding import StringDecoder
from eth_abi.exceptions import DecodingError, EncodingError
from eth_abi.registry import BaseEquals, registry
from eth_utils.address import is_address, to_checksum_address

from hydra_node.chain.abi import Function, Param
from hydra_node.chain.bindings.structs import STRUCTS
from hydra_node.chain.enums import ENUMS
from hydra_node.errors import HydraError


def _lenient_codec() -> ABICodec:
    """A codec that shows malformed UTF-8 instead of failing on it.

    Solidity does not check the strings it is given, so that one sender could otherwise put a log on the chain that
    nobody can read past.
    """
    # eth-abi annotates only a part of itself.
    own: Any = cast(Any, registry).copy()
    own.unregister_decoder("string")
    lenient: Any = StringDecoder
    of_type: Any = BaseEquals
    own.register_decoder(of_type("string"), lenient(handle_string_errors="backslashreplace"), label="string")
    return ABICodec(own)


_CODEC = _lenient_codec()


class BadArgument(HydraError):
    """A value that the contract's function cannot take."""


class BadAnswer(HydraError):
    """Bytes from the chain that are not what the ABI says; usually another contract lives at the address."""


def encode_call(function: Function, args: Sequence[Any]) -> bytes:
    """The data of a call. Raises `BadArgument`, which names the parameter."""
    return function.selector + encode_values(function.inputs, args, function.signature)


def encode_values(params: Sequence[Param], args: Sequence[Any], where: str) -> bytes:
    """The ABI encoding of `args`; `where` names the function in errors. Raises `BadArgument`."""
    if len(params) != len(args):
        raise BadArgument(f"{where} was given {len(args)} values", expected=f"{len(params)}")
    values = [to_abi(param, value, where) for param, value in zip(params, args, strict=True)]
    try:
        return _CODEC.encode([param.type for param in params], values)
    except EncodingError as error:
        raise BadArgument(f"{where} cannot take these values ({error})") from None


def decode_values(params: Sequence[Param], data: bytes, where: str) -> list[Any]:
    """The Python values in `data`. Raises `BadAnswer`."""
    try:
        raw = _CODEC.decode([param.type for param in params], data)
    except DecodingError as error:
        raise BadAnswer(
            f"the answer of {where} cannot be read ({type(error).__name__})",
            remedy="check that the deployment file belongs to this chain",
        ) from None
    return [from_abi(param, value) for param, value in zip(params, raw, strict=True)]


def to_abi(param: Param, value: Any, where: str) -> Any:
    """The form in which the encoder takes `value`: dataclasses as tuples, lengths of fixed bytes checked."""
    if param.type.endswith("]"):
        return [to_abi(param.element, each, where) for each in value]
    if param.components:
        fields = (
            [getattr(value, field.name) for field in dataclasses.fields(value)]
            if dataclasses.is_dataclass(value)
            else list(value)
        )
        if len(fields) != len(param.components):
            raise BadArgument(f"{where}: {param.name} has {len(fields)} fields", expected=f"{len(param.components)}")
        return tuple(to_abi(each, field, where) for each, field in zip(param.components, fields, strict=True))
    if param.type.startswith("bytes"):
        size = param.type.removeprefix("bytes")
        if not isinstance(value, bytes) or (size and len(value) != int(size)):
            raise BadArgument(f"{where}: {param.name} is not {param.type}", expected=f"bytes of length {size or 'any'}")
    elif param.type == "address" and not is_address(value):
        raise BadArgument(f"{where}: {param.name} is not an address", expected="20 bytes in hex, starting with 0x")
    elif param.type.startswith(("uint", "int")):
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadArgument(f"{where}: {param.name} is a {type(value).__name__}", expected="an integer")
        return int(value)
    return value


def from_abi(param: Param, value: Any) -> Any:
    """The Python form of a decoded value."""
    if param.type.endswith("]"):
        return [from_abi(param.element, each) for each in value]
    if param.components:
        fields = [from_abi(each, field) for each, field in zip(param.components, value, strict=True)]
        struct = STRUCTS.get(param.internal_name)
        return tuple(fields) if struct is None else struct(*fields)
    if param.type == "address":
        return to_checksum_address(value)
    if param.is_enum and (kind := ENUMS.get(param.internal_name)) and value in kind.__members__.values():
        return kind(value)
    return value
