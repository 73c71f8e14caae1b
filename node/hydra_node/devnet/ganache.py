"""Ganache with a heartbeat: `python -m hydra_node.devnet.ganache SECONDS URL COMMAND...`.

Ganache's own `--miner.blockTime` loses transactions: one that arrives while a block with an earlier one of the same
account is being saved waits for ever as if its nonce had a gap before it (Ganache 7.9.2; archived, so it stays). When
Ganache mines each transaction as it comes, this does not happen. So it does that, and this process asks for a block
every SECONDS besides, for the chain's time to go on.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from hydra_node.devnet.chains import ask

_PATIENCE = 5.0  # seconds; less than whoever ends this process has


def main(argv: Sequence[str]) -> int:
    """Run COMMAND until it ends or SIGTERM or SIGINT comes; its exit status, or 0 when it was asked to end."""
    seconds, url, *command = argv
    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    ganache = subprocess.Popen(command)  # noqa: S603  what `chains.command` built, without a shell
    try:
        _beat(ganache, url, float(seconds), stop)
    finally:
        _end(ganache)
    return 0 if stop.is_set() else ganache.returncode


def _beat(ganache: subprocess.Popen[bytes], url: str, seconds: float, stop: threading.Event) -> None:
    while ganache.poll() is None and not stop.wait(seconds):
        try:
            ask(url, "evm_mine")
        except (OSError, ValueError):
            # It is starting, ending, or busier than a second: the next beat tells.
            continue


def _end(ganache: subprocess.Popen[bytes]) -> None:
    ganache.terminate()
    try:
        ganache.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        ganache.kill()
        ganache.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
