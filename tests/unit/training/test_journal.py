"""The journal survives a kill at any byte, and its segments say what they hold."""

import hashlib
from pathlib import Path

import pytest

from hydra_node.training.journal import BadJournal, Journal, JournalEntry, JournalView, Posted, read_segment


def entry(step: int) -> JournalEntry:
    return JournalEntry(step, b"record%d" % step, b"certificate", b"sent" * step, b"result" * 10, bytes(32), bytes(32))


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
        segment = journal.segment(2, 4, job="7", peer="12D3", checkpoint="bafy")
        assert journal.segment(2, 4, job="7", peer="12D3", checkpoint="bafy") == segment
    document = read_segment(segment.document, segment.digest)
    assert document.entries == (entry(2), entry(3), entry(4))
    assert (document.job, document.peer, document.checkpoint) == ("7", "12D3", "bafy")


def test_a_segment_that_is_not_the_one_on_chain_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "journal", 2)
    with Journal(tmp_path / "journal") as journal:
        segment = journal.segment(0, 1, job="7", peer="12D3")
    with pytest.raises(BadJournal, match="does not hash"):
        read_segment(segment.document[:-1] + b"\0", segment.digest)
    noise = b"not a segment"
    with pytest.raises(BadJournal, match="cannot be read"):
        read_segment(noise, hashlib.sha256(noise).digest())


def test_a_segment_with_steps_outside_its_range_is_refused(tmp_path: Path) -> None:
    import msgspec

    from hydra_node.training.journal import SegmentDocument

    document = msgspec.msgpack.encode(SegmentDocument(1, "7", "12D3", 5, 6, (), (entry(1),)))
    with pytest.raises(BadJournal, match="malformed"):
        read_segment(document, hashlib.sha256(document).digest())


def test_changes_of_view_travel_with_every_segment(tmp_path: Path) -> None:
    views = [JournalView(0, b"first", b"all"), JournalView(3, b"second", b"most")]
    with Journal(tmp_path / "journal") as journal:
        journal.append_view(views[0])
        journal.append(entry(0))
        journal.append_view(views[1])
    with Journal(tmp_path / "journal") as journal:
        assert journal.last_view == 3
        with pytest.raises(BadJournal, match="rising heights"):
            journal.append_view(views[1])
        segment = journal.segment(0, 0, job="7", peer="12D3")
    assert list(read_segment(segment.document, segment.digest).views) == views
