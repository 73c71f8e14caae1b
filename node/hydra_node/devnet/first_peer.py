"""The devnet's first peer: the one that everybody else starts from, kept in the background beside the chain."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from hydra_node.chain.files import private_directory, write_private
from hydra_node.commands.session import NETWORK_FILE, NetworkFile
from hydra_node.devnet.background import end_process, started_at
from hydra_node.errors import HydraError

START_SECONDS = 30.0
_POLL_SECONDS = 0.1


class PeerFailed(HydraError):
    """The first peer did not start."""


def up(directory: Path) -> str:
    """Start the peer unless it runs; its address. Raises PeerFailed."""
    known = running(directory)
    if known is not None:
        return known
    log = directory / "peer.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "hydra_node", "serve", "--data-dir", str(directory / "peer"), "--json"]
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  this package's own command, no shell
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    address = _address(process, log)
    record = {"pid": process.pid, "started": started_at(process.pid), "address": address}
    write_private(_record(directory), json.dumps(record).encode())
    return address


def down(directory: Path) -> bool:
    """Stop the peer; False if none was running."""
    known = running(directory)
    if known is not None:
        record = json.loads(_record(directory).read_text(encoding="utf-8"))
        end_process(int(record["pid"]), str(record["started"]))
    _record(directory).unlink(missing_ok=True)
    (directory / NETWORK_FILE).unlink(missing_ok=True)
    return known is not None


def write_network(directory: Path, rpc: str, address: str) -> None:
    """Write how to reach this network, for the commands of this machine."""
    network = NetworkFile(rpc=rpc, bootstrap=(address,))
    write_private(private_directory(directory) / NETWORK_FILE, network.model_dump_json().encode())


def _record(directory: Path) -> Path:
    return directory / "peer.json"


def running(directory: Path) -> str | None:
    """The address of the peer, or None when it does not run."""
    try:
        record = json.loads(_record(directory).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    alive = started_at(int(record["pid"])) == record["started"]
    return str(record["address"]) if alive else None


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"serving"' in line:
                return str(json.loads(line)["address"])
        if process.poll() is not None:
            break
        time.sleep(_POLL_SECONDS)
    process.kill()
    raise PeerFailed("the first peer did not start", remedy=f"see {log}")
