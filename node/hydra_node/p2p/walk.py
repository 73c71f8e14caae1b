"""The Kademlia lookup, without a network: whom to ask next, and when enough was heard.

Maymounkov & Mazières, "Kademlia: A Peer-to-Peer Information System Based on the XOR Metric", 2002, section 2.3, as a
sliding window: up to `alpha` questions are under way, so a node that does not answer holds up one place, not a round.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contact:
    """A DHT node and its UDP address; `node_id` has 20 bytes."""

    node_id: bytes
    host: str
    port: int

    def distance(self, target: bytes) -> int:
        """The XOR distance to a place in the key space."""
        return int.from_bytes(self.node_id) ^ int.from_bytes(target)


class Walk:
    """Finds the `width` nodes nearest to `target` that answer."""

    def __init__(self, target: bytes, own_id: bytes, start: Iterable[Contact], *, width: int, alpha: int) -> None:
        self._target = target
        self._own_id = own_id
        self._width = width
        self._alpha = alpha
        self._candidates: list[Contact] = []
        self._seen: set[bytes] = {own_id}
        self._asked: set[bytes] = set()
        self._answered: set[bytes] = set()
        self._underway: set[bytes] = set()
        self._learn(start)

    def next(self) -> list[Contact]:
        """Whom to ask now. Each is to be reported by `answered` or `failed`."""
        room = self._alpha - len(self._underway)
        chosen = [c for c in self._candidates[: self._width] if c.node_id not in self._asked][: max(0, room)]
        for contact in chosen:
            self._asked.add(contact.node_id)
            self._underway.add(contact.node_id)
        return chosen

    def answered(self, contact: Contact, nodes: Iterable[Contact]) -> None:
        """A node answered and named others."""
        self._underway.discard(contact.node_id)
        self._answered.add(contact.node_id)
        self._learn(nodes)

    def failed(self, contact: Contact) -> None:
        """A node did not answer."""
        self._underway.discard(contact.node_id)
        self._candidates = [c for c in self._candidates if c.node_id != contact.node_id]

    @property
    def settled(self) -> bool:
        """Whether all of the nearest were asked; answers may still be under way."""
        return all(c.node_id in self._asked for c in self._candidates[: self._width])

    def nearest(self) -> list[Contact]:
        """The nearest nodes that answered, nearest first."""
        return [c for c in self._candidates if c.node_id in self._answered][: self._width]

    def _learn(self, contacts: Iterable[Contact]) -> None:
        for contact in contacts:
            if contact.node_id not in self._seen:
                self._seen.add(contact.node_id)
                self._candidates.append(contact)
        self._candidates.sort(key=lambda contact: contact.distance(self._target))
