"""The demo's report, computed by a process of its own from the chain and the store alone.

    python -m hydra_node.devnet.report --rpc URL --deployment FILE --cast FILE --test FILE --out FILE ...

A part whose facts are missing is left out and named in `missing`; the checks that need it fail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.deployment import Deployment
from hydra_node.chain.enums import Kind
from hydra_node.chain.rpc import Rpc
from hydra_node.devnet import books, facts
from hydra_node.devnet.checks import evaluate
from hydra_node.devnet.facts import FactMissing, Sources
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.storage.cid import Cid

MAX_CHECKPOINT = 1 << 30
FETCH_SECONDS = 20.0


def main() -> None:
    """Compute the report, write it, and exit; what is missing is for the checks to say."""
    arguments = _arguments()
    asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> None:
    async with Host.start(arguments.data_dir, bootstrap=arguments.bootstrap) as host:
        report = await asyncio.to_thread(compute, arguments, host)
    partial = arguments.out.with_suffix(".partial")
    partial.write_text(json.dumps(report, indent=2, default=str) + "\n", encoding="utf-8")
    partial.replace(arguments.out)


def compute(arguments: argparse.Namespace, host: Host) -> dict[str, Any]:
    """Every part of the report that the chain and the store can tell."""
    deployment = Deployment.load(arguments.deployment)
    rpc = Rpc(arguments.rpc, chain_id=deployment.chain_id)
    client = ChainClient(rpc, deployment)
    history = client.history
    cast = json.loads(arguments.cast.read_text(encoding="utf-8"))
    report: dict[str, Any] = {
        "wall_s": 0.0,
        "processes": arguments.processes,
        "peak_memory_bytes": arguments.peak_memory,
        "cast": cast,
        "missing": {},
        "seconds": {},
    }
    parts = _Parts(report, Sources(client, history, host.ipfs, cast), arguments.test, arguments.single)
    parts.add("chain", lambda: facts.chain_facts(rpc, deployment.addresses, client.events.head()))
    try:
        history.refresh()
    except HydraError as error:
        report["missing"]["events"] = str(error)
    parts.add_all()
    report["wall_s"] = round(time.time() - arguments.started, 1)
    report["checks"] = [asdict(check) for check in evaluate(report)]
    return report


class _Parts:
    """Adds parts to the report; one that cannot be computed is named as missing."""

    def __init__(self, report: dict[str, Any], sources: Sources, test: Path, single: Path) -> None:
        self._report = report
        self._sources = sources
        self._test = test
        self._single = single

    def add(self, name: str, part: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            self._report[name] = part()
        except (HydraError, LookupError, ValueError, TypeError, AttributeError) as error:
            self._report["missing"][name] = f"{type(error).__name__}: {error}"
        self._report["seconds"][name] = round(time.monotonic() - began, 1)

    def add_all(self) -> None:
        sources = self._sources
        self.add("scoring", lambda: facts.scoring_facts(sources))
        self.add("contributors", lambda: facts.contributor_facts(sources))
        self.add("validators", lambda: facts.validator_facts(sources))
        self.add("claims", lambda: facts.claim_facts(sources))
        self.add("books", self._books)
        self.add("training", self._training)

    def _books(self) -> dict[str, Any]:
        sources = self._sources
        events = sources.history.all()
        client = sources.client
        pots = (client.escrow, client.stakes, client.submissions, client.disputes)
        held = {contract.NAME: client.token.balance_of(contract.address) for contract in pots}
        book = books.accounts(events, sources.name_of)
        return books.to_report(book, held, client.token.total_supply(), events)

    def _training(self) -> dict[str, Any]:
        from hydra_node.training.spec import parse_published

        sources = self._sources
        job = sources.job(Kind.TRAINING)
        opened = facts.spec_event(sources, job)
        document = sources.ipfs.cat(Cid.parse(str(opened.args["specCid"])), 1 << 20)
        spec = parse_published(document, bytes(opened.args["specHash"]))
        self.add("dataset", lambda: facts.dataset_facts(sources, spec.dataset))
        segments = facts.posted_segments(sources, job)
        steps = facts.step_records(segments)
        self.add("trainers", lambda: facts.trainer_facts(sources, steps))
        finals = facts.final_checkpoints(sources, segments)
        model = {**facts.chain_of_steps(steps, spec.steps), "final_digests": finals}
        self.add("model", lambda: {**model, **self._accuracy(spec, finals)})
        terms = sources.client.training.terms(job)
        return {"job": job, "rate_per_sample_wei": terms.rate_per_sample, "spec": spec.model_dump(mode="json")}

    def _accuracy(self, spec: Any, finals: dict[str, str]) -> dict[str, float]:
        """Accuracy on the sponsor's test set of the swarm's model, and of the same job run in one process."""
        from hydra_node.training.evaluate import accuracy, read_checkpoint

        if not finals:
            raise FactMissing("no trainer posted a model after the last step")
        ipfs = self._sources.ipfs
        checkpoint = ipfs.cat(Cid.parse(next(iter(finals.values()))), MAX_CHECKPOINT)
        test = facts.test_samples(ipfs, spec, self._test)
        try:
            single = json.loads(self._single.read_text(encoding="utf-8"))
        except OSError as error:
            raise FactMissing(f"the job was not run in one process: {error}") from error
        return {"test_accuracy": accuracy(spec, read_checkpoint(spec, checkpoint), test), **single}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hydra-node-report")
    parser.add_argument("--rpc", required=True)
    parser.add_argument("--deployment", type=Path, required=True)
    parser.add_argument("--bootstrap", action="append", default=[])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--cast", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--single", type=Path, required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--peak-memory", type=int, default=0)
    parser.add_argument("--started", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except HydraError as error:
        sys.stderr.write(f"report: {error}\n")
        sys.exit(2)
