"""What the report says, gathered from the chain and the store alone."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_node.campaigns.claims import evidence_of
from hydra_node.campaigns.scored import read_scores
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind, Role
from hydra_node.chain.event_store import EventStore
from hydra_node.chain.events import Event
from hydra_node.chain.rpc import Rpc
from hydra_node.collective import record as records
from hydra_node.collective.record import StepRecord
from hydra_node.errors import HydraError
from hydra_node.storage import tables
from hydra_node.storage.cid import Cid
from hydra_node.storage.dataset import load_manifest
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.journal import MAX_SEGMENT, SegmentDocument, read_segment
from hydra_node.training.samples import Samples, for_spec
from hydra_node.training.spec import TrainingSpec

Cast = Mapping[str, Mapping[str, Any]]
BUCKETS = 64
SHARE_POINTS = 30


class FactMissing(HydraError):
    """Something that the story should have left on chain or in the store is not there."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where facts come from: the chain's events, the contracts, the store; and who is who."""

    client: ChainClient
    history: EventStore
    ipfs: IpfsClient
    cast: Cast

    def name_of(self, address: str) -> str:
        """A participant's name, or the address of somebody unknown."""
        known = {person["address"].lower(): name for name, person in self.cast.items()}
        return known.get(address.lower(), address)

    def job(self, kind: Kind) -> int:
        """The number of the story's campaign or training job. Raises FactMissing."""
        opened = self.history.find("JobOpened", kind=kind)
        if not opened:
            raise FactMissing(f"no {kind.name.lower()} was opened")
        return int(opened[-1].args["jobId"])

    def people(self, kind: str) -> list[tuple[str, str]]:
        """(name, address) of every participant of a kind."""
        return [(name, str(person["address"])) for name, person in self.cast.items() if person["kind"] == kind]

    def newest_evidence(self, event_name: str, job: int) -> Any:
        """The document behind the newest tally or settlement of a job. Raises FactMissing."""
        found = self.history.find(event_name, jobId=job)
        if not found:
            raise FactMissing(f"job {job} has no {event_name} on chain")
        newest = found[-1]
        cid = evidence_of(self.history, newest) if event_name == "Tallied" else str(newest.args["evidenceCid"])
        return self.ipfs.get_node(Cid.parse(cid))

    def paid(self, address: str) -> int:
        """All that the escrows paid to an address, in wei."""
        return sum(int(e.args["amount"]) for e in self.history.find("Paid") if _same(e.args["to"], address))

    def slashed(self, role: Role, address: str) -> int:
        """All stake in a role that an address lost, in wei."""
        slashed = self.history.find("Slashed", role=role)
        return sum(int(e.args["amount"]) for e in slashed if _same(e.args["operator"], address))


def chain_facts(rpc: Rpc, addresses: Mapping[str, str], last: int) -> dict[str, Any]:
    """Transactions and gas by contract over all blocks, and which contracts have code."""
    names = {address.lower(): name for name, address in addresses.items()}
    gas: Counter[str] = Counter()
    count = 0
    for number in range(last + 1):
        block = rpc.request("eth_getBlockByNumber", hex(number), False)
        for transaction in block["transactions"]:
            receipt = rpc.request("eth_getTransactionReceipt", transaction)
            target = receipt.get("to")
            gas["creation" if target is None else names.get(target.lower(), "transfer")] += int(receipt["gasUsed"], 16)
            count += 1
    return {
        "blocks": last,
        "transactions": count,
        "gas": dict(sorted(gas.items())),
        "contracts": {name: _has_code(rpc, address) for name, address in addresses.items()},
    }


def scoring_facts(sources: Sources) -> dict[str, Any]:
    """How the scoring round ended and with how much stake behind it, in wei."""
    campaign = sources.job(Kind.CAMPAIGN)
    opened = sources.history.find("RoundOpened", jobId=campaign)
    if not opened:
        raise FactMissing("no scoring round was opened")
    round_id, committee = int(opened[-1].args["roundId"]), opened[-1].args["committee"]
    tallied = sources.history.find("Tallied", roundId=round_id)
    weights = [sources.client.quality.ballot(round_id, member).weight for member in committee]
    return {
        "round": round_id,
        "state": "Tallied" if tallied else "Failed",
        "backing": int(tallied[-1].args["backing"]) if tallied else 0,
        "committee_stake": sum(weights),
    }


def contributor_facts(sources: Sources) -> dict[str, Any]:
    """Items, accepted items, mean score in 0..1 and pay of each contributor."""
    campaign = sources.job(Kind.CAMPAIGN)
    scores = read_scores(sources.newest_evidence("Tallied", campaign))
    facts = {}
    for name, address in sources.people("contributor"):
        entries = [entry for entry in scores.submissions if _same(entry.contributor, address)]
        buckets = b"".join(entry.buckets for entry in entries)
        revealed = sources.history.find("Revealed", "SubmissionRegistry", jobId=campaign)
        items = sum(int(e.args["itemCount"]) for e in revealed if _same(e.args["contributor"], address))
        facts[name] = {
            "items": items,
            "accepted": sum(1 for bucket in buckets if bucket),
            "score": sum(buckets) / (BUCKETS * items) if items else 0.0,
            "paid_wei": sources.paid(address),
        }
    return facts


def validator_facts(sources: Sources) -> dict[str, Any]:
    """Commitments, reveals, pay and lost stake of each validator."""

    def count(name: str, address: str) -> int:
        return sum(_same(e.args["validator"], address) for e in sources.history.find(name, "QualityRounds"))

    return {
        name: {
            "commits": count("Committed", address),
            "reveals": count("Revealed", address),
            "attestations": sum(_same(e.args["validator"], address) for e in sources.history.find("Attested")),
            "paid_wei": sources.paid(address),
            "slashed_wei": sources.slashed(Role.VALIDATOR, address),
        }
        for name, address in sources.people("validator")
    }


def dataset_facts(sources: Sources, dataset: str) -> dict[str, Any]:
    """The dataset version that the job trains on."""
    manifest = load_manifest(sources.ipfs, Cid.parse(dataset))
    return {"cid": dataset, "items": len(manifest), "version": manifest.version, "submissions": len(manifest.entries)}


def claim_facts(sources: Sources) -> dict[str, Any]:
    """What was published and what was claimed, by job, in wei."""
    jobs = sorted({int(event.args["jobId"]) for event in sources.history.find("RootPublished")})
    rewards = sources.client.rewards
    return {
        str(job): {"published_wei": rewards.current(job)[1], "claimed_wei": rewards.claimed_total(job)} for job in jobs
    }


def posted_segments(sources: Sources, job: int) -> dict[str, list[SegmentDocument]]:
    """Every journal segment that trainers posted, by wallet in lower case; each checked against its digest."""
    segments: dict[str, list[SegmentDocument]] = defaultdict(list)
    for event in sources.history.find("RecordPosted", jobId=job):
        data = sources.ipfs.cat(Cid.parse(str(event.args["cid"])), MAX_SEGMENT)
        segments[str(event.args["trainer"]).lower()].append(read_segment(data, bytes(event.args["digest"])))
    return segments


def step_records(segments: Mapping[str, Sequence[SegmentDocument]]) -> dict[int, StepRecord]:
    """The record of each step. Raises FactMissing when two trainers show different ones for a step."""
    found: dict[int, bytes] = {}
    for entry in (entry for shown in segments.values() for segment in shown for entry in segment.entries):
        if found.setdefault(entry.step, entry.record) != entry.record:
            raise FactMissing(f"two trainers show different records of step {entry.step}")
    parsed = {step: records.decode(raw) for step, raw in sorted(found.items())}
    return {step: record for step, record in parsed.items() if isinstance(record, StepRecord)}


def trainer_facts(sources: Sources, steps: Mapping[int, StepRecord]) -> dict[str, Any]:
    """Work, restarts, shares over time, pay and lost stake of each trainer."""
    job = sources.job(Kind.TRAINING)
    settled = {entry["account"]: entry for entry in sources.newest_evidence("RoundSettled", job)["trainers"]}
    peers = {str(e.args["trainer"]).lower(): bytes(e.args["peerKey"]) for e in sources.history.find("TrainerJoined")}
    facts = {}
    for name, address in sources.people("trainer"):
        work = settled.get(address.lower(), {})
        peer = str(work.get("peer", "")) if address.lower() in peers else ""
        facts[name] = {
            **_work_of(peer, steps),
            "samples_verified": int(work.get("samples_paid", 0)),
            "verdicts": dict(work.get("verdicts", {})),
            "paid_wei": sources.paid(address),
            "slashed_wei": sources.slashed(Role.TRAINER, address),
            "banned": sources.client.training.is_banned(job, address),
        }
    return facts


def chain_of_steps(steps: Mapping[int, StepRecord], planned: int) -> dict[str, Any]:
    """Whether the records are one run of all steps: numbered 0 to the last, each once, heights rising."""
    heights = [record.height for _step, record in sorted(steps.items())]
    rising = all(a < b for a, b in itertools.pairwise(heights))
    return {"steps": len(steps), "planned_steps": planned, "restarted_from_step_0": not (0 in steps and rising)}


def _work_of(peer: str, steps: Mapping[int, StepRecord]) -> dict[str, Any]:
    samples = {
        step: record.samples[record.contributors.index(peer)]
        for step, record in sorted(steps.items())
        if peer in record.contributors
    }
    restarts, back = _returns([(step, peer in record.members) for step, record in sorted(steps.items())])
    every = max(1, len(steps) // SHARE_POINTS)
    return {
        "steps": sum(1 for count in samples.values() if count),
        "samples": sum(samples.values()),
        "restarts": restarts,
        "steps_after_restart": sum(1 for step, count in samples.items() if restarts and step >= back and count),
        "shares": {str(step): count for step, count in samples.items() if step % every == 0},
    }


def _returns(present: Iterable[tuple[int, bool]]) -> tuple[int, int]:
    """How often a member came back after it had been there and gone, and the step of its last return."""
    returns, back, was, gone = 0, 0, False, False
    for step, is_there in present:
        if is_there and gone:
            returns, back, gone = returns + 1, step, False
        gone = gone or (was and not is_there)
        was = is_there
    return returns, back


def final_checkpoints(sources: Sources, segments: Mapping[str, Sequence[SegmentDocument]]) -> dict[str, str]:
    """The CID of the final checkpoint that each trainer posted, by name."""
    return {
        sources.name_of(wallet): segment.checkpoint
        for wallet, shown in segments.items()
        for segment in shown
        if segment.checkpoint
    }


def test_samples(ipfs: IpfsClient, spec: TrainingSpec, path: Path) -> Samples:
    """The sponsor's test set, which never leaves its file, scaled as the job's dataset is."""
    table = tables.read_file(path)
    scale = load_manifest(ipfs, Cid.parse(spec.dataset)).schema.scale
    return for_spec(spec, table.features / scale, table.labels)


def _has_code(rpc: Rpc, address: str) -> bool:
    return rpc.request("eth_getCode", address, "latest") not in {"0x", ""}


def _same(one: object, other: object) -> bool:
    return str(one).lower() == str(other).lower()


def spec_event(sources: Sources, job: int) -> Event:
    """The opening of a job, which names its specification."""
    return sources.history.find("JobOpened", jobId=job)[0]
