"""The journal survives a kill at any byte, and its segments say what they hold."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from hydra_node.training.journal import (
    BadJournal,
    Journal,
    JournalEntry,
    JournalView,
    Posted,
    Segment,
    SegmentDocument,
    bare,
    read_segment,
)


def entry(step: int) -> JournalEntry:
    return JournalEntry(step, b"record%d" % step, b"certificate", b"sent" * step, b"result" * 10, bytes(32), bytes(32))


def segment_of(journal: Journal, first: int, last: int, checkpoint: str = "") -> Segment:
    return journal.segment(
        first, last, job="7", peer="12D3", results="bafyresults", contributions="bafysent", checkpoint=checkpoint
    )


def filled(path: Path, count: int) -> None:
    with Journal(path) as journal:
        for step in range(count):
            journal.append(entry(step))


def test_steps_are_read_back_by_another_process(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 5)
    with Journal(tmp_path / "journal") as journal:
        assert journal.last == 4
        assert list(journal.entries(1, 3)) == [entry(1), entry(2), entry(3)]


def test_a_kill_at_any_byte_loses_only_the_unfinished_step(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 3)
    whole = (tmp_path / "journal").read_bytes()
    second = whole.index(b"record2") - 100
    for end in range(max(second, 0), len(whole)):
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:end])
        with Journal(torn) as journal:
            last = journal.last
            assert last in (0, 1)
            assert list(journal.entries(0, 9)) == [entry(step) for step in range(last + 1)]
            journal.append(entry(last + 1))
        with Journal(torn) as journal:
            assert journal.last == last + 1


def test_a_damaged_tail_is_dropped(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 3)
    data = bytearray((tmp_path / "journal").read_bytes())
    data[-1] ^= 1
    (tmp_path / "journal").write_bytes(data)
    with Journal(tmp_path / "journal") as journal:
        assert journal.last == 1


def test_the_same_step_again_is_no_second_entry_and_another_record_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 3)
    size = (tmp_path / "journal").stat().st_size
    with Journal(tmp_path / "journal") as journal:
        journal.append(entry(1))
        assert (tmp_path / "journal").stat().st_size == size
        with pytest.raises(BadJournal, match="another record"):
            journal.append(JournalEntry(1, b"other", b"", b"", b"", b"", b""))


def test_whole_rounds_are_due_until_they_are_posted(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        for step in [0, 1, 2, 3, 6, 7, 8]:
            journal.append(entry(step))
        assert journal.unposted(4) == [(0, 3), (6, 7)]
        assert journal.unposted(4, ended=True) == [(0, 3), (6, 7), (8, 8)]
        journal.mark_posted(Posted(0, 3, bytes(32), "bafy"))
    with Journal(tmp_path / "journal") as journal:
        assert journal.unposted(4) == [(6, 7)]


def test_a_segment_is_read_as_it_was_written(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 6)
    with Journal(tmp_path / "journal") as journal:
        segment = segment_of(journal, 2, 4, "bafy")
        assert segment_of(journal, 2, 4, "bafy") == segment
    document = read_segment(segment.document, segment.digest)
    assert document.entries == (bare(entry(2)), bare(entry(3)), bare(entry(4)))
    assert (document.job, document.peer, document.checkpoint) == ("7", "12D3", "bafy")
    assert (document.results, document.contributions) == ("bafyresults", "bafysent")


def test_vectors_are_in_the_files_and_not_in_the_document(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 3)
    with Journal(tmp_path / "journal") as journal:
        files = journal.files(0, 2)
        segment = segment_of(journal, 0, 2)
    assert (files.results, files.contributions) == (b"result" * 30, b"sent" * 3)
    assert b"result" * 10 not in segment.document
    sent = [entry.sent for entry in read_segment(segment.document, segment.digest).entries]
    assert sent == [False, True, True], "it sent nothing in step 0"


def test_whoever_took_part_in_the_same_steps_has_the_same_results(tmp_path: Path) -> None:
    filled(tmp_path / "one", 3)
    with Journal(tmp_path / "other") as journal:
        for step in range(3):
            journal.append(JournalEntry(step, b"record%d" % step, b"", b"else", b"result" * 10, bytes(32), bytes(32)))
        other = journal.files(0, 2)
    with Journal(tmp_path / "one") as journal:
        assert journal.files(0, 2).results == other.results


def test_a_segment_that_is_not_the_one_on_chain_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 2)
    with Journal(tmp_path / "journal") as journal:
        segment = segment_of(journal, 0, 1)
    with pytest.raises(BadJournal, match="does not hash"):
        read_segment(segment.document[:-1] + b"\0", segment.digest)
    noise = b"not a segment"
    with pytest.raises(BadJournal, match="cannot be read"):
        read_segment(noise, hashlib.sha256(noise).digest())


@pytest.mark.parametrize(
    "document",
    [
        SegmentDocument(1, "7", "12D3", 5, 6, (), (bare(entry(1)),), "bafyresults", "bafysent"),
        SegmentDocument(1, "7", "12D3", 0, 6, (), (bare(entry(1)),), "bafyresults", ""),
        SegmentDocument(1, "7", "12D3", 0, 6, (), (bare(entry(0)),), "bafyresults", "bafysent"),
        SegmentDocument(2, "7", "12D3", 0, 6, (), (bare(entry(1)),), "bafyresults", "bafysent"),
    ],
    ids=["a step outside its range", "no file for what was sent", "a file though nothing was sent", "another version"],
)
def test_a_malformed_segment_is_refused(document: SegmentDocument) -> None:
    encoded = msgspec.msgpack.encode(document)
    with pytest.raises(BadJournal, match="malformed"):
        read_segment(encoded, hashlib.sha256(encoded).digest())


def test_changes_of_view_travel_with_every_segment(tmp_path: Path) -> None:
    views = [JournalView(0, b"first", b"all"), JournalView(3, b"second", b"most")]
    with Journal(tmp_path / "journal") as journal:
        journal.append_view(views[0])
        journal.append(entry(1))
        journal.append_view(views[1])
    with Journal(tmp_path / "journal") as journal:
        assert journal.last_view == 3
        with pytest.raises(BadJournal, match="rising heights"):
            journal.append_view(views[1])
        segment = segment_of(journal, 1, 1)
    assert list(read_segment(segment.document, segment.digest).views) == views
