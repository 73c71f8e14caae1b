"""What a command works with: the chain it talks to and the host it runs, from options and the devnet's defaults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from hydra_node.commands.options import default_devnet, home, load_wallet
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient

NETWORK_FILE = "network.json"
INTERRUPTED = 130
THREADS_SECONDS = 3.0
# Loops on Windows take no signal handlers: there Ctrl-C raises KeyboardInterrupt in run().
_LOOP_SIGNALS = () if sys.platform == "win32" else (signal.SIGTERM, signal.SIGINT)


class NoNetwork(HydraError):
    """Neither options nor a running devnet say which chain to use."""


class NetworkFile(BaseModel):
    """How to reach a network: what `hydra-node devnet up` writes and other commands take as their default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rpc: str
    bootstrap: tuple[str, ...] = ()


def network(directory: Path | None = None) -> NetworkFile | None:
    """The devnet's network file, or None when there is none."""
    path = (directory or default_devnet()) / NETWORK_FILE
    try:
        return NetworkFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise NoNetwork(f"{path} is damaged", remedy="run: hydra-node devnet up") from None


def chain(
    rpc: str,
    deployment: Path | None,
    *,
    keystore: Path | None = None,
    wallet: str = "",
    password_file: Path | None = None,
) -> ChainClient:
    """A checked client; with `wallet`, one that can send. Raises HydraError naming what is missing."""
    from hydra_node.chain.contracts import connect

    known = network()
    url = rpc or (known.rpc if known else "")
    file = deployment or default_devnet() / "deployment.json"
    if not url:
        raise NoNetwork("no chain is named", remedy="give --rpc and --deployment, or start one: hydra-node devnet up")
    signer = load_wallet(keystore, wallet, password_file) if wallet else None
    return connect(url, file, signer, accounts(), max_fee=max_fee())


def accounts() -> Path:
    """Where what each account has sent is kept."""
    return home() / "accounts"


def max_fee() -> int | None:
    """The most to offer for a unit of gas, from HYDRA_MAX_FEE; None without it. Raises BadGasPrice."""
    from hydra_node.chain.amounts import parse_gas_price

    given = os.environ.get("HYDRA_MAX_FEE")
    return parse_gas_price(given) if given else None


def bootstrap(given: list[str]) -> list[str]:
    """The peers to start from: those given, else the devnet's."""
    known = network()
    return given or (list(known.bootstrap) if known else [])


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM end the program at once, as at a question that waits for an answer on the loop."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for number in _LOOP_SIGNALS:
        loop.remove_signal_handler(number)
    try:
        yield
    finally:
        _cancel_on_signals(loop, task)


def _cancel_on_signals(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    for number in _LOOP_SIGNALS:
        loop.add_signal_handler(number, task.cancel)


def _leave_soon() -> None:
    """End the process even if a thread still waits, patiently, for a chain that does not answer.

    The interpreter would wait for it. What threads do here may be killed at any time.
    """

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)

    timer = threading.Timer(THREADS_SECONDS, leave)
    timer.daemon = True
    timer.start()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a command's coroutine; SIGTERM and Ctrl-C cancel it, so that it closes what it opened."""

    async def cancellable() -> None:
        task = asyncio.create_task(main)
        _cancel_on_signals(asyncio.get_running_loop(), task)
        try:
            await task
        except asyncio.CancelledError:
            _leave_soon()
            raise SystemExit(INTERRUPTED) from None

    asyncio.run(cancellable())
