"""The demo's training job run plainly in one process, beside the end of the story, for the report to compare with.

python -m hydra_node.devnet.single --rpc URL --deployment FILE --test FILE --data-dir DIR --out FILE ...
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.enums import Kind
from hydra_node.chain.rpc import Rpc
from hydra_node.devnet.facts import Sources, test_samples
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.storage.ipfs import IpfsClient


def main() -> None:
    """Train, write the accuracy, and exit."""
    arguments = _arguments()
    asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> None:
    async with Host.start(arguments.data_dir, bootstrap=arguments.bootstrap) as host:
        accuracy = await asyncio.to_thread(train, arguments, host.ipfs)
    arguments.out.write_text(json.dumps({"single_process_accuracy": accuracy}) + "\n", encoding="utf-8")


def train(arguments: argparse.Namespace, ipfs: IpfsClient) -> float:
    """The accuracy on the sponsor's test set of the newest training job, trained here. Blocking."""
    from hydra_node.training.baseline import train_single
    from hydra_node.training.job import load

    deployment = Deployment.load(arguments.deployment)
    client = ChainClient(Rpc(arguments.rpc, chain_id=deployment.chain_id), deployment)
    history = client.history
    history.refresh()
    job = load(client, ipfs, Sources(client, history, ipfs, cast={}).job(Kind.TRAINING))
    return train_single(job.spec, job.samples, test_samples(ipfs, job.spec, arguments.test)).test_accuracy


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hydra-node-single")
    parser.add_argument("--rpc", required=True)
    parser.add_argument("--deployment", type=Path, required=True)
    parser.add_argument("--bootstrap", action="append", default=[])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except HydraError as error:
        sys.stderr.write(f"single process: {error}\n")
        sys.exit(2)
