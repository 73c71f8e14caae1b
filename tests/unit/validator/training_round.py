"""A small job, trained honestly in this process by a few peers with real keys, as their journals would show it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hydra_node.collective import certificate, record, vectors
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.keys import IdentityKeys
from hydra_node.collective.record import Record, StepRecord, View, ViewRecord
from hydra_node.p2p.identity import Identity
from hydra_node.storage.unixfs import cid_of
from hydra_node.training import compute, models
from hydra_node.training.journal import JournalEntry, JournalView, SegmentDocument, SegmentFiles, bare, files_of
from hydra_node.training.order import SampleOrder
from hydra_node.training.samples import Samples
from hydra_node.training.spec import TrainingSpec, make
from hydra_node.training.state import TrainState

SWARM = b"swarm-of-job-7"
Vector = vectors.Vector
Spoil = Callable[[int, str, Vector], Vector]


def spec(**changes: object) -> TrainingSpec:
    fields: dict[str, object] = {
        "dataset": "bafy",
        "shape": (6,),
        "classes": 3,
        "model": {"family": "mlp", "hidden": (5,)},
        "optimiser": {"name": "sgd", "lr": 0.1},
        "global_batch": 12,
        "steps": 8,
        "seed": 5,
        "round_steps": 4,
        "audit_rate": 1.0,
    }
    return make(**{**fields, **changes})


def samples(count: int = 90) -> Samples:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, count)
    return Samples((rng.normal(size=(count, 6)) + labels[:, None]).astype(np.float32), labels)


class Posted(NamedTuple):
    """What one trainer posts: a segment's document and its files."""

    document: SegmentDocument
    files: SegmentFiles


@dataclass
class Swarm:
    """Trains step by step; `spoil` changes what a peer sends. `entries[peer]` is that peer's journal."""

    job: TrainingSpec
    data: Samples
    identities: list[Identity]
    spoil: Spoil = lambda _step, _peer, vector: vector
    swarm: bytes = SWARM
    unsigned: str = ""  # a peer whose contributions bear no signature of its own
    entries: dict[str, list[JournalEntry]] = field(default_factory=dict)
    views: list[JournalView] = field(default_factory=list)
    head: bytes = b""
    height: int = 0
    view: int = 0

    def __post_init__(self) -> None:
        self.state = TrainState.start(self.job)
        self.model = compute.FlatModel(models.build(self.job))
        self.order = SampleOrder(self.job.seed, len(self.data))
        self.entries = {peer: [] for peer in self.peers}
        self.change_view(())

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(str(identity.peer_id) for identity in self.identities)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def change_view(self, absent: tuple[str, ...]) -> None:
        """The next view holds everybody but `absent`; those of the view before vote for it, all for the first."""
        before = self.here if self.view else self.identities
        self.here = [identity for identity in self.identities if identity.peer_id not in absent]
        peers = tuple(str(identity.peer_id) for identity in self.here)
        made = ViewRecord(
            swarm=self.swarm,
            height=self.height,
            view=self.view,
            attempt=0,
            step=self.state.step,
            next=View(self.view + 1, peers, (1,) * len(peers)),
            removed={},
            previous_digest=self.head,
        )
        self.views.append(JournalView(self.height, record.encode(made), self._certificate(made, before)))
        self.head, self.height, self.view = record.digest(made), self.height + 1, self.view + 1

    def segment(self, peer: str, first: int = 0, last: int | None = None) -> Posted:
        last = self.job.steps - 1 if last is None else last
        return self.posted(peer, [entry for entry in self.entries[peer] if first <= entry.step <= last], first, last)

    def posted(self, peer: str, entries: list[JournalEntry], first: int = 0, last: int | None = None) -> Posted:
        """A segment that shows these entries, whatever they are."""
        files = files_of(entries)
        document = SegmentDocument(
            version=1,
            job="7",
            peer=peer,
            first=first,
            last=self.job.steps - 1 if last is None else last,
            views=tuple(self.views),
            entries=tuple(bare(entry) for entry in entries),
            results=str(cid_of(files.results)),
            contributions=str(cid_of(files.contributions)) if files.contributions else "",
        )
        return Posted(document, files)

    def _step(self) -> None:
        here = self.here
        peers = tuple(str(identity.peer_id) for identity in here)
        step, batch = self.state.step, self.job.global_batch
        cuts = [self.state.ledger.cursor + batch * i // len(peers) for i in range(len(peers) + 1)]
        ranges = {peer: ((cuts[i], cuts[i + 1]),) for i, peer in enumerate(peers)}
        parts = [self.spoil(step, peer, self._gradient(ranges[peer])) for peer in peers]
        counts = tuple(cuts[i + 1] - cuts[i] for i in range(len(peers)))
        result = vectors.weighted_mean(parts, counts, (1.0,) * len(peers))
        digests = tuple(vectors.vector_digest(part) for part in parts)
        signed = tuple(
            self._signature(identity, step, ranges[peer], count, digest)
            for identity, peer, count, digest in zip(here, peers, counts, digests, strict=True)
        )
        made = StepRecord(
            swarm=self.swarm, height=self.height, view=self.view, attempt=0, step=step, members=peers,
            incarnations=(1,) * len(peers), ranges=ranges, size=len(result), contributors=peers, samples=counts,
            clip_factors=(1.0,) * len(peers), contribution_digests=digests, contribution_signatures=signed,
            rejected={}, owners=peers, state_digest=self.state.digest(), previous_digest=self.head,
            result_digest=vectors.vector_digest(result),
        )  # fmt: skip
        proof = self._certificate(made, here)
        before = self.state.digest()
        self.state.apply(result, self.state.ledger.after(ranges, peers, batch))
        for peer, part in zip(peers, parts, strict=True):
            self.entries[peer].append(
                JournalEntry(
                    step=step,
                    record=record.encode(made),
                    certificate=proof,
                    contribution=vectors.to_bytes(part),
                    result=vectors.to_bytes(result),
                    pre_digest=before,
                    post_digest=self.state.digest(),
                )
            )
        self.head, self.height = record.digest(made), self.height + 1

    def _gradient(self, ranges: record.Ranges) -> Vector:
        where = np.concatenate([self.order.indices(start, stop) for start, stop in ranges])
        return compute.gradient(self.model, self.state.parameters, self.data.take(where)).vector

    def _signature(self, who: Identity, step: int, ranges: record.Ranges, count: int, digest: bytes) -> bytes:
        peer = str(who.peer_id)
        message = record.binding_message(self.swarm, step, peer, 1, ranges, count, digest)
        return bytes(64) if peer == self.unsigned else IdentityKeys(who).sign(message)

    def _certificate(self, made: Record, voters: list[Identity]) -> bytes:
        digest = record.digest(made)
        message = certificate.ballot(self.swarm, made.view, made.height, 0, digest)
        votes = {str(voter.peer_id): IdentityKeys(voter).sign(message) for voter in voters}
        return certificate.encode(Certificate(digest, made.height, made.view, 0, votes))


def identities(count: int) -> list[Identity]:
    return [Identity.from_seed(hashlib.sha256(bytes([i])).digest()) for i in range(count)]
