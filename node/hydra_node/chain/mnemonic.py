"""The key behind the words of a recovery phrase (BIP-39), at the path where Ethereum wallets look (BIP-44)."""

from __future__ import annotations

from eth_account.hdaccount import key_from_seed, seed_from_mnemonic

MAX_INDEX = 2**31 - 1
ACCOUNTS = "m/44'/60'/0'/0"


def key_of(mnemonic: str, index: int) -> bytes | None:
    """The 32-byte key of account `index` (from 0) of the phrase, or None where its words or checksum are wrong.

    White space and capitals in the phrase do not matter. No error of the library's leaves here: its messages and
    frames hold the words.
    """
    words = " ".join(mnemonic.lower().split())
    try:
        return bytes(key_from_seed(seed_from_mnemonic(words, ""), f"{ACCOUNTS}/{index}"))
    except Exception:  # noqa: BLE001  the library raises several kinds for wrong words
        return None
