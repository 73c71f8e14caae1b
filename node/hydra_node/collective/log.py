"""The log of one swarm as one member knows it: which view decides, what comes next, what others may still ask for."""

from collections import deque
from collections.abc import Sequence

import msgspec

from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.errors import BadRecord
from hydra_node.collective.keys import Keys
from hydra_node.collective.record import StepRecord, View, ViewRecord
from hydra_node.collective.vectors import from_bytes, vector_digest

MIN_KEPT = 4
MAX_KEPT = 1024


class Entry(msgspec.Struct, frozen=True):
    """A committed record, its proof, and the bytes of its result (empty for a view)."""

    record: StepRecord | ViewRecord
    certificate: Certificate
    result: bytes = b""


class Border(msgspec.Struct, frozen=True):
    """The place in the log right after a step was committed, and the proof of that step."""

    height: int
    head: bytes
    last: Entry


class Log:
    """Appends only what is certified by the view in force and names the entry before.

    `height` and `step` are the next ones; `head` is the digest of the newest record; `lineage` holds the entries
    that made the views, the first of them signed by all its members.
    """

    def __init__(self, swarm: bytes, keys: Keys, history_bytes: int, first: Entry) -> None:
        self._swarm = swarm
        self._keys = keys
        self._budget = history_bytes
        self._kept: deque[Entry] = deque()
        self._kept_bytes = 0
        self._borders: dict[int, Border] = {}
        record = first.record
        if not isinstance(record, ViewRecord):
            raise BadRecord("a log begins with its first view")
        records.check_whole(record)
        if record != records.genesis(swarm, record.next.members, record.next.incarnations, record.attempt):
            raise BadRecord("a log begins with the first view of its swarm")
        certificates.check(first.certificate, record, record.next, keys)
        self.view: View = record.next
        self.height = 1
        self.step = 0
        self.head = records.digest(record)
        self.lineage: list[Entry] = [first]
        self.size = 0
        self._keep(first)
        self._borders[0] = Border(1, self.head, first)

    @property
    def genesis(self) -> bytes:
        """The digest that tells this swarm from another one of the same name."""
        return records.digest(self.lineage[0].record)

    def check(self, entry: Entry) -> None:
        """Raises BadRecord or BadCertificate unless the entry comes next, is certified and whole."""
        record = entry.record
        self.check_follows(record)
        certificates.check(entry.certificate, record, self.view, self._keys)
        if isinstance(record, StepRecord):
            result = from_bytes(entry.result) if len(entry.result) == 4 * record.size else None
            if result is None or vector_digest(result) != record.result_digest:
                raise BadRecord(f"the result of step {record.step} is not the one in its record")

    def check_follows(self, record: StepRecord | ViewRecord) -> None:
        """Raises BadRecord unless the record fits what was committed so far."""
        records.check_whole(record)
        if (record.swarm, record.height, record.view) != (self._swarm, self.height, self.view.number):
            raise BadRecord(
                f"a record of height {record.height}, view {record.view}",
                expected=f"height {self.height}, view {self.view.number}",
            )
        if record.previous_digest != self.head or record.step != self.step:
            raise BadRecord(f"the record of height {record.height} does not follow the one before")
        if isinstance(record, ViewRecord):
            if record.next.number != self.view.number + 1:
                raise BadRecord(f"view {record.next.number} after view {self.view.number}")
        elif (record.members, record.incarnations) != (self.view.members, self.view.incarnations):
            raise BadRecord(f"step {record.step} names other members than its view")

    def append(self, entry: Entry) -> None:
        """Takes the next entry; raises BadRecord or BadCertificate."""
        self.check(entry)
        self.append_checked(entry)

    def append_checked(self, entry: Entry) -> None:
        """Takes the next entry, whose proof the caller has checked itself."""
        record = entry.record
        self.height += 1
        self.head = records.digest(record)
        if isinstance(record, ViewRecord):
            self.view = record.next
            self.lineage.append(entry)
        else:
            self.step += 1
            self.size = record.size
            bare = Entry(record, entry.certificate)
            self._borders[self.step] = Border(self.height, self.head, bare)
            self._borders.pop(self.step - MAX_KEPT, None)
        self._keep(entry)

    def since(self, height: int, budget: int) -> list[Entry] | None:
        """Kept entries from `height` on, about `budget` bytes of them but at least one; None if they are gone."""
        if height < self._kept[0].record.height:
            return None
        chosen: list[Entry] = []
        for entry in self._kept:
            if entry.record.height < height:
                continue
            if chosen and budget < len(entry.result):
                break
            budget -= len(entry.result)
            chosen.append(entry)
        return chosen

    def border(self, step: int) -> Border | None:
        """The place in the log where `step` is the next step; None if it is too long ago."""
        return self._borders.get(step)

    def proof(self, border: Border) -> list[Entry]:
        """What convinces a stranger that the log reaches `border`: its views up to there, then its last step."""
        views = [entry for entry in self.lineage if entry.record.height < border.height]
        return views if border.last is self.lineage[0] else [*views, border.last]

    @classmethod
    def at_border(cls, swarm: bytes, keys: Keys, history_bytes: int, proof: Sequence[Entry]) -> "Log":
        """The log of someone who was given the state at a border with its proof; raises BadRecord, BadCertificate."""
        if not proof:
            raise BadRecord("a state came without a proof")
        log = cls(swarm, keys, history_bytes, proof[0])
        for entry in proof[1:]:
            record = entry.record
            if record.swarm != swarm or record.view != log.view.number or record.height < log.height:
                raise BadRecord("the views of a proof do not follow each other")
            records.check_whole(record)
            certificates.check(entry.certificate, record, log.view, keys)
            if isinstance(record, ViewRecord):
                if record.next.number != log.view.number + 1:
                    raise BadRecord(f"view {record.next.number} after view {log.view.number}")
                log.view = record.next
                log.lineage.append(entry)
            elif entry is not proof[-1]:
                raise BadRecord("a proof names a step before its end")
            else:
                log.size = record.size
            log.height = record.height + 1
            log.head = records.digest(record)
        last = proof[-1].record
        if len(proof) > 1 and not isinstance(last, StepRecord):
            raise BadRecord("a proof must end with a step")
        log.step = last.step + (len(proof) > 1)
        log._kept.clear()
        log._keep(proof[-1])
        log._borders = {log.step: Border(log.height, log.head, proof[-1])}
        return log

    def _keep(self, entry: Entry) -> None:
        self._kept.append(entry)
        self._kept_bytes += len(entry.result)
        while len(self._kept) > MIN_KEPT and (self._kept_bytes > self._budget or len(self._kept) > MAX_KEPT):
            self._kept_bytes -= len(self._kept.popleft().result)
