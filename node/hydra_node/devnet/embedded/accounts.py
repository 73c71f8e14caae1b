"""Developer accounts with test ether, derived from a mnemonic the standard way (m/44'/60'/0'/0/i)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from eth_account.hdaccount import generate_mnemonic, key_from_seed, seed_from_mnemonic
from eth_account.types import Language
from eth_keys.datatypes import PrivateKey
from eth_utils.exceptions import ValidationError

from hydra_node.chain.files import write_private
from hydra_node.errors import HydraError


class BadMnemonic(HydraError):
    """A phrase that no wallet would accept."""


@dataclass(frozen=True, slots=True)
class DevAccount:
    """An account of a development chain. Its key is public knowledge there and worth nothing elsewhere."""

    address: str
    key: bytes = field(repr=False)


def dev_accounts(mnemonic: str, count: int) -> list[DevAccount]:
    """The first `count` accounts of a mnemonic. Raises BadMnemonic."""
    try:
        seed = seed_from_mnemonic(mnemonic, "")
    except ValidationError as error:
        raise BadMnemonic(
            "the mnemonic is not a valid BIP-39 phrase",
            expected="12 to 24 words of the English list with a right checksum",
            remedy="omit it to have one made",
        ) from error
    keys = (key_from_seed(seed, f"m/44'/60'/0'/0/{index}") for index in range(count))
    return [DevAccount(PrivateKey(key).public_key.to_checksum_address(), key) for key in keys]


def stored_mnemonic(path: Path) -> str:
    """The mnemonic in a file readable by its owner alone, made at first use."""
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    mnemonic = str(generate_mnemonic(12, Language.ENGLISH))
    write_private(path, f"{mnemonic}\n".encode())
    return mnemonic
