import json
import logging
import pickle
import stat
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from hydra_node.chain.wallet import (
    BadWallet,
    Kdf,
    SigningFailed,
    Wallet,
    WalletExists,
    WalletNotFound,
    WalletStore,
    WrongPassword,
)

KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
PASSWORD = "correct horse battery"


@pytest.fixture
def store(tmp_path: Path) -> WalletStore:
    return WalletStore(tmp_path / "keystore", kdf=Kdf.LIGHT)


def everything_said(error: BaseException) -> str:
    """What a debugger, a rich traceback or a log could print of an error: its whole chain with all locals."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()) + repr(error)


def shows_key(text: str) -> bool:
    raw = bytes.fromhex(KEY)
    return any(form in text for form in (KEY, KEY.upper(), repr(raw), repr(raw)[2:-1], str(int(KEY, 16))))


def test_a_stored_wallet_opens_with_its_password_and_signs(store: WalletStore) -> None:
    made = store.new("ada", PASSWORD)
    opened = store.load("ada", PASSWORD)
    assert opened == made
    message = opened.sign_message("hello")
    assert Account.recover_message(encode_defunct(text="hello"), signature=message) == made.address


def test_keystores_are_those_that_other_wallets_read(store: WalletStore, tmp_path: Path) -> None:
    wallet = store.import_key("ada", KEY, PASSWORD)
    assert wallet.address == ADDRESS
    keystore = json.loads((tmp_path / "keystore" / "ada.json").read_text())
    assert keystore["version"] == 3
    assert Account.decrypt(keystore, PASSWORD).hex().removeprefix("0x") == KEY


def test_a_keystore_of_another_wallet_opens(store: WalletStore, tmp_path: Path) -> None:
    (tmp_path / "keystore").mkdir()
    foreign = Account.encrypt(KEY, PASSWORD, kdf="scrypt", iterations=2)
    (tmp_path / "keystore" / "geth.json").write_text(json.dumps(foreign))
    assert store.load("geth", PASSWORD).address == ADDRESS


def test_only_the_owner_can_read_the_files(store: WalletStore, tmp_path: Path) -> None:
    store.new("ada", PASSWORD)
    assert stat.S_IMODE((tmp_path / "keystore" / "ada.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keystore").stat().st_mode) == 0o700


def test_a_wrong_password_is_named_and_shows_neither_password_nor_key(store: WalletStore) -> None:
    store.import_key("ada", KEY, PASSWORD)
    with pytest.raises(WrongPassword, match="does not open the wallet 'ada'") as caught:
        store.load("ada", "wrong" + "-guess")
    said = everything_said(caught.value)
    assert "wrong-guess" not in said
    assert not shows_key(said)


def test_the_key_is_in_no_text_about_the_wallet(caplog: pytest.LogCaptureFixture) -> None:
    wallet = Wallet.from_key(KEY)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").debug("%s %r %s", wallet, wallet, [wallet])
        wallet.sign_message(b"x")
    for text in (repr(wallet), str(wallet), f"{wallet}", caplog.text):
        assert ADDRESS in text or text is caplog.text
        assert not shows_key(text)


def test_a_failed_signature_does_not_show_the_key() -> None:
    wallet = Wallet.from_key(KEY)
    with pytest.raises(SigningFailed) as caught:
        wallet.sign_transaction({"nonce": "not a number", "chainId": 1})
    assert not shows_key(everything_said(caught.value))


@pytest.mark.parametrize("how", ["from_key", "import_key"])
def test_a_bad_key_is_refused_without_being_repeated(store: WalletStore, how: str) -> None:
    truncated = KEY[:-2]
    with pytest.raises(BadWallet, match="not a private key") as caught:
        if how == "from_key":
            Wallet.from_key(truncated)
        else:
            store.import_key("ada", truncated, PASSWORD)
    own_frames = "".join(str(frame.locals) for frame in frames_below_this_test(caught.value))
    assert truncated not in own_frames
    assert PASSWORD not in own_frames


def frames_below_this_test(error: BaseException) -> list[traceback.FrameSummary]:
    stack = traceback.TracebackException.from_exception(error, capture_locals=True).stack
    return [frame for frame in stack if not frame.filename.endswith("test_chain_wallet.py")]


PHRASE = "test test test test test test test test test test test junk"
"""The public phrase of every development chain; its accounts are known."""


@pytest.mark.parametrize(
    ("index", "address"),
    [
        (0, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        (1, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        (9, "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"),
    ],
)
def test_a_recovery_phrase_gives_the_accounts_that_other_wallets_show(
    store: WalletStore, index: int, address: str
) -> None:
    assert store.import_mnemonic("ada", PHRASE, PASSWORD, index=index).address == address
    assert store.load("ada", PASSWORD).address == address


@pytest.mark.parametrize("typed", [f"  {PHRASE.replace(' ', '   ')}\n", PHRASE.title(), PHRASE.replace(" ", "\n")])
def test_white_space_and_capitals_of_a_phrase_do_not_matter(store: WalletStore, typed: str) -> None:
    assert store.import_mnemonic("ada", typed, PASSWORD).address == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "test",
        PHRASE.removesuffix(" junk"),
        PHRASE.replace("junk", "test"),
        PHRASE.replace("junk", "jnuk"),
        f"{PHRASE} {PHRASE}",
        "test " * 5000,
        KEY,
        "\0" * 12,
    ],
)
def test_a_wrong_phrase_is_refused_without_being_repeated(store: WalletStore, wrong: str) -> None:
    with pytest.raises(BadWallet, match="not a recovery phrase") as caught:
        store.import_mnemonic("ada", wrong, PASSWORD)
    said = "".join(str(frame.locals) for frame in frames_below_this_test(caught.value)) + str(caught.value)
    assert "test test" not in said
    assert "jnuk" not in said
    assert PASSWORD not in said
    assert store.list() == []


@pytest.mark.parametrize("index", [-1, 2**31])
def test_an_account_that_no_phrase_has_is_refused(store: WalletStore, index: int) -> None:
    with pytest.raises(BadWallet, match="no account") as caught:
        store.import_mnemonic("ada", PHRASE, PASSWORD, index=index)
    assert "0 to 2147483647" in str(caught.value)


def test_a_phrase_does_not_overwrite_a_wallet(store: WalletStore) -> None:
    store.new("ada", PASSWORD)
    with pytest.raises(WalletExists) as caught:
        store.import_mnemonic("ada", PHRASE, PASSWORD)
    assert "test test" not in "".join(str(frame.locals) for frame in frames_below_this_test(caught.value))


def test_a_wallet_is_never_overwritten(store: WalletStore) -> None:
    first = store.new("ada", PASSWORD)
    with pytest.raises(WalletExists):
        store.new("ada", PASSWORD)
    with pytest.raises(WalletExists):
        store.import_key("ada", KEY, PASSWORD)
    assert store.load("ada", PASSWORD) == first


def test_of_many_that_make_the_same_wallet_at_once_one_succeeds(store: WalletStore) -> None:
    def make(_: int) -> str | None:
        try:
            return store.new("ada", PASSWORD).address
        except WalletExists:
            return None

    with ThreadPoolExecutor(8) as pool:
        (made,) = [address for address in pool.map(make, range(8)) if address]
    assert store.load("ada", PASSWORD).address == made


def test_a_wallet_that_is_not_there_is_named(store: WalletStore) -> None:
    with pytest.raises(WalletNotFound, match="'nobody'"):
        store.load("nobody", PASSWORD)
    with pytest.raises(WalletNotFound):
        store.require("nobody")


@pytest.mark.parametrize("name", ["", "../ada", "a/b", ".hidden", "a" * 65, "ada\n"])
def test_names_cannot_leave_the_directory(store: WalletStore, name: str) -> None:
    with pytest.raises(BadWallet, match="cannot name a wallet"):
        store.new(name, PASSWORD)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"version": 3}', b"\xff" * 10, b"x" * 100_000])
def test_a_damaged_keystore_is_named(store: WalletStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keystore").mkdir()
    (tmp_path / "keystore" / "ada.json").write_bytes(content)
    with pytest.raises(BadWallet):
        store.load("ada", PASSWORD)
    assert store.list() == []


def test_wallets_are_listed_without_their_passwords(store: WalletStore) -> None:
    made = {name: store.new(name, PASSWORD).address for name in ("bob", "ada")}
    assert [(entry.name, entry.address) for entry in store.list()] == sorted(made.items())
    assert store.require("ada").address == made["ada"]


def test_a_wallet_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="holds a key"):
        pickle.dumps(Wallet.create())
