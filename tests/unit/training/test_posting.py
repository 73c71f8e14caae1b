"""Segments reach store and chain once each, through failures and restarts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hydra_node.chain.reverts import Reverted
from hydra_node.errors import HydraError
from hydra_node.storage.unixfs import cid_of
from hydra_node.training.journal import Journal, JournalEntry, read_segment
from hydra_node.training.posting import Account, PostRefused, SegmentPoster

ACCOUNT = Account(7, "12D3", 12, 4)


class Outside:
    """Store and chain at once: remembers what reached it, fails as told."""

    def __init__(self, *failures: HydraError) -> None:
        self.failures = list(failures)
        self.stored: dict[str, bytes] = {}
        self.posts: list[tuple[int, int, bytes, str]] = []
        self.training = self

    def add(self, content: bytes) -> Any:
        cid = cid_of(content)
        self.stored[str(cid)] = content
        return cid

    def post_record(self, job_id: int, first: int, last: int, digest: bytes, cid: str, *, key: str) -> None:
        assert job_id == 7
        assert digest.hex() in key, "a repeat after a crash must ask for the same transaction"
        if self.failures:
            raise self.failures.pop(0)
        document = read_segment(self.stored[cid], digest)
        assert {document.results, document.contributions} - {""} <= set(self.stored), (
            "posted before its files were stored"
        )
        self.posts.append((first, last, digest, cid))


def fill(journal: Journal, steps: range) -> None:
    for step in steps:
        journal.append(JournalEntry(step, b"record%d" % step, b"", b"sent", b"result", bytes(32), bytes(32)))


def poster(outside: Any, journal: Journal) -> SegmentPoster:
    return SegmentPoster(outside, outside, journal, ACCOUNT, lambda *_: None)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hydra_node.training.posting._FIRST_PAUSE", 0.0)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  the journal is written by a thread, which sets no event
            await asyncio.sleep(0.01)


async def test_each_whole_round_is_posted_once(tmp_path: Path) -> None:
    outside = Outside()
    with Journal(tmp_path / "journal") as journal:
        posting = poster(outside, journal)
        task = asyncio.create_task(posting.run())
        fill(journal, range(6))
        posting.wake()
        await until(lambda: outside.posts)
        fill(journal, range(6, 12))
        posting.wake()
        await asyncio.wait_for(task, 20)
        assert len(outside.posts) == 2, "the last round waits for the model"
        await posting.finish("bafymodel", 20)
    assert [(first, last) for first, last, _, _ in outside.posts] == [(0, 3), (4, 7), (8, 11)]
    segments = [read_segment(outside.stored[cid], digest) for _, _, digest, cid in outside.posts]
    assert [entry.step for segment in segments for entry in segment.entries] == list(range(12))
    assert [segment.checkpoint for segment in segments] == ["", "", "bafymodel"]
    assert [outside.stored[segment.results] for segment in segments] == [b"result" * 4] * 3
    assert [outside.stored[segment.contributions] for segment in segments] == [b"sent" * 4] * 3


async def test_who_sent_nothing_posts_no_contributions(tmp_path: Path) -> None:
    outside = Outside()
    with Journal(tmp_path / "journal") as journal:
        journal.append(JournalEntry(0, b"record", b"", b"", b"result", bytes(32), bytes(32)))
        await poster(outside, journal).finish("", 20)
    (_, _, digest, cid) = outside.posts[0]
    assert read_segment(outside.stored[cid], digest).contributions == ""
    assert set(outside.stored.values()) == {b"result", outside.stored[cid]}


async def test_a_failure_delays_and_loses_nothing(tmp_path: Path) -> None:
    outside = Outside(HydraError("the chain sleeps"), HydraError("the chain sleeps"))
    with Journal(tmp_path / "journal") as journal:
        fill(journal, range(5))
        await poster(outside, journal).finish("", 20)
    assert [(first, last) for first, last, _, _ in outside.posts] == [(0, 3), (4, 4)]


async def test_what_a_killed_process_left_is_posted_by_the_next(tmp_path: Path) -> None:
    outside = Outside()
    with Journal(tmp_path / "journal") as journal:
        fill(journal, range(5))
    with Journal(tmp_path / "journal") as journal:
        task = asyncio.create_task(poster(outside, journal).run())
        await until(lambda: journal.unposted(4) == [])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(outside.posts) == 1


async def test_what_the_chain_knows_already_counts_as_posted(tmp_path: Path) -> None:
    outside = Outside(Reverted("postRecord", "DuplicateRecord", {}, "it is there"))
    with Journal(tmp_path / "journal") as journal:
        fill(journal, range(4))
        await poster(outside, journal).finish("", 20)
        assert journal.unposted(4, ended=True) == []
    assert outside.posts == []


async def test_a_banned_trainer_is_told(tmp_path: Path) -> None:
    outside = Outside(Reverted("postRecord", "NotTrainer", {}, "banned"))
    with Journal(tmp_path / "journal") as journal:
        fill(journal, range(4))
        with pytest.raises(PostRefused, match="steps 0 to 3"):
            await poster(outside, journal).finish("", 20)
        assert journal.unposted(4) == [(0, 3)]
