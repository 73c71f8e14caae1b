"""Keys, passwords, recovery phrases and an endpoint's access key are in no output, no file and no command line."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from commands_world import run_in

from hydra_node.commands.session import network

KEY = "5e1f" * 16
PASSWORD = "swordfish between two mirrors"
WRONG = "swordfish between three mirrors"
PHRASE = "legal winner thank year wave sausage worth useful legal winner thank yellow"
ACCESS = "4cc355b7e9d04f1a"
FORMS = {
    "key": (KEY, KEY.upper(), str(int(KEY, 16)), repr(bytes.fromhex(KEY))[2:-1]),
    "password": (PASSWORD, WRONG, "swordfish"),
    "phrase": (PHRASE, "sausage worth"),
    "access key": (ACCESS,),
}
DEBUGGING = "import logging; logging.basicConfig(level=logging.DEBUG); from hydra_node.cli import main; main()"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user keeps what is secret: outside the node's home."""
    folder = tmp_path_factory.mktemp("kept")
    for name, text in {"key": KEY, "password": PASSWORD, "wrong": WRONG, "phrase": PHRASE}.items():
        (folder / name).write_text(text + "\n")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, kept: Path) -> Iterator[Path]:
    """HYDRA_HOME with a running devnet and two imported wallets with coins."""
    folder = tmp_path_factory.mktemp("home")
    secret = ("--password-file", str(kept / "password"))
    try:
        up = run_in(folder, "devnet", "up", "--port", "0", password=None)
        assert up.returncode == 0, up.stderr
        for name, source in {"me": "key", "other": "phrase"}.items():
            option = "--key-file" if source == "key" else "--mnemonic-file"
            made = run_in(folder, "wallet", "import", name, option, str(kept / source), *secret, password=None)
            assert made.returncode == 0, made.stderr
            assert run_in(folder, "devnet", "fund", name, password=None).returncode == 0
        yield folder
    finally:
        run_in(folder, "devnet", "down", password=None)


def shown(text: str, *kinds: str) -> list[str]:
    """Which kinds of secrets a text holds."""
    return [kind for kind in kinds or FORMS if any(form in text for form in FORMS[kind])]


def everything_printed(home: Path, kept: Path) -> str:
    """What the commands print, those that work and those that fail, through endpoints whose URLs hold a key."""
    known = network(home / "devnet")
    assert known is not None
    good = ("--rpc", f"http://127.0.0.1:1/v3/{ACCESS},{known.rpc}/?key={ACCESS}")
    secret, wrong = ("--password-file", str(kept / "password")), ("--password-file", str(kept / "wrong"))
    runs = {
        ("wallet", "list"): 0,
        ("balance", *good): 0,
        ("stake", "1 HYDRA", "--yes", *good, *secret): 0,
        ("stake", "1 HYDRA", "--yes", "--wallet", "other", *good, *secret): 0,
        ("tx", "list", "--json", *good): 0,
        ("tx", "show", "1", "--json", *good): 0,
        ("stake", "1 HYDRA", "--yes", *good, *wrong): 2,
        ("unstake", "999999 HYDRA", *good, *secret): 2,
        ("balance", "--rpc", f"http://127.0.0.1:1/v3/{ACCESS}"): 2,
        ("balance", "--rpc", f"{known.rpc}/v3/{ACCESS}"): 2,
        ("balance", "--rpc", f"ftp://me:{ACCESS}@localhost"): 2,
        ("wallet", "import", "x", "--key-file", str(kept / "phrase"), *secret): 2,
        ("wallet", "import", "x", "--mnemonic-file", str(kept / "key"), *secret): 2,
        ("wallet", "import", "me", "--key-file", str(kept / "key"), *secret): 2,
    }
    printed = []
    for arguments, status in runs.items():
        done = run_in(home, *arguments, password=None)
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        printed.append(f"{arguments}\n{done.stdout}{done.stderr}".replace(str(arguments), arguments[0]))
    return "".join(printed)


def test_no_secret_is_printed_or_left_in_a_file(home: Path, kept: Path) -> None:
    assert shown(everything_printed(home, kept)) == []
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in files), "the outbox is among what is searched"
    leaks = {path: kinds for path in files if (kinds := shown(path.read_bytes().decode("latin-1")))}
    assert leaks == {}
    raw = bytes.fromhex(KEY)
    assert [path for path in files if raw in path.read_bytes()] == []


def test_no_secret_is_logged_even_when_everything_is(home: Path, kept: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEBUGGING, "stake", "1 HYDRA", "--yes", "--password-file", str(kept / "password")],
        env={**os.environ, "HYDRA_HOME": str(home), "HYDRA_WALLET": "me"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "DEBUG" in done.stderr
    assert shown(done.stdout + done.stderr, "key", "password", "phrase") == []


def test_no_secret_is_in_a_command_line(home: Path, kept: Path) -> None:
    """Other users of the machine see every process's command line."""
    environment = {**os.environ, "HYDRA_HOME": str(home), "HYDRA_PASSWORD": PASSWORD}
    serve = [sys.executable, "-m", "hydra_node", "serve", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            assert json.loads(serving.stdout.readline())
            ours = [process for process in psutil.process_iter() if home_of(process) == str(home)]
            assert len(ours) >= 2, "the served peer and the devnet"
            assert [line for process in ours if shown(line := " ".join(process.cmdline()))] == []
        finally:
            serving.terminate()


def home_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("HYDRA_HOME")
    except psutil.Error:
        return None


def test_what_is_typed_at_the_prompt_is_not_echoed(tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    typed = {"phrase": PHRASE, "password": PASSWORD, "again": PASSWORD}
    command = [sys.executable, "-m", "hydra_node", "wallet", "import", "me"]
    environment = {**os.environ, "HYDRA_HOME": str(tmp_path)}
    environment.pop("HYDRA_PASSWORD_FILE", None)
    environment.pop("HYDRA_PASSWORD", None)
    with subprocess.Popen(
        command, env=environment, stdin=side, stdout=side, stderr=side, start_new_session=True
    ) as asking:
        try:
            printed = ""
            for word, answer in typed.items():
                printed += read_until(terminal, word)
                wait_for_silence(terminal)
                os.write(terminal, f"{answer}\n".encode())
            printed += read_until(terminal, "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25")
            assert asking.wait(30) == 0
        finally:
            asking.kill()
            os.close(terminal)
            os.close(side)
    assert shown(printed) == []


def read_until(terminal: int, word: str) -> str:
    """What the terminal shows until `word` is in it; raises when nothing comes for a minute."""
    printed = ""
    while word not in printed:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"{word!r} is not in {printed!r}"
        printed += os.read(terminal, 4096).decode()
    return printed


def wait_for_silence(terminal: int) -> None:
    """Until the program has turned the echo off: what is typed before that is thrown away."""
    until = time.monotonic() + 60
    while termios.tcgetattr(terminal)[3] & termios.ECHO:
        assert time.monotonic() < until, "the echo stays on"
        time.sleep(0.005)
