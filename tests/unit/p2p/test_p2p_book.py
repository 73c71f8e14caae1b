"""Known addresses, and the files that keep them."""

from pathlib import Path

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.book import MAX_ADDRESSES, AddressBook, read_json, read_texts, read_udp_addresses, write_json
from hydra_node.p2p.identity import Identity

PEER = Identity.from_seed(bytes(32)).peer_id


def address(port: int) -> PeerAddress:
    return PeerAddress("127.0.0.1", port, PEER)


def test_the_newest_address_comes_first_and_the_oldest_leave() -> None:
    book = AddressBook()
    book.add(address(port) for port in range(1, 20))
    book.add([address(15)])
    assert [a.port for a in book.get(PEER)][:3] == [15, 19, 18]
    assert len(book.get(PEER)) == MAX_ADDRESSES


def test_a_book_survives_in_a_file(tmp_path: Path) -> None:
    book, again = AddressBook(), AddressBook()
    book.add([address(1), address(2)])
    write_json(tmp_path / "peers.json", book.texts())
    stored = read_json(tmp_path / "peers.json")
    assert isinstance(stored, list)
    again.add(read_texts(stored))
    assert again.get(PEER) == book.get(PEER)
    assert [p.name for p in tmp_path.iterdir()] == ["peers.json"]


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "dht.json"
    path.write_text("{", encoding="utf-8")
    assert read_json(path) is None
    assert read_texts([1, None, "x", str(address(7))]) == [address(7)]
    assert read_udp_addresses([["127.0.0.1", 5], ["evil.example", 5], ["127.0.0.1", 0], [1], "x", None]) == [
        ("127.0.0.1", 5)
    ]
