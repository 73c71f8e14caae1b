"""Datasets: a manifest names the accepted items of many submissions; loading it gives arrays.

The manifest is one dag-cbor node whose links are the payloads and the manifest before it, so that pinning its CID
keeps the data and its history. Same CID, same arrays, in the same order, on every machine.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from hydra_node.storage import dag, items
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import MalformedManifest, MalformedNode, MalformedSubmission
from hydra_node.storage.items import Schema

HASH_BYTES = 32
MAX_SCORE = 255
_FORMAT = "hydra-dataset-1"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


class Content(Protocol):
    """What loading and saving need of an `IpfsClient`; everything it returns is verified."""

    def cat(self, cid: Cid, max_bytes: int = ...) -> bytes: ...
    def get_node(self, cid: Cid) -> dag.Node: ...
    def put_node(self, node: dag.Node) -> Cid: ...


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One submission's part: which of its items were accepted, in rising order, each with its score bucket."""

    payload: Cid
    contributor: str
    submission: int
    licence_hash: bytes
    consent_hash: bytes
    accepted: tuple[int, ...]
    scores: tuple[int, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One version of a dataset. `rule` names the scoring rule that accepted the items."""

    schema: Schema
    version: int = 1
    previous: Cid | None = None
    licence: str
    rule: str
    entries: tuple[Entry, ...]

    def __len__(self) -> int:
        """The number of accepted items."""
        return sum(len(entry.accepted) for entry in self.entries)

    def check(self) -> None:
        """Raise MalformedManifest unless every field keeps its bounds."""
        if self.version < 1 or (self.version == 1) != (self.previous is None):
            raise MalformedManifest(
                f"version {self.version} with previous {self.previous}", expected="version 1, or a previous one"
            )
        if len({entry.submission for entry in self.entries}) != len(self.entries):
            raise MalformedManifest("a submission appears twice")
        for entry in self.entries:
            _check_entry(entry)

    def to_node(self) -> dict[str, dag.Node]:
        """The dag-cbor form; raises MalformedManifest."""
        self.check()
        entries: list[dag.Node] = [
            {
                **msgspec.structs.asdict(entry),
                "accepted": list(entry.accepted),
                "scores": list(entry.scores),
            }
            for entry in self.entries
        ]
        return {
            "format": _FORMAT,
            "schema": self.schema.to_node(),
            "version": self.version,
            "previous": self.previous,
            "licence": self.licence,
            "rule": self.rule,
            "entries": entries,
        }

    @classmethod
    def from_node(cls, node: dag.Node) -> "Manifest":
        """Read the dag-cbor form; raises MalformedManifest with the place of the fault."""
        if not isinstance(node, dict) or node.get("format") != _FORMAT:
            raise MalformedManifest("not a dataset manifest", expected=f'format "{_FORMAT}"')
        fields = {key: value for key, value in node.items() if key != "format"}
        try:
            manifest = msgspec.convert(fields, cls, dec_hook=_own_type)
        except (msgspec.ValidationError, MalformedSubmission) as error:
            raise MalformedManifest(f"manifest: {error}") from error
        manifest.check()
        return manifest


class Origin(NamedTuple):
    """Where a sample comes from: submission id and item index in that submission's payload."""

    submission: int
    item: int


@dataclass(frozen=True)
class Dataset:
    """Samples in manifest order: `features` float32 (n, *shape), scaled; `labels` int64 (n,).

    `origins` int64 (n, 2) holds each sample's submission id and item index.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    origins: NDArray[np.int64]
    manifest: Manifest
    cid: Cid | None = field(default=None)

    def __len__(self) -> int:
        return len(self.labels)

    def origin_of(self, index: int) -> Origin:
        """The submission and item behind sample `index`."""
        submission, item = self.origins[index].tolist()
        return Origin(submission, item)

    def index_of(self, submission: int, item: int) -> int:
        """The position of an accepted item; raises KeyError for one that is not in the dataset."""
        return self._positions[Origin(submission, item)]

    @cached_property
    def _positions(self) -> dict[Origin, int]:
        return {Origin(submission, item): i for i, (submission, item) in enumerate(self.origins.tolist())}


def save(client: Content, manifest: Manifest) -> Cid:
    """Store a manifest, which keeps its payloads; its CID. Raises MalformedManifest, TooLarge."""
    return client.put_node(manifest.to_node())


def load_manifest(client: Content, cid: Cid) -> Manifest:
    """Read a manifest; raises MalformedManifest."""
    try:
        return Manifest.from_node(client.get_node(cid))
    except MalformedNode as error:
        raise MalformedManifest(f"{cid}: {error.what}") from error


def load(client: Content, cid: Cid, *, max_payload: int = items.MAX_PAYLOAD_BYTES) -> Dataset:
    """The dataset of a manifest. Raises MalformedManifest, MalformedSubmission, and what `client` raises."""
    manifest = load_manifest(client, cid)
    parts = [_load_entry(client, manifest.schema, entry, max_payload) for entry in manifest.entries]
    features, labels = items.to_arrays(manifest.schema, [item for part in parts for item in part])
    origins = np.array(
        [(entry.submission, index) for entry in manifest.entries for index in entry.accepted], dtype=np.int64
    )
    return Dataset(features, labels, origins.reshape(-1, 2), manifest, cid)


def _load_entry(client: Content, schema: Schema, entry: Entry, max_payload: int) -> Sequence[items.Item]:
    payload = items.unpack(client.cat(entry.payload, max_payload), schema=schema, check_items=False)
    if entry.accepted and entry.accepted[-1] >= len(payload.items):
        raise MalformedManifest(
            f"submission {entry.submission} has no item {entry.accepted[-1]}", expected=f"0..{len(payload.items) - 1}"
        )
    accepted = [payload.items[index] for index in entry.accepted]
    items.check(schema, accepted)
    return accepted


def _check_entry(entry: Entry) -> None:
    where = f"entry of submission {entry.submission}"
    if not _ADDRESS.fullmatch(entry.contributor):
        raise MalformedManifest(f"{where}: contributor {entry.contributor[:60]!r}", expected="an address, 0x...")
    if not 0 <= entry.submission < 2**63:
        raise MalformedManifest(f"{where}: id out of range")
    if {len(entry.licence_hash), len(entry.consent_hash)} != {HASH_BYTES}:
        raise MalformedManifest(f"{where}: licence and consent hashes", expected=f"{HASH_BYTES} bytes each")
    rising = all(a < b for a, b in zip(entry.accepted, entry.accepted[1:], strict=False))
    if not rising or (entry.accepted and not 0 <= entry.accepted[0] <= entry.accepted[-1] < items.MAX_ITEMS):
        raise MalformedManifest(f"{where}: accepted items", expected=f"rising indices below {items.MAX_ITEMS}")
    if len(entry.scores) != len(entry.accepted) or not all(0 <= score <= MAX_SCORE for score in entry.scores):
        raise MalformedManifest(f"{where}: scores", expected=f"one of 0..{MAX_SCORE} for each accepted item")


def _own_type(kind: type, value: Any) -> Any:
    if kind is Cid and isinstance(value, Cid):
        return value
    raise msgspec.ValidationError(f"{type(value).__name__} instead of {kind.__name__}")
