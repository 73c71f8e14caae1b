"""Auditors fetch no more files than they need, and one that is missing or false costs only its author."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from training_round import SWARM, Posted, Swarm, identities, samples, spec

from hydra_node.chain.bindings.structs import TrainingTerms
from hydra_node.chain.events import Event
from hydra_node.storage.cid import Cid
from hydra_node.storage.errors import ContentNotFound, TooLarge
from hydra_node.storage.unixfs import cid_of
from hydra_node.training.job import Job
from hydra_node.training.spec import parameter_count
from hydra_validator.audit.evidence import Evidence
from hydra_validator.audit.spool import Spool
from hydra_validator.audit.windows import Window

DATA = samples()


class Store:
    """Content by CID, what was asked for, and what is kept."""

    def __init__(self) -> None:
        self.content: dict[Cid, bytes] = {}
        self.asked: list[Cid] = []
        self.pinned: set[Cid] = set()

    def add(self, data: bytes) -> Cid:
        cid = cid_of(data)
        self.content[cid] = data
        return cid

    def cat(self, cid: Cid, max_bytes: int, *, timeout: float) -> bytes:
        self.asked.append(cid)
        if cid not in self.content:
            raise ContentNotFound(f"{cid} is nowhere")
        if len(self.content[cid]) > max_bytes:
            raise TooLarge(f"{cid} is too large")
        return self.content[cid]

    def pin(self, cid: Cid) -> None:
        assert cid in self.content
        self.pinned.add(cid)


class Audit:
    """One auditor of a small job, and the trainers' posts."""

    def __init__(self) -> None:
        self.swarm = Swarm(spec(), DATA, identities(3))
        self.swarm.train(8)
        self.store = Store()
        self.told: list[tuple[str, str]] = []
        self.posts: list[Event] = []
        job = Job(7, self.swarm.job, TrainingTerms(1, 1, 1, 1, 8, 4, 5), DATA)
        spool = Spool(parameter_count(self.swarm.job))
        store: Any = self.store
        self.evidence = Evidence(job, SWARM, spool, store, lambda kind, text, _fields: self.told.append((kind, text)))

    def post(self, posted: Posted, *, wallet: str = "") -> None:
        document = msgspec.msgpack.encode(posted.document, order="deterministic")
        args = {
            "trainer": wallet or wallet_of(posted.document.peer),
            "firstStep": posted.document.first,
            "lastStep": posted.document.last,
            "cid": str(self.store.add(document)),
            "digest": hashlib.sha256(document).digest(),
        }
        self.posts.append(Event("TrainingRegistry", "RecordPosted", args, 1, b"h" * 32, b"", 0, len(self.posts), 1))

    def upload(self, posted: Posted) -> None:
        self.store.add(posted.files.results)
        self.store.add(posted.files.contributions)

    async def fetch(self) -> int:
        peers = {peer: wallet_of(peer) for peer in self.swarm.peers}
        return await self.evidence.fetch([Window(0, b"\x01" * 32, 5, tuple(self.posts))], peers)

    async def counts(self) -> dict[str, int]:
        return (await self.evidence.judge()).counts()


def wallet_of(peer: str) -> str:
    return "0x" + hashlib.sha256(peer.encode()).hexdigest()[:40]


async def test_results_that_all_share_are_fetched_once_and_everything_used_is_kept() -> None:
    audit = Audit()
    for peer in audit.swarm.peers:
        posted = audit.swarm.segment(peer)
        audit.upload(posted)
        audit.post(posted)
    assert await audit.fetch() == 0
    assert await audit.counts() == {"verified": 24}
    results = cid_of(audit.swarm.segment(audit.swarm.peers[0]).files.results)
    assert audit.store.asked.count(results) == 1
    assert audit.store.pinned == set(audit.store.content)
    asked = len(audit.store.asked)
    assert await audit.fetch() == 0
    assert len(audit.store.asked) == asked, "what is here is not asked for again"


async def test_results_of_one_who_missed_steps_are_not_needed_when_another_has_them_all() -> None:
    audit = Audit()
    first, second, _ = audit.swarm.peers
    whole = audit.swarm.segment(first)
    part = audit.swarm.posted(second, audit.swarm.entries[second][3:])
    for posted in (whole, part):
        audit.upload(posted)
        audit.post(posted)
    assert await audit.fetch() == 0
    assert cid_of(part.files.results) not in audit.store.asked
    assert await audit.counts() == {"verified": 8 + 5, "unavailable": 3 + 8}


async def test_results_that_are_false_or_nowhere_are_replaced_by_anothers() -> None:
    audit = Audit()
    first, second, third = audit.swarm.peers
    true = audit.swarm.segment(third)
    false = [msgspec.structs.replace(e, result=bytes(len(e.result))) for e in audit.swarm.entries[first]]
    nowhere = [msgspec.structs.replace(e, result=b"\1" * len(e.result)) for e in audit.swarm.entries[second]]
    for posted in (audit.swarm.posted(first, false), audit.swarm.posted(second, nowhere), true):
        audit.upload(posted)
        audit.post(posted)
    del audit.store.content[cid_of(b"".join(e.result for e in nowhere))]
    assert await audit.fetch() == 0
    assert {kind for kind, _ in audit.told} == {"file_refused", "file_missing"}
    assert await audit.counts() == {"verified": 24}, "what they contributed is theirs all the same"
    assert cid_of(b"".join(e.result for e in false)) not in audit.store.pinned


async def test_results_that_nobody_has_are_missed_until_they_come() -> None:
    audit = Audit()
    posted = audit.swarm.segment(audit.swarm.peers[0])
    audit.store.add(posted.files.contributions)
    audit.post(posted)
    assert await audit.fetch() == 1
    assert (await audit.evidence.judge()).steps == 0
    audit.store.add(posted.files.results)
    assert await audit.fetch() == 0
    assert (await audit.evidence.judge()).steps == 8


async def test_contributions_that_are_nowhere_are_unavailable_until_they_come() -> None:
    audit = Audit()
    late = audit.swarm.peers[0]
    for peer in audit.swarm.peers:
        posted = audit.swarm.segment(peer)
        audit.post(posted)
        audit.store.add(posted.files.results)
        if peer != late:
            audit.store.add(posted.files.contributions)
    assert await audit.fetch() == 1
    assert await audit.counts() == {"verified": 16, "unavailable": 8}
    audit.store.add(audit.swarm.segment(late).files.contributions)
    assert await audit.fetch() == 0
    assert await audit.counts() == {"verified": 24}


async def test_a_file_larger_than_its_steps_is_refused_for_good() -> None:
    audit = Audit()
    peer = audit.swarm.peers[0]
    posted = audit.swarm.segment(peer)
    huge = posted.files.contributions + b"\0"
    audit.store.add(posted.files.results)
    cid = str(audit.store.add(huge))
    audit.post(Posted(msgspec.structs.replace(posted.document, contributions=cid), posted.files))
    assert await audit.fetch() == 0
    assert await audit.counts() == {"unavailable": 24}
    assert Cid.parse(cid) not in audit.store.pinned


async def test_nobody_posts_in_the_name_of_another() -> None:
    audit = Audit()
    posted = audit.swarm.segment(audit.swarm.peers[0])
    audit.upload(posted)
    audit.post(posted, wallet=wallet_of(audit.swarm.peers[1]))
    assert await audit.fetch() == 0
    assert [kind for kind, _ in audit.told] == ["segment_refused"]
    assert (await audit.evidence.judge()).steps == 0
