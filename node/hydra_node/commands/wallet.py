"""`hydra-node wallet`: keys, encrypted on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hydra_node.commands.options import JsonOption, KeystoreOption, PasswordFileOption, keystore_dir
from hydra_node.commands.output import Output

app = typer.Typer(no_args_is_help=True, help="Make, list and import wallets.")

NameArgument = Annotated[str, typer.Argument(help="A name for the wallet, letters and digits.")]


@app.command()
def new(
    name: NameArgument,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new wallet.

    Example: hydra-node wallet new me
    """
    from hydra_node.chain.password import read_password
    from hydra_node.chain.wallet import WalletStore

    store = WalletStore(keystore_dir(keystore))
    store.check_free(name)
    wallet = store.new(name, read_password(password_file, confirm=True))
    Output(as_json).event("wallet", f"{name}: {wallet.address}", name=name, address=wallet.address)


@app.command("list")
def list_wallets(keystore: KeystoreOption = None, as_json: JsonOption = False) -> None:
    """List the wallets of this machine.

    Example: hydra-node wallet list --json
    """
    from hydra_node.chain.wallet import WalletStore

    store = WalletStore(keystore_dir(keystore))
    entries = store.list()
    rows = [(entry.name, entry.address, entry.path) for entry in entries]
    empty = "no wallet yet; make one with: hydra-node wallet new NAME"
    Output(as_json).table("wallets", ("name", "address", "file"), rows, empty)
    for path in store.damaged():
        sys.stderr.write(f"{path} is no readable keystore\n")


@app.command("import")
def import_wallet(
    name: NameArgument,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="File with the private key in hex; else you are asked.")
    ] = None,
    mnemonic_file: Annotated[
        Path | None, typer.Option("--mnemonic-file", help="File with the words of a recovery phrase (BIP-39).")
    ] = None,
    account: Annotated[int, typer.Option("--account", help="Which account of the recovery phrase, from 0.")] = 0,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import a private key or a recovery phrase, from a file or a prompt, never from the command line.

    Example: hydra-node wallet import old --key-file key.txt
    """
    from hydra_node.chain.password import read_password
    from hydra_node.chain.wallet import BadWallet, WalletStore, read_secret

    if key_file and mnemonic_file:
        raise BadWallet("a wallet has one source", expected="--key-file or --mnemonic-file, not both")
    store = WalletStore(keystore_dir(keystore))
    store.check_free(name)
    if file := key_file or mnemonic_file:
        secret = read_secret(file)
    else:
        secret = typer.prompt("Private key (hex) or recovery phrase", hide_input=True)
    is_phrase = mnemonic_file is not None or (key_file is None and len(secret.split()) > 1)
    if account and not is_phrase:
        raise BadWallet("a private key is of one account", remedy="leave --account out, or give a recovery phrase")
    password = read_password(password_file, confirm=True)
    if is_phrase:
        wallet = store.import_mnemonic(name, secret, password, index=account)
    else:
        wallet = store.import_key(name, secret.strip(), password)
    Output(as_json).event("wallet", f"{name}: {wallet.address}", name=name, address=wallet.address)
