"""The proposing side of one height: plan a step, decide it, or take over from a leader that is gone.

Attempt a belongs to member a mod n of the view. Attempt 0 is the leader's and needs no promises, because nobody can
have voted before it. Every later attempt first collects promises from a majority and, if one of them voted already,
proposes again what was voted in the newest attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_node.collective.context import Context
from hydra_node.collective.messages import Decide, Plan, Prepare, Promise, Report
from hydra_node.collective.record import Ranges, Record, StepRecord, View, ViewRecord
from hydra_node.collective.slot import BANNED, DOWN, LEFT, Slot

INFINITY = float("inf")


@dataclass(slots=True)
class Proposal:
    """One attempt of this member. `plan` and `record` are what it has sent out in it."""

    attempt: int
    started: float
    owners: tuple[str, ...] = ()
    promises: dict[str, Promise] = field(default_factory=dict)
    plan: Plan | None = None
    record: Record | None = None


class Proposer:
    """Acts only while every member before this one in the view is gone."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.context: Context = slot.context
        self.view: View = slot.view
        self.proposal: Proposal | None = None
        self.wake_at = INFINITY
        self._outbid = -1
        self._plan_asked = False
        self._planned: Mapping[str, Ranges] | None = None

    @property
    def rank(self) -> int:
        """This member's place in the view."""
        return self.view.members.index(self.context.me)

    def receive(self, sender: str, message: Promise | Report, now: float) -> None:
        """Takes an answer to this member's own attempt; what comes too late still tells how long work took."""
        if sender not in self.view.members:
            return
        if isinstance(message, Report) and message.telemetry is not None:
            self.context.telemetry[sender] = message.telemetry
        proposal = self.proposal
        if proposal is None or message.attempt != proposal.attempt:
            return
        if isinstance(message, Promise):
            proposal.promises[sender] = message
        elif proposal.plan is not None and self.slot.round is not None:
            self.slot.round.note_report(sender, message, now)

    def note_promised(self, attempt: int) -> None:
        """Hears that some member takes part in a later attempt, so that this one cannot win any more."""
        self._outbid = max(self._outbid, attempt)

    def planned(self, step: int, ranges: Mapping[str, Ranges]) -> None:
        """The workload's plan for a step."""
        if step == self.slot.log.step:
            self._planned = {peer: ranges.get(peer, ()) for peer in self.view.members}

    def drive(self, now: float) -> None:
        """Does whatever the proposer has to do now."""
        self.wake_at = INFINITY
        if not self._acting() or self._alive() < self.view.majority:
            return
        proposal = self.proposal
        if proposal is None:
            proposal = self._begin(now)
        if proposal.record is not None:
            self._watch_decision(proposal, now)
        elif proposal.attempt == 0 or (self._promised(proposal) and self._informed(proposal, now)):
            self._choose(proposal, now)
        elif self._newest() > proposal.attempt:
            self._again_at(proposal.started + self.context.options.floor, now, ())

    def beat(self) -> None:
        """Says again what was said in this attempt; members that have heard it answer again."""
        proposal = self.proposal
        if proposal is None or not self._acting():
            return
        others = tuple(peer for peer in self.view.members if peer != self.context.me)
        if proposal.record is None and proposal.plan is None and proposal.attempt > 0:
            self.context.send(others, Prepare(**self._fence(proposal)))
        if proposal.plan is not None:
            self.context.send(others, proposal.plan)
        if proposal.record is not None:
            self.context.send(others, Decide(**self._fence(proposal), record=proposal.record))

    # who acts, and with whom

    def _acting(self) -> bool:
        earlier = self.view.members[: self.rank]
        return all(self.context.missing(peer) for peer in earlier)

    def _alive(self) -> int:
        """Members that can vote; in a view of two a new run of the other stands in (`Member._stands_in`)."""
        down = self.context.down
        if len(self.view.members) == 2:
            down = down - set(self.context.joining)
        return sum(peer not in down for peer in self.view.members)

    def _begin(self, now: float, owners: tuple[str, ...] = ()) -> Proposal:
        """Opens this member's next attempt; `owners` limits who may own shards in it."""
        newest = max(self._newest(), self.proposal.attempt if self.proposal is not None else -1)
        attempt = self._next_attempt(newest)
        self.proposal = Proposal(attempt, now, owners)
        if attempt > 0:
            self.context.send(self.view.members, Prepare(**self._fence(self.proposal)))
        return self.proposal

    def _newest(self) -> int:
        return max(self.slot.acceptor.promised, self._outbid)

    def _next_attempt(self, newest: int) -> int:
        """The smallest attempt above `newest` that belongs to this member."""
        count = len(self.view.members)
        return newest + 1 + (self.rank - newest - 1) % count

    def _promised(self, proposal: Proposal) -> bool:
        return len(proposal.promises) >= self.view.majority

    def _informed(self, proposal: Proposal, now: float) -> bool:
        """Whether the plan of this step is known, or cannot be: only one member may have heard it and begun to work."""
        step = self.slot.log.step
        planned = any(promise.step == step and promise.ranges for promise in proposal.promises.values())
        if planned or self.context.ranges_of(step) is not None or proposal.plan is not None:
            return True
        due = proposal.started + self.context.options.floor
        if now >= due or all(peer in proposal.promises for peer in self.view.members if peer not in self.context.down):
            return True
        self.wake_at = min(self.wake_at, due)
        return False

    # what to propose

    def _choose(self, proposal: Proposal, now: float) -> None:
        adopted = self._voted_value(proposal)
        if adopted is not None:
            self._decide(proposal, adopted)
        elif proposal.plan is not None:
            self._watch_round(proposal, proposal.plan, now)
        elif self.context.finished(self.slot.log):
            return
        elif (change := self._change(proposal)) is not None:
            self._decide(proposal, change)
        elif self.rank == 0:
            self._plan(proposal)

    def _voted_value(self, proposal: Proposal) -> StepRecord | ViewRecord | None:
        """What this attempt must propose, because an earlier one may have committed it."""
        votes = [promise for promise in proposal.promises.values() if promise.voted is not None]
        return max(votes, key=lambda promise: promise.voted_attempt).voted if votes else None

    def _change(self, proposal: Proposal) -> ViewRecord | None:
        """The next view, if somebody is gone, wants to go, is banned, or wants to come."""
        context, view = self.context, self.view
        self._adopt_assignment(proposal)
        removed = {peer: self._reason(peer) for peer in view.members if context.missing(peer)}
        joining = {
            peer: incarnation
            for peer, incarnation in sorted(context.joining.items())
            if not context.is_banned(peer) and view.incarnation(peer) != incarnation
        }
        stay = [peer for peer in view.members if peer not in removed and peer not in joining]
        room = max(0, context.options.max_members - len(stay))
        come = [peer for peer in joining if peer not in stay][:room]
        members = (*stay, *come)
        if not members or members == view.members:
            return None
        incarnations = tuple(joining[peer] if peer in come else view.incarnation(peer) or 0 for peer in members)
        return ViewRecord(
            swarm=context.swarm,
            height=self.slot.log.height,
            view=view.number,
            attempt=proposal.attempt,
            step=self.slot.log.step,
            next=View(view.number + 1, members, incarnations),
            removed=removed,
            previous_digest=self.slot.log.head,
        )

    def _reason(self, peer: str) -> str:
        if self.context.is_banned(peer):
            return BANNED
        return LEFT if peer in self.context.leaving else DOWN

    def _adopt_assignment(self, proposal: Proposal) -> None:
        """Learns from promises what the old leader had told the members to work on: it stays their work."""
        if self.context.ranges_of(self.slot.log.step) is not None:
            return
        for promise in proposal.promises.values():
            if promise.step == self.slot.log.step and promise.ranges is not None:
                self.context.assignment = (promise.step, promise.ranges)

    def _plan(self, proposal: Proposal) -> None:
        context, step = self.context, self.slot.log.step
        self._adopt_assignment(proposal)
        ranges = context.ranges_of(step)
        if ranges is None:
            ranges = self._planned
        if ranges is None:
            if context.settled and not self._plan_asked:
                self._plan_asked = True
                context.ask_plan(step)
            return
        participants = tuple(peer for peer in self.view.members if peer not in context.down)
        owners = tuple(peer for peer in participants if not proposal.owners or peer in proposal.owners)
        proposal.plan = Plan(
            **self._fence(proposal),
            step=step,
            participants=participants,
            owners=owners or participants,
            ranges=dict(ranges),
        )
        context.send(self.view.members, proposal.plan)

    def _decide(self, proposal: Proposal, record: Record) -> None:
        proposal.record = record
        self.context.send(self.view.members, Decide(**self._fence(proposal), record=record))

    # when to give up an attempt

    def _watch_round(self, proposal: Proposal, plan: Plan, now: float) -> None:
        """Decides once every owner has reported; leaves out owners that are gone or too slow."""
        current = self.slot.round
        if current is None or current.plan.attempt != proposal.attempt:
            if self._newest() > proposal.attempt:
                self._again_at(proposal.started + self.context.options.floor, now, ())
            return
        if any(peer in self.context.down for peer in plan.owners):
            self._begin(now)
            return
        if all(owner in current.reports for owner in plan.owners):
            record = current.decide(self.slot.log)
            if record is not None:
                self._decide(proposal, record)
            return
        if current.reports_half_at is not None:
            options = self.context.options
            took = current.reports_half_at - current.started
            due = current.reports_half_at + max(options.floor, (options.patience - 1) * took) + options.floor
            self._again_at(due, now, tuple(current.reports))

    def _watch_decision(self, proposal: Proposal, now: float) -> None:
        """Tries again if the result does not come together, or another attempt went past this one."""
        options, current = self.context.options, self.slot.round
        if self._newest() > proposal.attempt:
            self._again_at(proposal.started + options.floor, now, ())
        elif isinstance(proposal.record, StepRecord) and not proposal.record.result_digest and current is not None:
            lacking = current.lacking_parts()
            if any(owner in self.context.down for owner in lacking):
                self._begin(now)
            elif lacking:
                took = current.decided_at - current.started
                due = current.decided_at + max(options.floor, (options.patience - 1) * took)
                self._again_at(due, now, tuple(owner for owner in current.plan.owners if owner not in lacking))
        else:
            self._again_at(proposal.started + options.silence, now, ())

    def _again_at(self, due: float, now: float, owners: tuple[str, ...]) -> None:
        if now >= due:
            self._begin(now, owners)
        else:
            self.wake_at = min(self.wake_at, due)

    def _fence(self, proposal: Proposal) -> dict[str, int]:
        return {"height": self.slot.log.height, "view": self.view.number, "attempt": proposal.attempt}


class Bystander(Proposer):
    """Of one that only votes in the place of its earlier run: it never proposes."""

    def _acting(self) -> bool:
        return False
