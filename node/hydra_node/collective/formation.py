"""How a swarm begins: the first view is proposed by its smallest peer id and signed by all of its members.

A peer signs for one proposer at a time and forgets it only after that proposer has been silent. Two halves that cannot
see each other could each form a swarm; they find out when they meet, and the one that has committed nothing gives way.
If `min_members` is at least two thirds of all who may take part, at most one of two first views can have a majority:
the other's members are among those that signed anew.
"""

from collections.abc import Callable, Iterable

from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.keys import Keys
from hydra_node.collective.log import Entry
from hydra_node.collective.messages import Genesis, GenesisVote, Hello, Message, Welcome
from hydra_node.collective.options import Options
from hydra_node.collective.record import GENESIS_VIEW, ViewRecord


class Formation:
    """Greets every peer that it hears of; `entry` is set once the first view stands."""

    def __init__(
        self,
        me: str,
        incarnation: int,
        swarm: bytes,
        keys: Keys,
        options: Options,
        *,
        send: Callable[[Iterable[str], Message], None],
    ) -> None:
        self._me = me
        self._incarnation = incarnation
        self._swarm = swarm
        self._keys = keys
        self._options = options
        self._send = send
        self._heard: dict[str, tuple[int, float]] = {}
        self._proposed: tuple[ViewRecord, float] | None = None
        self._votes: dict[str, bytes] = {}
        self._attempt = 0
        self._signed: tuple[str, float] | None = None
        self._newest = b""
        self.entry: Entry | None = None

    def hello(self, sender: str, message: Hello, now: float) -> None:
        """Notes who is there; greets back whoever is new."""
        known = self._heard.get(sender)
        self._heard[sender] = (message.incarnation, now)
        if known is None or known[0] != message.incarnation:
            self._send((sender,), Hello(incarnation=self._incarnation))
        self._propose(now)

    def gone(self, peer: str) -> None:
        """Forgets a peer whose connection closed."""
        self._heard.pop(peer, None)
        if self._proposed is not None and peer in self._proposed[0].next.members:
            self._proposed = None
        if self._signed is not None and self._signed[0] == peer:
            self._signed = None

    def genesis(self, sender: str, message: Genesis, now: float) -> None:
        """Signs the first view, if this member is in it and has signed for nobody else just now."""
        record = message.record
        if not isinstance(record, ViewRecord) or record.swarm != self._swarm or record.view != GENESIS_VIEW:
            return
        busy = self._signed is not None and self._signed[0] != sender and now < self._signed[1] + self._options.silence
        view = record.next
        if busy or view.members[0] != sender or view.incarnation(self._me) != self._incarnation:
            return
        if record != records.genesis(self._swarm, view.members, view.incarnations, record.attempt):
            return
        self._signed = (sender, now)
        digest = self._newest = records.digest(record)
        signature = self._keys.sign(self._ballot(record))
        self._send((sender,), GenesisVote(digest=digest, signature=signature))

    def vote(self, sender: str, message: GenesisVote) -> None:
        """Collects the signatures; with all of them the swarm exists and everyone is told."""
        if self._proposed is None:
            return
        record = self._proposed[0]
        if message.digest != records.digest(record) or sender not in record.next.members:
            return
        if self._keys.verify(sender, self._ballot(record), message.signature):
            self._votes[sender] = message.signature
        self._complete(record)

    def gave_up(self, record: ViewRecord) -> bool:
        """Whether this run signed that first view, but another one after it."""
        return record.next.incarnation(self._me) == self._incarnation and records.digest(record) != self._newest

    def new_run(self, incarnation: int) -> None:
        """From now on this peer counts as started anew."""
        self._incarnation = incarnation

    def beat(self, discovered: Iterable[str], now: float) -> None:
        """Greets again, proposes again."""
        self._send(tuple(discovered), Hello(incarnation=self._incarnation))
        stale = now - self._options.silence
        self._heard = {peer: known for peer, known in self._heard.items() if known[1] >= stale}
        if self._proposed is not None and self._proposed[1] < stale:
            self._proposed = None
        if self._proposed is not None:
            self._send(self._others(self._proposed[0]), Genesis(record=self._proposed[0]))
        self._propose(now)

    def _propose(self, now: float) -> None:
        """Proposes the smallest peer ids heard of, if this member is the smallest."""
        if self._proposed is not None or self.entry is not None:
            return
        if self._signed is not None and self._signed[0] != self._me and now < self._signed[1] + self._options.silence:
            return
        present = {self._me: self._incarnation} | {peer: known[0] for peer, known in self._heard.items()}
        chosen = tuple(sorted(present)[: max(1, self._options.min_members)])
        if len(chosen) < self._options.min_members or chosen[0] != self._me:
            return
        record = records.genesis(self._swarm, chosen, tuple(present[peer] for peer in chosen), self._attempt)
        self._attempt += 1
        self._proposed = (record, now)
        self._signed = (self._me, now)
        self._newest = records.digest(record)
        self._votes = {self._me: self._keys.sign(self._ballot(record))}
        self._send(self._others(record), Genesis(record=record))
        self._complete(record)

    def _complete(self, record: ViewRecord) -> None:
        if set(self._votes) != set(record.next.members):
            return
        proof = Certificate(records.digest(record), 0, GENESIS_VIEW, record.attempt, dict(self._votes))
        self.entry = Entry(record, proof)
        self._send(self._others(record), Welcome(entry=self.entry))

    def _others(self, record: ViewRecord) -> tuple[str, ...]:
        return tuple(peer for peer in record.next.members if peer != self._me)

    def _ballot(self, record: ViewRecord) -> bytes:
        return certificates.ballot(self._swarm, GENESIS_VIEW, 0, record.attempt, records.digest(record))
