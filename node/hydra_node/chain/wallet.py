"""Accounts that sign: a wallet in memory, and the directory of encrypted keystore files it is loaded from.

Keystores are version 3 files (Web3 Secret Storage), as geth, MetaMask and `eth-account` read and write them. A
key or password never appears in a `repr`, an error or a traceback: errors out of the signing library are replaced
by named ones that carry none of its frames.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NoReturn

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from hydra_node.chain.files import create_private, private_directory
from hydra_node.chain.mnemonic import MAX_INDEX, key_of
from hydra_node.chain.password import Password
from hydra_node.errors import HydraError

MAX_KEYSTORE = 64 * 1024
MAX_SECRET_FILE = 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class BadWallet(HydraError):
    """A keystore, key or wallet name that cannot be used."""


class WalletNotFound(HydraError):
    """No wallet of that name in the directory."""


class WalletExists(HydraError):
    """A wallet of that name is there already; it is never overwritten."""


class WrongPassword(HydraError):
    """The password does not open the keystore."""


class SigningFailed(HydraError):
    """The transaction or message cannot be signed."""


class Kdf(Enum):
    """How much work it takes to try one password."""

    STANDARD = "standard"
    LIGHT = "light"
    """For development chains, where the keys guard nothing: fast to open, easy to guess."""


_WORK: dict[Kdf, tuple[Literal["scrypt", "pbkdf2"], int]] = {
    Kdf.STANDARD: ("scrypt", 2**18),
    Kdf.LIGHT: ("pbkdf2", 1_000),
}


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """What is sent to the network: the encoded transaction and its hash."""

    raw: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Wallet:
    """An account that can sign. Equal wallets have the same address; the key is reachable only by signing."""

    address: str
    _account: LocalAccount = field(repr=False, compare=False)

    @classmethod
    def create(cls) -> Wallet:
        """A wallet with a fresh random key, in memory only."""
        return cls._of(Account.create())

    @classmethod
    def from_key(cls, key: bytes | str) -> Wallet:
        """The wallet of a raw 32-byte key (bytes or hex). Raises `BadWallet`, without naming the key."""
        account = _account(key)
        del key
        if account is None:
            raise BadWallet("this is not a private key", expected="32 bytes or 64 hex digits")
        return cls._of(account)

    @classmethod
    def _of(cls, account: LocalAccount) -> Wallet:
        return cls(address=to_checksum_address(account.address), _account=account)

    def sign_transaction(self, transaction: Mapping[str, Any]) -> SignedTransaction:
        """Sign a complete transaction (nonce, gas, fees, chainId included). Raises `SigningFailed`."""
        try:
            signed = self._account.sign_transaction(dict(transaction))
        except Exception as error:  # noqa: BLE001  as above
            reason = f"{type(error).__name__}: {error}"
        else:
            return SignedTransaction(raw=bytes(signed.raw_transaction), hash=bytes(signed.hash))
        raise SigningFailed(f"the transaction cannot be signed ({reason[:200]})")

    def sign_message(self, message: bytes | str) -> bytes:
        """The 65-byte signature over a personal message (EIP-191), as `personal_sign` in a browser wallet."""
        raw = message.encode() if isinstance(message, str) else message
        return bytes(self._account.sign_message(encode_defunct(primitive=raw)).signature)

    def sign_typed_data(self, typed: Mapping[str, Any]) -> bytes:
        """The 65-byte signature over an EIP-712 message, given as the full JSON form (a token permit, say)."""
        return bytes(self._account.sign_message(encode_typed_data(full_message=dict(typed))).signature)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a wallet is not to be pickled: it holds a key")


@dataclass(frozen=True, slots=True)
class WalletEntry:
    """One keystore file of a directory, known without its password."""

    name: str
    address: str
    path: Path


class WalletStore:
    """A directory of encrypted keystores, NAME.json, mode 0600 in a directory of mode 0700.

    `kdf` is used for new files; existing ones open whatever they were made with.
    """

    def __init__(self, directory: Path, *, kdf: Kdf = Kdf.STANDARD) -> None:
        self._directory = directory
        self._kdf = kdf

    def new(self, name: str, password: str) -> Wallet:
        """Make and store a wallet with a fresh key. Raises `WalletExists`."""
        password = Password(password)
        return self._store(name, Wallet.create(), password)

    def import_key(self, name: str, key: bytes | str, password: str) -> Wallet:
        """Store the wallet of a raw private key. Raises `BadWallet`, `WalletExists`."""
        account, password = _account(key), Password(password)
        del key
        if account is None:
            raise BadWallet("this is not a private key", expected="32 bytes or 64 hex digits")
        return self._store(name, Wallet._of(account), password)

    def import_mnemonic(self, name: str, mnemonic: str, password: str, *, index: int = 0) -> Wallet:
        """Store the wallet of account `index`, counted from 0, of a BIP-39 recovery phrase without passphrase.

        The path is m/44'/60'/0'/0/index, as in MetaMask, Anvil and Ganache. Raises `BadWallet`, `WalletExists`.
        """
        if not 0 <= index <= MAX_INDEX:
            raise BadWallet(f"a recovery phrase has no account {index}", expected=f"0 to {MAX_INDEX}")
        key, password = key_of(mnemonic, index), Password(password)
        del mnemonic
        if key is None:
            raise BadWallet(
                "this is not a recovery phrase",
                expected="12, 15, 18, 21 or 24 words of one BIP-39 list",
                remedy="check each word's spelling and their order",
            )
        account = _account(key)
        del key
        if account is None:
            raise BadWallet(f"account {index} of this phrase has no key", remedy="use another account")
        return self._store(name, Wallet._of(account), password)

    def load(self, name: str, password: str) -> Wallet:
        """Open a wallet. Raises `WalletNotFound`, `WrongPassword`, `BadWallet` when the file is damaged."""
        password = Password(password)
        path = self._path(name)
        keystore = _read_keystore(path)
        try:
            account = Account.from_key(Account.decrypt(keystore, password))
        except ValueError as error:
            # eth-keyfile reports a wrong password as a MAC mismatch, a ValueError like any other.
            failure: HydraError = (
                WrongPassword(f"the password does not open the wallet {name!r}", remedy=f"the file is {path}")
                if "MAC" in str(error)
                else BadWallet(f"the keystore {path} is damaged")
            )
        except Exception as error:  # noqa: BLE001  any shape of damage, and no frame of the library's
            failure = BadWallet(f"the keystore {path} is damaged ({type(error).__name__})")
        else:
            return Wallet._of(account)
        raise failure

    def require(self, name: str) -> WalletEntry:
        """What is known of a wallet without its password. Raises `WalletNotFound`, `BadWallet`."""
        path = self._path(name)
        try:
            keystore = _read_keystore(path)
        except WalletNotFound as error:
            known = ", ".join(entry.name for entry in self.list())
            raise WalletNotFound(error.what, expected=f"one of {known}" if known else "", remedy=error.remedy) from None
        return WalletEntry(name=name, address=_address_in(keystore), path=path)

    def check_free(self, name: str) -> None:
        """Raises `WalletExists` when the name is taken, `BadWallet` when it can be none."""
        path = self._path(name)
        if path.exists():
            raise _taken(name, path)

    def list(self) -> list[WalletEntry]:
        """The wallets of the directory by name; files that are no keystores are left out: see `damaged`."""
        entries = []
        for path in self._files():
            with contextlib.suppress(BadWallet):
                entries.append(WalletEntry(name=path.stem, address=_address_in(_read_keystore(path)), path=path))
        return entries

    def damaged(self) -> Sequence[Path]:
        """The files of the directory that should be keystores and are not."""
        whole = {entry.path for entry in self.list()}
        return [path for path in self._files() if path not in whole]

    def _files(self) -> Sequence[Path]:
        return sorted(self._directory.glob("*.json"))

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise BadWallet(f"{name[:80]!r} cannot name a wallet", expected="letters, digits, and . _ - inside")
        return self._directory / f"{name}.json"

    def _store(self, name: str, wallet: Wallet, password: Password) -> Wallet:
        path = self._path(name)
        self.check_free(name)
        if not password:
            raise BadWallet("a wallet needs a password", expected="at least one character")
        kdf, work = _WORK[self._kdf]
        keystore = wallet._account.encrypt(password, kdf=kdf, iterations=work)
        private_directory(self._directory)
        try:
            create_private(path, json.dumps(keystore).encode())
        except FileExistsError:
            raise _taken(name, path) from None
        return wallet


def _taken(name: str, path: Path) -> WalletExists:
    return WalletExists(f"the wallet {name!r} exists", remedy=f"choose another name, or move {path} away")


def read_secret(path: Path) -> str:
    """The text of a file with a private key or a recovery phrase, without the white space around it.

    Raises `BadWallet`, which names the file and nothing of what is in it.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SECRET_FILE + 1)
    except OSError as error:
        raise BadWallet(f"the file {path} cannot be read ({error.strerror})", remedy="check the path") from None
    text = raw.decode("utf-8", errors="replace")
    if len(raw) > MAX_SECRET_FILE or "\ufffd" in text:
        del raw, text
        raise BadWallet(f"{path} holds no private key or recovery phrase", expected="one of them as text")
    return text.strip()


def _account(key: bytes | str) -> LocalAccount | None:
    """The account of a raw key, or None: no error of the library's leaves here, since its frames hold the key."""
    try:
        account: LocalAccount = Account.from_key(key)
    except Exception:  # noqa: BLE001  the library raises many kinds for a bad key
        return None
    return account


def _read_keystore(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_KEYSTORE + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise WalletNotFound(
            f"there is no wallet {path.stem!r} in {path.parent}",
            remedy=f"make one with: hydra-node wallet new {path.stem}",
        ) from None
    except OSError as error:
        raise BadWallet(f"the keystore {path} cannot be read ({error.strerror})") from None
    if len(raw) > MAX_KEYSTORE:
        raise BadWallet(f"{path} is too large for a keystore", expected=f"at most {MAX_KEYSTORE} bytes")
    try:
        keystore = json.loads(raw)
    except ValueError:
        keystore = None
    if not isinstance(keystore, dict) or keystore.get("version") != 3:
        raise BadWallet(f"{path} is not a keystore, or damaged", expected="a version 3 keystore in JSON")
    return keystore


def _address_in(keystore: Mapping[str, Any]) -> str:
    try:
        return to_checksum_address("0x" + str(keystore.get("address")).removeprefix("0x"))
    except ValueError:
        raise BadWallet("a keystore names no address") from None
