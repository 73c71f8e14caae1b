"""One height of the log, from the view of one of its members: take part, own shards, stage, vote, commit.

A slot lives until its entry is committed. Everything in it is driven by `receive` and `drive`; it never waits. What is
late or lost is made good by `answer`: members tell what they lack, and whoever holds it sends it again.
"""

import msgspec

from hydra_node.collective import certificate as certificates
from hydra_node.collective import record as records
from hydra_node.collective import vectors
from hydra_node.collective.acceptor import Acceptor
from hydra_node.collective.certificate import Certificate
from hydra_node.collective.context import Context, Offer
from hydra_node.collective.errors import BadRecord
from hydra_node.collective.log import Entry, Log
from hydra_node.collective.messages import (
    Decide,
    Fenced,
    Part,
    Plan,
    Prepare,
    Promise,
    Report,
    Shard,
    Status,
    Value,
    Vote,
)
from hydra_node.collective.record import Record, StepRecord, ViewRecord
from hydra_node.collective.round import Round

MAX_EARLY = 512
MAX_BALLOTS = 64


class Slot:
    """`acceptor` holds the promises, `round` the All-Reduce of the newest attempt, `staged` the values held whole."""

    def __init__(self, context: Context, log: Log) -> None:
        self.context = context
        self.log = log
        self.view = log.view
        self.acceptor = Acceptor()
        self.round: Round | None = None
        self.staged: dict[bytes, tuple[Record, bytes]] = {}
        self.wanted = b""
        self.decision: tuple[int, Record] | None = None
        self.wake_at = float("inf")
        self._votes: dict[tuple[int, bytes], dict[str, bytes]] = {}
        self._own_vote: Vote | None = None
        self._early: list[tuple[str, Fenced]] = []

    # what comes in

    def receive(self, sender: str, message: Fenced, now: float) -> None:
        """Takes a message of this height and view; one of an older attempt is refused."""
        if sender not in self.view.members:
            return
        match message:
            case Vote():
                self._take_vote(sender, message)
            case Value():
                self._take_value(message)
            case _ if self._stale(message.attempt):
                return
            case Plan():
                self._take_plan(sender, message, now)
            case Decide():
                self._take_decision(sender, message, now)
            case Prepare():
                self._take_prepare(sender, message)
            case Shard() | Part():
                self._take_bytes(sender, message)
            case Report() | Promise():
                """The proposer's; see `proposer.Proposer`."""

    def _stale(self, attempt: int) -> bool:
        """The fence."""
        return attempt < self.acceptor.promised

    def _take_plan(self, sender: str, plan: Plan, now: float) -> None:
        if sender != self.view.members[0] or sender != self.view.proposer(plan.attempt) or plan.step != self.log.step:
            return
        if not set(plan.owners) <= set(self.view.members) or not plan.owners:
            return
        self.acceptor.promise(plan.attempt)
        if self.round is not None and self.round.plan.attempt == plan.attempt:
            self._report(self.round)
            return
        self.round = Round(plan, self.context, self.view, now)
        self.context.assignment = (plan.step, plan.ranges)
        self._replay(now)

    def _take_bytes(self, sender: str, message: Shard | Part) -> None:
        if self.round is None or message.attempt > self.round.plan.attempt:
            self._keep_early(sender, message)
        elif message.attempt < self.round.plan.attempt:
            return
        elif isinstance(message, Part):
            # any member may pass on an owner's part; what counts is that a majority votes for the same bytes
            self.round.parts.setdefault(message.owner, message.payload)
        elif sender in self.round.plan.participants:
            self.round.take_shard(sender, message.binding, message.payload)

    def _take_decision(self, sender: str, message: Decide, now: float) -> None:
        record = message.record
        if sender != self.view.proposer(message.attempt):
            return
        fresh = isinstance(record, StepRecord) and not record.result_digest
        if fresh and (self.round is None or self.round.plan.attempt < message.attempt):
            self._keep_early(sender, message)
            return
        try:
            self.log.check_follows(record)
        except BadRecord:
            return
        self.acceptor.promise(message.attempt)
        if self.decision is not None and self.decision[0] == message.attempt:
            self._repeat_vote(message.attempt)
            return
        self.decision = (message.attempt, record)
        if isinstance(record, ViewRecord):
            self.staged[records.digest(record)] = (record, b"")
        elif not fresh:
            self._want(records.digest(record))
        elif self.round is not None and self.round.record is None:
            self.round.record = record
            self.round.decided_at = now

    def _take_prepare(self, sender: str, message: Prepare) -> None:
        if sender != self.view.proposer(message.attempt) or not self._may_follow(sender):
            return
        self.acceptor.promise(message.attempt)
        ranges = self.context.ranges_of(self.log.step)
        promise = Promise(
            height=self.log.height,
            view=self.view.number,
            attempt=message.attempt,
            voted_attempt=self.acceptor.voted_attempt,
            voted=self.acceptor.voted,
            step=self.log.step,
            ranges=dict(ranges) if ranges is not None else None,
        )
        self.context.send((sender,), promise)

    def _may_follow(self, sender: str) -> bool:
        """A member helps a new proposer only if it, too, misses all before it: one bad link deposes no leader."""
        before = self.view.members[: self.view.members.index(sender)]
        return sender == self.context.me or all(self.context.missing(peer) for peer in before)

    def _take_vote(self, sender: str, vote: Vote) -> None:
        key = (vote.attempt, vote.digest)
        if key not in self._votes and len(self._votes) >= MAX_BALLOTS:
            return
        votes = self._votes.setdefault(key, {})
        if sender not in votes and self.context.keys.verify(sender, self._ballot(*key), vote.signature):
            votes[sender] = vote.signature

    def _take_value(self, value: Value) -> None:
        digest = records.digest(value.record)
        if digest != self.wanted or not isinstance(value.record, StepRecord):
            return
        if len(value.payload) == 4 * value.record.size and (
            vectors.vector_digest(vectors.from_bytes(value.payload)) == value.record.result_digest
        ):
            self.staged[digest] = (value.record, value.payload)
            self.wanted = b""

    def _keep_early(self, sender: str, message: Fenced) -> None:
        if len(self._early) < MAX_EARLY:
            self._early.append((sender, message))

    def _replay(self, now: float) -> None:
        early, self._early = self._early, []
        for sender, message in early:
            self.receive(sender, message, now)

    # what this member does next

    def drive(self, now: float) -> Entry | None:
        """Does whatever is due; returns the entry once it is committed."""
        self.wake_at = float("inf")
        if self.round is not None:
            self._contribute(self.round)
            self._own(self.round, now)
            self._stage(self.round)
        self._vote()
        return self._committed()

    def _contribute(self, current: Round) -> None:
        plan, context = current.plan, self.context
        if context.me not in plan.participants or not context.settled or current.shards_sent:
            return
        ranges = plan.ranges.get(context.me, ())
        offer = context.offer
        if offer is None or (offer.step, offer.ranges) != (plan.step, ranges):
            if context.asked != (plan.step, ranges):
                context.asked = (plan.step, ranges)
                context.ask_contribution(plan.step, ranges)
            return
        current.shards_sent = True
        for owner in plan.owners:
            self._send_shard(current, offer, owner)
        if context.me not in plan.owners:
            self._report(current)

    def _send_shard(self, current: Round, offer: Offer, owner: str) -> None:
        start, stop = vectors.shards(len(offer.vector), current.plan.owners).get(owner, (0, 0))
        payload = vectors.to_bytes(offer.vector[start:stop])
        self.context.send((owner,), Shard(**self._fence(current), binding=offer.binding, payload=payload))

    def _own(self, current: Round, now: float) -> None:
        if self.context.me not in current.plan.owners:
            return
        if current.record is None:
            self._report_when_due(current, now)
        elif self.context.me not in current.parts:
            part = current.sum_part(self._summation_order(current))
            if part is not None:
                current.parts[self.context.me] = part
                message = Part(**self._fence(current), owner=self.context.me, payload=part)
                self.context.send(self._others(), message)

    def _summation_order(self, current: Round) -> tuple[str, ...]:
        """Every owner adds up in the order of the record, whatever came first."""
        assert current.record is not None
        return current.record.contributors

    def _report_when_due(self, current: Round, now: float) -> None:
        participants = current.plan.participants
        current.note_arrival(len(participants), now)
        held = tuple(current.shards)
        if held == current.reported:
            return
        if not self._lacking_shards(current) or current.reported or now >= self._left_out_at(current):
            self._report(current)
        else:
            self.wake_at = min(self.wake_at, self._left_out_at(current))

    def _left_out_at(self, current: Round) -> float:
        """When an owner stops waiting for the slower half."""
        if current.half_at is None:
            return float("inf")
        options = self.context.options
        return current.half_at + max(options.floor, (options.patience - 1) * (current.half_at - current.started))

    def _lacking_shards(self, current: Round) -> tuple[str, ...]:
        down = self.context.down
        return tuple(peer for peer in current.plan.participants if peer not in current.shards and peer not in down)

    def _report(self, current: Round) -> None:
        offer = self.context.offer
        current.reported = tuple(current.shards)
        report = Report(
            **self._fence(current),
            received=tuple(received for received, _ in current.shards.values()),
            state_digest=self.context.state_digest,
            telemetry=offer.telemetry if offer is not None and offer.step == current.plan.step else None,
        )
        self.context.send((self.view.members[0],), report)

    def _stage(self, current: Round) -> None:
        if current.record is None or current.staged:
            return
        result = current.result()
        if result is None:
            return
        digest = vectors.vector_digest(vectors.from_bytes(result))
        record = msgspec.structs.replace(current.record, result_digest=digest)
        self.staged[records.digest(record)] = (record, result)
        current.staged = True
        if self.decision is not None and self.decision[0] == current.plan.attempt:
            self.decision = (self.decision[0], record)

    def _vote(self) -> None:
        if self.decision is None or self._stale(self.decision[0]):
            return
        attempt, record = self.decision
        if self._own_vote is not None and self._own_vote.attempt == attempt:
            return
        if isinstance(record, StepRecord) and not record.result_digest:
            return
        digest = records.digest(record)
        if digest not in self.staged or not self._acceptable(record) or not self.acceptor.vote(attempt, record):
            return
        signature = self.context.keys.sign(self._ballot(attempt, digest))
        self._own_vote = Vote(
            height=self.log.height, view=self.view.number, attempt=attempt, digest=digest, signature=signature
        )
        self._votes.setdefault((attempt, digest), {})[self.context.me] = signature
        self.context.send(self._others(), self._own_vote)

    def _acceptable(self, record: Record) -> bool:
        """Whether this member agrees: nobody is called banned, or let in, against what it sees itself."""
        context = self.context
        if isinstance(record, StepRecord):
            known = context.settled and context.state_digest
            return not (known and record.state_digest and record.state_digest != context.state_digest)
        banned = [peer for peer, reason in record.removed.items() if reason == BANNED]
        return (
            all(context.is_banned(peer) for peer in banned)
            and not any(context.is_banned(peer) for peer in record.next.members)
            and len(record.next.members) <= context.options.max_members
        )

    def _committed(self) -> Entry | None:
        for (attempt, digest), votes in self._votes.items():
            if not self._certified(len(votes)):
                continue
            if digest not in self.staged:
                if not self.wanted and (self.round is None or self.round.plan.attempt != attempt):
                    self._want(digest)
                continue
            record, result = self.staged[digest]
            proof = Certificate(digest, self.log.height, self.view.number, attempt, dict(votes))
            return Entry(record, proof, result)
        return None

    def _certified(self, votes: int) -> bool:
        return votes >= self.view.majority

    # making good what was lost

    def lacking(self) -> dict[str, object]:
        """The fields of a Status that say what this member waits for."""
        current = self.round
        owner = current is not None and self.context.me in current.plan.owners and current.record is None
        return {
            "promised": self.acceptor.promised,
            "shards": self._lacking_shards(current) if current is not None and owner else (),
            "parts": current.lacking_parts() if current is not None else (),
            "value": self.wanted,
            "voted": self._own_vote is not None,
        }

    def answer(self, peer: str, status: Status) -> None:
        """Sends a member of the same height what it lacks."""
        current, offer = self.round, self.context.offer
        if current is not None and status.promised == current.plan.attempt:
            if self.context.me in status.shards and current.shards_sent and offer is not None:
                self._send_shard(current, offer, peer)
            helps = self.context.me == self.view.members[0]
            for owner in status.parts:
                # the owner itself, or else few: a part may be large
                if owner in current.parts and (owner == self.context.me or helps or owner in self.context.down):
                    part = Part(**self._fence(current), owner=owner, payload=current.parts[owner])
                    self.context.send((peer,), part)
        if status.value in self.staged:
            record, result = self.staged[status.value]
            value = Value(
                height=self.log.height,
                view=self.view.number,
                attempt=self.acceptor.promised if self.acceptor.promised >= 0 else 0,
                record=record,
                payload=result,
            )
            self.context.send((peer,), value)
        if self._own_vote is not None:
            self.context.send((peer,), self._own_vote)

    def _want(self, digest: bytes) -> None:
        if digest not in self.staged:
            self.wanted = digest
            self.context.ask_lacking()

    def _repeat_vote(self, attempt: int) -> None:
        if self._own_vote is not None and self._own_vote.attempt == attempt:
            self.context.send(self._others(), self._own_vote)

    def _others(self) -> tuple[str, ...]:
        return tuple(peer for peer in self.view.members if peer != self.context.me)

    def _fence(self, current: Round) -> dict[str, int]:
        return {"height": self.log.height, "view": self.view.number, "attempt": current.plan.attempt}

    def _ballot(self, attempt: int, digest: bytes) -> bytes:
        return certificates.ballot(self.context.swarm, self.view.number, self.log.height, attempt, digest)


BANNED = "banned"
DOWN = "gone"
LEFT = "left"
