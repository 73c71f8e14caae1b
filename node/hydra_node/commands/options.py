"""The options that many commands share, with the defaults that `hydra-node devnet up` makes true."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hydra_node.chain.wallet import Wallet


def home() -> Path:
    """Where keys and state are kept: HYDRA_HOME, else the platform's data folder."""
    if chosen := os.environ.get("HYDRA_HOME"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "hydra"
    return Path(os.environ.get("XDG_DATA_HOME", str(Path.home() / ".local" / "share"))) / "hydra"


def default_devnet() -> Path:
    return home() / "devnet"


JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line instead of sentences.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")]
RpcOption = Annotated[
    str,
    typer.Option(
        "--rpc",
        envvar="HYDRA_RPC",
        help="URL of the chain's JSON-RPC, or several separated by commas; default: the devnet's.",
    ),
]
DeploymentOption = Annotated[
    Path | None,
    typer.Option(
        "--deployment", envvar="HYDRA_DEPLOYMENT", help="Deployment file of the chain; default: the devnet's."
    ),
]
KeystoreOption = Annotated[
    Path | None, typer.Option("--keystore", envvar="HYDRA_KEYSTORE", help="Folder of encrypted keys.")
]
WalletOption = Annotated[str, typer.Option("--wallet", "-w", envvar="HYDRA_WALLET", help="Name of the wallet to use.")]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option("--password-file", help="File with the password; else HYDRA_PASSWORD_FILE, else you are asked."),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", envvar="HYDRA_DATA_DIR", help="Where this node keeps blocks and state.")
]
BootstrapOption = Annotated[
    list[str], typer.Option("--bootstrap", help="Address of a peer to start from; may be given several times.")
]
ListenOption = Annotated[str, typer.Option("--listen", help="HOST:PORT to listen on; port 0 lets the system choose.")]


def keystore_dir(given: Path | None) -> Path:
    return given or home() / "keystore"


def load_wallet(keystore: Path | None, name: str, password_file: Path | None) -> Wallet:
    """The named wallet, unlocked. Raises WalletNotFound, PasswordMissing, WrongPassword."""
    from hydra_node.chain.password import read_password
    from hydra_node.chain.wallet import WalletStore

    wallet_address(keystore, name)
    return WalletStore(keystore_dir(keystore)).load(name, read_password(password_file))


def wallet_address(keystore: Path | None, name: str) -> str:
    """The address of the named wallet, read without its password. Raises WalletNotFound, BadWallet."""
    from hydra_node.chain.wallet import WalletStore

    return WalletStore(keystore_dir(keystore)).require(name).address
