"""Which addresses are known of which peer, and the file that keeps them over a restart."""

import json
import os
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.errors import BadAddress
from hydra_node.p2p.identity import PeerId

MAX_PEERS = 4096
MAX_ADDRESSES = 8


class AddressBook:
    """The newest addresses first, bounded in peers and addresses; the peers longest unheard of leave first."""

    def __init__(self) -> None:
        self._peers: OrderedDict[PeerId, tuple[PeerAddress, ...]] = OrderedDict()

    def add(self, addresses: Iterable[PeerAddress]) -> None:
        """Remember addresses."""
        for address in addresses:
            old = self._peers.pop(address.peer_id, ())
            self._peers[address.peer_id] = (address, *(a for a in old if a != address))[:MAX_ADDRESSES]
        while len(self._peers) > MAX_PEERS:
            self._peers.popitem(last=False)

    def get(self, peer_id: PeerId) -> tuple[PeerAddress, ...]:
        """What is known of a peer, newest first."""
        return self._peers.get(peer_id, ())

    def texts(self) -> list[str]:
        """All addresses, in an order from which `add` builds the same book."""
        return [str(address) for addresses in self._peers.values() for address in reversed(addresses)]


def read_texts(values: Iterable[object]) -> list[PeerAddress]:
    """The addresses among stored values; what is none is left out."""
    found: list[PeerAddress] = []
    for value in values:
        if isinstance(value, str):
            try:
                found.append(PeerAddress.parse(value))
            except BadAddress:
                continue
    return found


def read_udp_addresses(values: Iterable[object]) -> list[tuple[str, int]]:
    """The (IP literal, port) pairs among stored values; what is none is left out."""
    found: list[tuple[str, int]] = []
    for value in values:
        match value:
            case [str(host), int(port)] if 0 < port < 65536:
                with suppress(ValueError):
                    found.append((str(ip_address(host)), port))
    return found


def write_json(path: Path, value: object) -> None:
    """Replace a JSON file whole: after a crash either the old or the new content is there."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_json(path: Path) -> object:
    """The content of a JSON file, or None if it is missing or damaged: it only speeds up finding peers."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
