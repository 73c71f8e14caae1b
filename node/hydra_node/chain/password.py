"""Where the password of a keystore comes from: a file, the environment, or a prompt. Never the command line."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from hydra_node.errors import HydraError

PASSWORD_VARIABLE = "HYDRA_PASSWORD"  # noqa: S105  the name of a variable
PASSWORD_FILE_VARIABLE = "HYDRA_PASSWORD_FILE"  # noqa: S105  the name of a variable
MAX_PASSWORD = 1024


class PasswordMissing(HydraError):
    """No source gave a password."""


class Password(str):
    """A password usable as a text, but shown by no `repr` (so by no traceback with locals) and held by no pickle."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Password(hidden)"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a password is not to be stored")


def read_password(
    file: Path | None = None,
    *,
    prompt: str = "Wallet password: ",
    confirm: bool = False,
    environment: Mapping[str, str] | None = None,
    ask: Callable[[str], str] | None = None,
) -> Password:
    """The password from the first source that has one: `file`, HYDRA_PASSWORD_FILE, HYDRA_PASSWORD, a prompt.

    `ask` shows the prompt and reads without echo (`getpass` when a terminal is attached and none is given); with
    `confirm` it asks twice. A file's one trailing line break is not part of the password. Raises `PasswordMissing`.
    """
    environment = os.environ if environment is None else environment
    if file is None and environment.get(PASSWORD_FILE_VARIABLE):
        file = Path(environment[PASSWORD_FILE_VARIABLE])
    if file is not None:
        return _from_file(file)
    if environment.get(PASSWORD_VARIABLE):
        return _checked(Password(environment[PASSWORD_VARIABLE]), f"the variable {PASSWORD_VARIABLE}")
    if ask is None and sys.stdin is not None and sys.stdin.isatty():
        ask = getpass.getpass
    if ask is None:
        raise PasswordMissing(
            "no password for the wallet and no terminal to ask at",
            remedy=f"set {PASSWORD_FILE_VARIABLE} to a file that holds it, or {PASSWORD_VARIABLE}",
        )
    return _from_prompt(ask, prompt, confirm)


def _from_file(path: Path) -> Password:
    try:
        with path.open("rb") as file:
            raw = file.read(4 * MAX_PASSWORD + 2)
    except OSError as error:
        raise PasswordMissing(f"the password file {path} cannot be read ({error.strerror})") from None
    try:
        text = Password(raw.decode())
    except UnicodeDecodeError:
        raise PasswordMissing(f"the password file {path} is not UTF-8 text") from None
    return _checked(Password(text.removesuffix("\n").removesuffix("\r")), f"the file {path}")


def _from_prompt(ask: Callable[[str], str], prompt: str, confirm: bool) -> Password:
    password = _checked(Password(ask(prompt)), "the prompt")
    if confirm and Password(ask("The same again: ")) != password:
        raise PasswordMissing("the two passwords differ", remedy="try again")
    return password


def _checked(password: Password, source: str) -> Password:
    if not 0 < len(password) <= MAX_PASSWORD:
        raise PasswordMissing(f"{source} gives no usable password", expected=f"1 to {MAX_PASSWORD} characters")
    return password
