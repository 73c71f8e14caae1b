"""The records one DHT node holds, within bounds."""

from collections.abc import Iterator

from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.records import Record, check

MAX_PUBLISHERS = 64
MAX_RECORDS = 65536


class RecordStorage:
    """Good records by key and publisher. Nothing that is invalid, expired or older displaces a good one.

    A key is full at MAX_PUBLISHERS, and a full key or storage takes no newcomer before something expires: a flood
    cannot push out what was there first. Unix times come in as arguments.
    """

    def __init__(self) -> None:
        self._keys: dict[bytes, dict[PeerId, Record]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, location: bytes, record: Record, now: float) -> bool:
        """Keep a record; False if a newer one is held or there is no room. Raises BadRecord if it is not good."""
        held = self._keys.get(location, {}).get(record.peer_id)
        if held == record:
            return held.expires > now
        if held is not None and held.expires > now and held.sequence >= record.sequence:
            return False
        check(record, location, now)
        if held is None and not self._make_room(location, now):
            return False
        self._count += held is None
        self._keys.setdefault(location, {})[record.peer_id] = record
        return True

    def get(self, location: bytes, now: float) -> list[Record]:
        """The unexpired records at a location, ordered by publisher."""
        held = self._keys.get(location, {})
        return [held[peer] for peer in sorted(held) if held[peer].expires > now]

    def locations(self) -> Iterator[bytes]:
        """Where records are held; a snapshot."""
        return iter(list(self._keys))

    def drop(self, location: bytes, publisher: PeerId) -> None:
        """Forget one record."""
        held = self._keys.get(location)
        if held is not None and held.pop(publisher, None) is not None:
            self._count -= 1
            if not held:
                del self._keys[location]

    def expire(self, now: float) -> None:
        """Forget all expired records."""
        for location in self.locations():
            self._expire_at(location, now)

    def _expire_at(self, location: bytes, now: float) -> None:
        expired = [record for record in self._keys.get(location, {}).values() if record.expires <= now]
        for record in expired:
            self.drop(location, record.peer_id)

    def _make_room(self, location: bytes, now: float) -> bool:
        if len(self._keys.get(location, ())) >= MAX_PUBLISHERS:
            self._expire_at(location, now)
        elif self._count >= MAX_RECORDS:
            self.expire(now)
        return len(self._keys.get(location, ())) < MAX_PUBLISHERS and self._count < MAX_RECORDS


def newest(records: list[Record]) -> list[Record]:
    """Of each publisher the record with the highest sequence; the longest-lived first."""
    best: dict[str, Record] = {}
    for record in records:
        held = best.get(record.publisher)
        if held is None or record.sequence > held.sequence:
            best[record.publisher] = record
    return sorted(best.values(), key=lambda record: (-record.expires, record.publisher))
