"""What the compiled contracts offer: functions, events and errors, read from the artifacts in the package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eth_hash.auto import keccak

from hydra_node.errors import HydraError

ARTIFACTS = Path(__file__).parent / "artifacts"


class UnknownContract(HydraError):
    """No artifact of that name in the package."""


class UnknownFunction(HydraError):
    """The contract has no such function, or more than one of that name."""


@dataclass(frozen=True, slots=True)
class Param:
    """One value of a signature. `type` is the canonical ABI type; `internal` the Solidity one ("enum Role")."""

    name: str
    type: str
    internal: str = ""
    components: tuple[Param, ...] = ()
    indexed: bool = False

    @property
    def element(self) -> Param:
        """The type of one element of an array type."""
        base = self.type[: self.type.rindex("[")]
        internal = self.internal[: self.internal.rindex("[")] if "[" in self.internal else self.internal
        return Param(self.name, base, internal, self.components)

    @property
    def internal_name(self) -> str:
        """The struct's, enum's or contract's name without its kind and its place: CampaignTerms, Role."""
        return self.internal.split(" ")[-1].split(".")[-1].split("[")[0]

    @property
    def is_enum(self) -> bool:
        return self.internal.startswith("enum ")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a contract. `signature` is the canonical one, stake(uint8,uint256)."""

    contract: str
    name: str
    signature: str
    selector: bytes
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    is_view: bool


@dataclass(frozen=True, slots=True)
class EventAbi:
    """An event; `topic` is the first topic of its logs."""

    name: str
    topic: bytes
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class ErrorAbi:
    """A custom error; `selector` is the first 4 bytes of the revert data."""

    name: str
    selector: bytes
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class ContractAbi:
    """One compiled contract."""

    name: str
    constructor: tuple[Param, ...]
    bytecode: bytes
    functions: Mapping[str, Function]
    events: Mapping[bytes, EventAbi]
    errors: Mapping[bytes, ErrorAbi]

    def function(self, name: str) -> Function:
        """The function of that name or canonical signature. Raises `UnknownFunction`."""
        if name in self.functions:
            return self.functions[name]
        found = [each for each in self.functions.values() if each.name == name]
        if len(found) != 1:
            reason = "has no function" if not found else "has several functions"
            raise UnknownFunction(f"{self.name} {reason} {name[:80]!r}", expected="a full signature of its ABI")
        return found[0]


def names() -> list[str]:
    """The contracts that the package carries."""
    return sorted(path.stem for path in ARTIFACTS.glob("[A-Z]*.json"))


@cache
def load(name: str) -> ContractAbi:
    """The contract of that name. Raises `UnknownContract`."""
    if name not in names():
        raise UnknownContract(f"there is no contract {name[:80]!r}", expected=f"one of {', '.join(names())}")
    artifact = json.loads((ARTIFACTS / f"{name}.json").read_text())
    return parse(name, artifact["abi"], bytes.fromhex(artifact["bytecode"].removeprefix("0x")))


@cache
def all_errors() -> Mapping[bytes, ErrorAbi]:
    """Every custom error of every contract by selector: an error often comes from a contract further down."""
    return {selector: error for name in names() for selector, error in load(name).errors.items()}


def parse(name: str, entries: list[dict[str, Any]], bytecode: bytes = b"") -> ContractAbi:
    """A contract from the JSON form of its ABI."""
    constructor = next((_params(each) for each in entries if each["type"] == "constructor"), ())
    functions = {each.signature: each for each in _functions(name, entries)}
    events = {
        keccak(_signature(each).encode()): EventAbi(each["name"], keccak(_signature(each).encode()), _params(each))
        for each in entries
        if each["type"] == "event" and not each.get("anonymous")
    }
    errors = {
        keccak(_signature(each).encode())[:4]: ErrorAbi(
            each["name"], keccak(_signature(each).encode())[:4], _params(each)
        )
        for each in entries
        if each["type"] == "error"
    }
    return ContractAbi(name, constructor, bytecode, functions, events, errors)


def _functions(contract: str, entries: list[dict[str, Any]]) -> Iterator[Function]:
    for entry in entries:
        if entry["type"] == "function":
            signature = _signature(entry)
            yield Function(
                contract=contract,
                name=entry["name"],
                signature=signature,
                selector=keccak(signature.encode())[:4],
                inputs=_params(entry),
                outputs=tuple(_param(each) for each in entry.get("outputs", [])),
                is_view=entry["stateMutability"] in {"view", "pure"},
            )


def _signature(entry: Mapping[str, Any]) -> str:
    return f"{entry['name']}({','.join(each.type for each in _params(entry))})"


def _params(entry: Mapping[str, Any]) -> tuple[Param, ...]:
    return tuple(_param(each) for each in entry.get("inputs", []))


def _param(entry: Mapping[str, Any]) -> Param:
    components = tuple(_param(each) for each in entry.get("components", []))
    kind = str(entry["type"])
    if kind.startswith("tuple"):
        kind = f"({','.join(each.type for each in components)}){kind.removeprefix('tuple')}"
    return Param(
        name=str(entry.get("name", "")),
        type=kind,
        internal=str(entry.get("internalType", "")),
        components=components,
        indexed=bool(entry.get("indexed", False)),
    )
