"""`python -m hydra_node.devnet.embedded`: the chain as a process of its own.

Prints one line of JSON when it is ready: {"event": "ready", "rpc": URL, "chain_id": N, "pid": N, "accounts": [...]}.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from eth.abc import SignedTransactionAPI

from hydra_node.devnet.embedded.accounts import dev_accounts, stored_mnemonic
from hydra_node.devnet.embedded.api import EthApi
from hydra_node.devnet.embedded.evm import GAS_LIMIT, EvmChain, Genesis
from hydra_node.devnet.embedded.pool import TransactionPool
from hydra_node.devnet.embedded.producer import BlockProducer, ChainClock
from hydra_node.devnet.embedded.server import RpcServer
from hydra_node.devnet.embedded.store import BlockStore, DatabaseUnusable
from hydra_node.devnet.embedded.unlocked import UnlockedAccounts
from hydra_node.errors import HydraError

ETHER = 10**18
TEST_MNEMONIC = "test test test test test test test test test test test junk"
DATABASE = "chain.sqlite"
MNEMONIC_FILE = "mnemonic"
_SHUTDOWN_SECONDS = 2.0


class PortInUse(HydraError):
    """Another program listens where the chain was to listen."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the chain is started; without `data` it lives in memory and is gone at the end."""

    host: str
    port: int
    data: Path | None
    block_time: int
    chain_id: int
    mnemonic: str | None
    accounts: int
    balance: int
    gas_limit: int
    unlocked: bool


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    options = _parse(argv)
    try:
        asyncio.run(_serve(options))
    except HydraError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  this is the command line
        return 2
    return 0


def _parse(argv: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m hydra_node.devnet.embedded", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=_whole(0, 65535), default=8545, help="0 picks a free one")
    parser.add_argument("--data", type=Path, help="directory to keep the chain in; without it, in memory")
    parser.add_argument("--block-time", type=_whole(0, 3600), default=1, help="seconds; 0 mines at once")
    parser.add_argument("--chain-id", type=_whole(1, 2**53 - 1), default=1337)
    parser.add_argument("--mnemonic", help="of the developer accounts, for phrases that are no secret")
    parser.add_argument("--accounts", type=_whole(1, 100), default=10, help="how many have ether at the start")
    parser.add_argument("--balance", type=_whole(0, 10**9), default=1_000_000, help="ether of each")
    parser.add_argument("--gas-limit", type=_whole(5_000, 10**9), default=GAS_LIMIT, help="of a block")
    parser.add_argument("--unlocked", action="store_true", help="sign for whoever asks: for tests of contracts")
    return Options(**vars(parser.parse_args(argv)))


def _whole(least: int, most: int) -> type[int]:
    class WholeNumber(int):
        def __new__(cls, text: str) -> WholeNumber:
            number = super().__new__(cls, text)
            if not least <= number <= most:
                raise ValueError(text)
            return number

    WholeNumber.__name__ = f"whole number from {least} to {most}"
    return WholeNumber


async def _serve(options: Options) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as resources:
        listener = resources.enter_context(_listen(options.host, options.port))
        store = BlockStore(_database(options.data))
        resources.callback(store.close)
        await _serve_chain(options, store, listener, stop)


async def _serve_chain(options: Options, store: BlockStore, listener: socket.socket, stop: asyncio.Event) -> None:
    clock = ChainClock()
    accounts = dev_accounts(_mnemonic(options), options.accounts)
    balances = {bytes.fromhex(account.address[2:]): int(options.balance) * ETHER for account in accounts}
    chain = EvmChain.open(store, Genesis(options.chain_id, int(clock.now()), balances, options.gas_limit))
    pool: TransactionPool[SignedTransactionAPI] = TransactionPool()
    producer = BlockProducer(chain, pool, clock, options.block_time)
    addresses = [account.address for account in accounts]
    api = EthApi(chain, pool, producer, addresses)
    if options.unlocked:
        api.methods["eth_sendTransaction"] = UnlockedAccounts(api.methods, accounts).send
    runner = web.AppRunner(RpcServer(api.methods).application(), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        host, port = listener.getsockname()[:2]
        ready = {
            "event": "ready",
            "rpc": f"http://{host}:{port}",
            "chain_id": options.chain_id,
            "pid": os.getpid(),
            "accounts": addresses,
        }
        print(json.dumps(ready), flush=True)  # noqa: T201  the line that whoever started this waits for
        await _until(stop, producer)
    finally:
        await runner.cleanup()


async def _until(stop: asyncio.Event, producer: BlockProducer) -> None:
    """Make blocks until `stop` is set. A failure of the producer ends the process: a chain without blocks is none."""
    making, stopping = asyncio.create_task(producer.run()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({making, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if making.done():
            making.result()
    finally:
        making.cancel()
        stopping.cancel()
        await asyncio.gather(making, stopping, return_exceptions=True)


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise PortInUse(
            f"cannot listen on {host} port {port}: {error.strerror}",
            remedy="stop the program that uses it, or choose another port (0 picks a free one)",
        ) from error
    return listener


def _database(data: Path | None) -> Path | None:
    if data is None:
        return None
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnusable(
            f"cannot make the data directory {data}: {error.strerror}", remedy="choose another with --data"
        ) from error
    return data / DATABASE


def _mnemonic(options: Options) -> str:
    if options.mnemonic is not None:
        return options.mnemonic
    return TEST_MNEMONIC if options.data is None else stored_mnemonic(options.data / MNEMONIC_FILE)


if __name__ == "__main__":
    sys.exit(main())
