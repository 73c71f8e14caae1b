import numpy as np
import pytest

from hydra_node.storage.errors import UnreadableFile
from hydra_node.storage.tables import read_file


def test_npz(tmp_path):
    features = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    np.savez_compressed(tmp_path / "a.npz", X=features, y=np.array([0, 1, 2], dtype=np.int32))
    table = read_file(tmp_path / "a.npz")
    np.testing.assert_array_equal(table.features, features)
    np.testing.assert_array_equal(table.labels, [0, 1, 2])


def test_csv_with_the_label_anywhere(tmp_path):
    (tmp_path / "a.csv").write_text('a,kind,"b, c"\n1,0,2.5\n3,1,-4\n', encoding="utf-8")
    table = read_file(tmp_path / "a.csv", label_column="kind")
    np.testing.assert_array_equal(table.features, [[1, 2.5], [3, -4]])
    np.testing.assert_array_equal(table.labels, [0, 1])


def _npz(path, **arrays):
    np.savez(path, **arrays)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.csv", b"", "empty"),
        ("a.npz", b"", "empty"),
        ("a.txt", b"x", "unknown kind"),
        ("a.npz", b"not a zip", "corrupt"),
        ("a.csv", b"a,label\n", "no items"),
        ("a.csv", b"a,b\n1,2\n", "no column 'label'"),
        ("a.csv", b"label\n1\n", "1 columns"),
        ("a.csv", b"a,label\n1,x\n", "corrupt"),
        ("a.csv", b"a,label\n1,\n", "corrupt"),
        ("a.csv", b"a,label\n1,0\n1\n", "corrupt"),
        ("a.csv", b"a,label\n1,0,3\n", "3 values a line"),
        ("a.csv", b"a,label\n1,0.5\n", "whole numbers"),
        ("a.csv", b"a,label\n\xff\xfe,0\n", "corrupt"),
        ("a.csv", b"\x00\x00\x00", "no column"),
    ],
)
def test_bad_files_give_one_line_that_names_file_and_fault(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match=reason) as caught:
        read_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"X": np.zeros((2, 2))}, "no array y"),
        ({"X": np.zeros((2, 2)), "y": np.zeros(3)}, "shape"),
        ({"X": np.zeros(2), "y": np.zeros(2)}, "shape"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "no items"),
        ({"X": np.array([["a"]]), "y": np.zeros(1)}, "type"),
        ({"X": np.array([[object()]]), "y": np.zeros(1)}, "corrupt"),
        ({"X": np.zeros((1, 1)), "y": np.array(["a"])}, "whole numbers"),
    ],
)
def test_bad_archives_are_refused(tmp_path, arrays, reason):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UnreadableFile, match=reason):
        read_file(tmp_path / "a.npz")


def test_a_cut_archive_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.random.default_rng(0).random((50, 50)), y=np.zeros(50))
    data = (tmp_path / "a.npz").read_bytes()
    for cut in range(1, len(data), 997):
        (tmp_path / "b.npz").write_bytes(data[:cut])
        with pytest.raises(UnreadableFile):
            read_file(tmp_path / "b.npz")
    middle = len(data) // 2
    (tmp_path / "b.npz").write_bytes(data[:middle] + bytes(64) + data[middle + 64 :])
    with pytest.raises(UnreadableFile):
        read_file(tmp_path / "b.npz")


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(UnreadableFile, match="does not exist"):
        read_file(tmp_path / "none.csv")
    with pytest.raises(UnreadableFile, match="not a file"):
        read_file(tmp_path)


def test_an_archive_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("hydra_node.storage.tables.MAX_TABLE_BYTES", 100_000)
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1000, 1000)), y=np.zeros(1000))
    assert (tmp_path / "a.npz").stat().st_size < 100_000
    with pytest.raises(UnreadableFile, match="unpacks to"):
        read_file(tmp_path / "a.npz")
