"""Salts and pending reveals on disk, so that who crashes between commit and reveal still reveals.

A record is written and fsynced before the commitment is sent, and deleted once the reveal is mined. Each record is
one file of mode 0600 in a directory of mode 0700.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from hydra_node.chain.files import create_private, private_directory, sync_directory
from hydra_node.errors import HydraError

Value = int | str | bytes
SALT_BYTES = 32
MAX_RECORD = 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_SUFFIX = ".secret"


class BadSecret(HydraError):
    """A record that cannot be stored or read back."""


class SecretExists(HydraError):
    """Another record is stored under that key; losing it could cost the reveal, so it is never overwritten."""


class SecretStore:
    """The records of one participant; keys are names such as `round-12` or `job-3-submission`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @staticmethod
    def new_salt() -> bytes:
        """32 bytes from the operating system."""
        return os.urandom(SALT_BYTES)

    def put(self, key: str, record: Mapping[str, Value]) -> None:
        """Store `record`; when this returns it survives a crash. The same record again is no error.

        Raises `SecretExists` when a different one is stored, `BadSecret` for keys and values it cannot hold.
        """
        data = json.dumps({name: _pack(name, value) for name, value in record.items()}).encode()
        if len(data) > MAX_RECORD:
            raise BadSecret(f"the secret {key!r} is too large", expected=f"at most {MAX_RECORD} bytes")
        private_directory(self._directory)
        try:
            create_private(self._path(key), data)
        except FileExistsError:
            if self.get(key) != dict(record):
                raise SecretExists(
                    f"a different secret is stored as {key!r}", remedy="delete it once it is revealed"
                ) from None

    def get(self, key: str) -> dict[str, Value] | None:
        """The record stored under `key`, or None. Raises `BadSecret` when the file is damaged."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_RECORD + 1)
        except FileNotFoundError:
            return None
        try:
            return {str(name): _unpack(value) for name, value in json.loads(raw).items()}
        except (ValueError, AttributeError, TypeError, KeyError):
            raise BadSecret(f"the secret file {path} is damaged", remedy="restore it from a copy") from None

    def delete(self, key: str) -> None:
        """Forget a record, once its reveal is mined; a key that is not there is no error."""
        self._path(key).unlink(missing_ok=True)
        if self._directory.is_dir():
            sync_directory(self._directory)

    def pending(self, prefix: str = "") -> dict[str, dict[str, Value]]:
        """All records whose key begins with `prefix`, by key: what is still to be revealed after a restart."""
        keys = sorted(path.name.removesuffix(_SUFFIX) for path in self._directory.glob(f"*{_SUFFIX}"))
        records = {key: self.get(key) for key in keys if key.startswith(prefix) and _KEY.fullmatch(key)}
        return {key: record for key, record in records.items() if record is not None}

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise BadSecret(f"{key[:140]!r} cannot name a secret", expected="letters, digits, and . _ - inside")
        return self._directory / f"{key}{_SUFFIX}"


def _pack(name: str, value: Value) -> int | str | dict[str, str]:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadSecret(f"the field {name!r} is a {type(value).__name__}", expected="int, str or bytes")
    return value


def _unpack(value: object) -> Value:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    return value
