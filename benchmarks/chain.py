"""How many token transfers a second the local chains take: `python -m benchmarks.chain [--json PATH]`.

Four client processes sign and send ERC-20 transfers with explicit gas, all at once, to a chain that makes one block a
second, and the clock stops when the last receipt is there. The contenders take turns, each round on a fresh chain.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, cast

import requests
from eth_account import Account
from eth_utils.address import to_checksum_address

from hydra_node.chain import abi
from hydra_node.chain.codec import encode_call
from hydra_node.chain.contracts import deploy
from hydra_node.chain.rpc import Rpc
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import ContractCall
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet.chains import KINDS, ChainNotInstalled, ChainSpec, Kind, LocalChain, command, launch

CASE = "erc20 transfers"
METRIC = "tx_per_s"
CLIENTS = 4
GAS = 80_000
FEE = 3 * 10**9
TIP = 10**9
HYDRA = 10**18
RECEIPT_SECONDS = 60.0
POLL_SECONDS = 0.05
RECEIPTS_AT_ONCE = 100


@dataclass(frozen=True)
class Job:
    """What one client process does: `transfers` of one unit each, from its own account."""

    url: str
    chain_id: int
    key: bytes
    token: str
    transfers: int


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    present, absent = _contenders(options.contenders)
    rates: dict[str, list[float]] = {kind: [] for kind in present}
    with multiprocessing.get_context("spawn").Pool(CLIENTS) as clients:
        clients.map(_warm_up, range(CLIENTS), chunksize=1)
        for number in range(options.rounds):
            for kind in present:
                rate = measure(kind, options.transfers, options.block_time, clients)
                rates[kind].append(rate)
                print(f"round {number + 1}  {kind:10} {rate:8.1f} transfers/s", file=sys.stderr)
    rows = [_row(kind, values) for kind, values in rates.items()]
    _print_table(rows, absent)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(_report(rows, absent, options), indent=2) + "\n")
    return 0


def measure(kind: Kind, transfers: int, block_time: int, clients: Pool) -> float:
    """Transfers a second, from the first signature to the last receipt."""
    with _chain(kind, block_time) as (chain, directory):
        jobs = _prepare(chain, directory, transfers)
        start = time.perf_counter()
        mined = clients.map(run_client, jobs, chunksize=1)
        seconds = time.perf_counter() - start
    assert mined == [transfers] * CLIENTS, f"{kind}: of {transfers} transfers each client saw {mined} succeed"
    return transfers * CLIENTS / seconds


def run_client(job: Job) -> int:
    """Send all transfers, wait for all receipts; how many succeeded."""
    session = requests.Session()
    session.trust_env = False
    account = Account.from_key(job.key)
    transfer = abi.load("HydraToken").function("transfer")
    payload = encode_call(transfer, (account.address, 1))
    hashes = []
    for nonce in range(job.transfers):
        signed = account.sign_transaction(
            {
                "type": 2,
                "chainId": job.chain_id,
                "nonce": nonce,
                "gas": GAS,
                "maxFeePerGas": FEE,
                "maxPriorityFeePerGas": TIP,
                "to": job.token,
                "value": 0,
                "data": payload,
            }
        )
        hashes.append(
            str(_post(session, job.url, [("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())])[0])
        )
    return _successes(session, job.url, hashes)


def _successes(session: requests.Session, url: str, hashes: Sequence[str]) -> int:
    deadline = time.monotonic() + RECEIPT_SECONDS
    while _post(session, url, [("eth_getTransactionReceipt", hashes[-1])])[0] is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no receipt within {RECEIPT_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    found = 0
    for first in range(0, len(hashes), RECEIPTS_AT_ONCE):
        asked = [("eth_getTransactionReceipt", each) for each in hashes[first : first + RECEIPTS_AT_ONCE]]
        found += sum(int(receipt["status"], 16) for receipt in _post(session, url, asked))
    return found


def _post(session: requests.Session, url: str, calls: Sequence[tuple[str, str]]) -> list[Any]:
    body = [
        {"jsonrpc": "2.0", "id": at, "method": method, "params": [value]} for at, (method, value) in enumerate(calls)
    ]
    answers = session.post(url, json=cast(Any, body), timeout=RECEIPT_SECONDS).json()
    for answer in answers:
        if answer.get("error"):
            raise RuntimeError(answer["error"]["message"])
    return [answer["result"] for answer in sorted(answers, key=lambda answer: answer["id"])]


def _warm_up(_: int) -> None:
    """Import everything in a client before the clock runs."""
    abi.load("HydraToken")
    Account.create()


@contextmanager
def _chain(kind: Kind, block_time: int) -> Iterator[tuple[LocalChain, Path]]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spec = ChainSpec(kind, block_time=block_time, data=directory / "data")
        with launch(spec, directory / "chain.log") as chain:
            yield chain, directory


def _prepare(chain: LocalChain, directory: Path, transfers: int) -> list[Job]:
    """A token, and an account with coins and tokens for each client."""
    rpc = Rpc(chain.rpc_url)
    sender = Sender(rpc, Wallet.from_key(chain.deployer_key()), directory / "state")
    created = deploy(sender, "HydraToken", sender.address, 10**9 * HYDRA).contract
    assert created is not None
    token = to_checksum_address(created)
    accounts = [Account.create() for _ in range(CLIENTS)]
    give = abi.load("HydraToken").function("transfer")
    calls = [ContractCall("coins", each.address, b"", value=100 * HYDRA, gas=30_000) for each in accounts]
    calls += [ContractCall("tokens", token, encode_call(give, (each.address, HYDRA)), gas=GAS) for each in accounts]
    sender.send_all(calls)
    return [Job(chain.rpc_url, chain.chain_id, bytes(each.key), token, transfers) for each in accounts]


def _contenders(wanted: Sequence[str]) -> tuple[list[Kind], dict[str, str]]:
    """Those that can run here, and why the others cannot."""
    present: list[Kind] = []
    absent: dict[str, str] = {}
    for kind in cast(Sequence[Kind], wanted):
        try:
            command(ChainSpec(kind))
        except ChainNotInstalled as error:
            absent[kind] = str(error)
        else:
            present.append(kind)
    return present, absent


def _row(contender: str, rates: Sequence[float]) -> dict[str, Any]:
    return {
        "case": CASE,
        "contender": contender,
        "metric": METRIC,
        "unit": "1/s",
        "min": round(min(rates), 1),
        "median": round(statistics.median(rates), 1),
        "max": round(max(rates), 1),
        "n": len(rates),
    }


def _report(rows: list[dict[str, Any]], absent: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "bench": "chain",
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **_versions("py-evm", "web3", "coincurve", "aiohttp")},
        "settings": {
            "clients": CLIENTS,
            "transfers_per_client": options.transfers,
            "block_time_s": options.block_time,
        },
        "absent": absent,
        "rows": rows,
    }


def _versions(*packages: str) -> dict[str, str]:
    return {name: version(name) for name in packages}


def _print_table(rows: list[dict[str, Any]], absent: dict[str, str]) -> None:
    print(f"{CASE}, {CLIENTS} clients at once, transfers a second")
    print(f"{'contender':12}{'min':>10}{'median':>10}{'max':>10}{'n':>5}")
    for row in rows:
        print(f"{row['contender']:12}{row['min']:10.1f}{row['median']:10.1f}{row['max']:10.1f}{row['n']:5d}")
    for kind, reason in absent.items():
        print(f"{kind:12}absent: {reason}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chain", description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transfers", type=int, default=250, help="of each client in a round")
    parser.add_argument("--block-time", type=int, default=1, help="seconds; 0 mines at once")
    parser.add_argument("--contenders", nargs="+", choices=KINDS, default=list(KINDS))
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
