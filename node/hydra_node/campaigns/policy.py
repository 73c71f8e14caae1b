"""What a campaign asks for: the document whose hash the sponsor puts on chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hydra_node.errors import HydraError

MAX_POLICY_BYTES = 64 * 1024


class BadPolicy(HydraError):
    """A campaign policy that cannot be read, or that differs from the hash on chain."""


class ItemSchema(BaseModel):
    """The form of one item: its features as an array, its label as a class number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["u1", "f4"]
    shape: tuple[int, ...] = Field(min_length=1, max_length=4)
    scale: float = Field(
        gt=0, allow_inf_nan=False, description="features are divided by this before training and scoring"
    )
    classes: int = Field(ge=2, le=100_000)


class CampaignPolicy(BaseModel):
    """The terms a contributor reads before submitting, and a validator before scoring."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    title: str = Field(min_length=1, max_length=200)
    item_schema: ItemSchema
    reference: str = Field(description="CID of the sponsor's clean reference set, packed like a submission")
    licences: tuple[str, ...] = Field(min_length=1, description="licences under which data is accepted")
    consent: str = Field(min_length=1, max_length=2000, description="what a contributor agrees to")
    max_items: int = Field(ge=1, le=100_000)

    def to_bytes(self) -> bytes:
        """Canonical JSON: sorted keys, no spaces, so that equal policies have equal hashes."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()

    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes: `specHash` of the job in the escrow."""
        return hashlib.sha256(self.to_bytes()).digest()

    @classmethod
    def from_bytes(cls, data: bytes, *, digest: bytes | None = None) -> CampaignPolicy:
        """Read a policy; with `digest`, refuse bytes that are not the ones named on chain.

        Raises BadPolicy.
        """
        if len(data) > MAX_POLICY_BYTES:
            raise BadPolicy(f"the policy has {len(data)} bytes", expected=f"at most {MAX_POLICY_BYTES}")
        if digest is not None and hashlib.sha256(data).digest() != digest:
            raise BadPolicy("the policy's bytes differ from the hash on chain", remedy="ask its sponsor")
        with _malformed_is_bad():
            return cls.model_validate_json(data)

    @classmethod
    def checked(cls, **fields: Any) -> CampaignPolicy:
        """A policy of these fields (those of `item_schema` as a dict). Raises BadPolicy, which names the field."""
        with _malformed_is_bad():
            return cls.model_validate(fields)


@contextmanager
def _malformed_is_bad() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadPolicy(f"the policy is malformed at {where or 'its start'}: {first['msg']}") from error
