"""One member of a swarm: a pure state machine, fed with events and the time, that says what is to be done.

    member = Member(me, incarnation, swarm, keys, options, is_banned=..., until=...)
    actions = member.handle(event, now)        # also with Tick() whenever member.wake_at has come

It forms or joins a swarm, keeps its log, follows who is alive, catches up, and drives the slot of the current height.
Actions other than Send go to the workload in the order given, one after the other, and are answered by an event.
"""

import logging
from collections.abc import Callable, Iterable

import msgspec

from hydra_node.collective import events as ev
from hydra_node.collective import messages as msg
from hydra_node.collective import round as rounds
from hydra_node.collective.context import Context
from hydra_node.collective.donor import Donor
from hydra_node.collective.errors import BadCertificate, BadRecord, MalformedMessage
from hydra_node.collective.events import Action, Event, Role
from hydra_node.collective.formation import Formation
from hydra_node.collective.keys import Keys
from hydra_node.collective.learner import Learner
from hydra_node.collective.log import Entry, Log
from hydra_node.collective.messages import Message
from hydra_node.collective.options import Options
from hydra_node.collective.presence import Presence
from hydra_node.collective.proposer import Bystander, Proposer
from hydra_node.collective.record import Ranges, StepRecord, ViewRecord
from hydra_node.collective.slot import Slot
from hydra_node.collective.vectors import to_bytes
from hydra_node.collective.workload import CommittedStep, Contribution

log = logging.getLogger(__name__)

MAX_EARLY = 1024
EARLY_HEIGHTS = 2
STAND_IN_VIEW = 2

KeepUp = msg.Status | msg.Committed | msg.Behind | msg.StateRequest | msg.State


class Member:
    """See the module. `log` is None until a swarm is formed or found; `role` and `wake_at` are for the driver."""

    slot_class: type[Slot] = Slot
    proposer_class: type[Proposer] = Proposer

    def __init__(
        self,
        me: str,
        incarnation: int,
        swarm: bytes,
        keys: Keys,
        options: Options,
        *,
        is_banned: Callable[[str], bool] = lambda peer: False,
        until: int | None = None,
    ) -> None:
        self.context = Context(
            me,
            incarnation,
            swarm,
            keys,
            options,
            is_banned,
            self._send,
            self._ask_plan,
            self._ask_contribution,
            self._ask_lacking,
            until=until,
        )
        self.log: Log | None = None
        self.slot: Slot | None = None
        self.proposer: Proposer | None = None
        self.formation = Formation(me, incarnation, swarm, keys, options, send=self._send)
        self.learner = Learner(self.context)
        self.donor = Donor(self.context, self._send)
        self.presence = Presence(self.context)
        self.discovered: set[str] = set()
        self.wake_at = float("-inf")
        self._keys = keys
        self._options = options
        self._actions: list[Action] = []
        self._local: list[Message] = []
        self._early: list[tuple[str, msg.Fenced]] = []
        self._heights: dict[str, int] = {}
        self._outstanding = 0
        self._next_beat = float("-inf")
        self._beat_height = 0
        self._idle_beats = 0
        self._lacking_told = False
        self._lacking_due = False
        self._contributed_at = 0.0
        self._waited = 0.0
        self._expected_state: dict[int, bytes] = {}
        self._leaving = False

    # what others see

    @property
    def role(self) -> Role:
        """What this member is doing in the large."""
        context = self.context
        if context.is_banned(context.me):
            return Role.EJECTED
        if self.log is None:
            return Role.LEFT if self._leaving else Role.FORMING
        if self._is_member():
            alone = self._leaving and len(self.log.view.members) == 1
            alive = sum(peer not in context.down for peer in self.log.view.members)
            if alone:
                return Role.LEFT
            return Role.MEMBER if alive >= self.log.view.majority else Role.WAITING
        return Role.LEFT if self._leaving else Role.LEARNING

    @property
    def in_view(self) -> bool:
        """Whether this run of the peer is a member."""
        return self._is_member()

    @property
    def done(self) -> bool:
        """Whether the last step is committed and applied."""
        return self.log is not None and self.context.finished(self.log) and self.context.settled

    def needed_by(self, now: float) -> tuple[str, ...]:
        """Peers that would miss this member, once it is done: those who have not got as far as it has."""
        if self.log is None:
            return ()
        height = self.log.height
        view = [peer for peer in self._peers() if self._is_member() and peer not in self.context.down]
        return tuple(peer for peer in {*view, *self.donor.followers(now)} if self._heights.get(peer, 0) < height)

    # the machine

    def handle(self, event: Event, now: float) -> list[Action]:
        """Takes one event and returns what is to be done about it."""
        self.presence.time(now)
        self._actions = []
        self._take(event, now)
        self._settle(now)
        if self.log is not None and self.slot is not None:
            self.presence.watch(self.log.view, now)
        if now >= self._next_beat:
            self._beat(now)
        self._settle(now)
        self._tell_lacking()
        self.wake_at = self._wake_time()
        return self._actions

    def _take(self, event: Event, now: float) -> None:
        match event:
            case ev.Received(sender, message):
                self.presence.heard(sender, now)
                self._receive(sender, message, now)
            case ev.PeerDown(peer):
                self._peer_down(peer)
            case ev.Discovered(peers):
                self._discover(peers)
            case ev.Planned(step, ranges):
                if self.proposer is not None:
                    self.proposer.planned(step, ranges)
            case ev.Contributed(step, ranges, contribution):
                self._contributed(step, ranges, contribution, now)
            case ev.Applied(step, digest) | ev.Restored(step, digest):
                self._outstanding -= 1
                self.context.settled = self._outstanding == 0
                self.context.state_digest = digest
                self._lacking_due |= self.done
                self._check_state(step + isinstance(event, ev.Applied), digest, now)
                if self.log is not None and not self._is_member() and not self._leaving:
                    self.learner.go_on(self.log, self._own_status(), now, self._send)
            case ev.StateTaken(step, state):
                self.donor.give_state(self.log, step, state)
            case ev.LeaveRequested():
                self._leaving = True
                self.context.leaving.add(self.context.me)
            case ev.Tick():
                """Only time has passed."""

    def _settle(self, now: float) -> None:
        """Delivers what the member says to itself and drives the slot, until nothing moves."""
        while True:
            if self._local:
                self._receive(self.context.me, self._local.pop(0), now)
                continue
            if self.slot is None or self.proposer is None:
                return
            entry = self.slot.drive(now)
            if entry is not None and self.log is not None:
                self.log.append_checked(entry)
                self._advance(entry, now)
                continue
            if not self._leaving_alone():
                self.proposer.drive(now)
            if not self._local:
                return

    def _receive(self, sender: str, message: Message, now: float) -> None:
        match message:
            case msg.Hello() | msg.Genesis() | msg.GenesisVote() | msg.Welcome():
                self._form(sender, message, now)
            case msg.Status() | msg.Committed() | msg.Behind() | msg.StateRequest() | msg.State():
                if self.log is not None:
                    self._keep_up(sender, message, now)
            case msg.Leave():
                if self._in_view(sender):
                    self.context.leaving.add(sender)
            case _:
                self._fenced(sender, message, now)

    def _form(self, sender: str, message: msg.Hello | msg.Genesis | msg.GenesisVote | msg.Welcome, now: float) -> None:
        """What is said before there is a swarm; afterwards only a greeting is answered."""
        if isinstance(message, msg.Hello):
            self._hello(sender, message, now)
        elif self.log is not None:
            return
        elif isinstance(message, msg.Genesis):
            self.formation.genesis(sender, message, now)
        elif isinstance(message, msg.GenesisVote):
            self.formation.vote(sender, message)
            self._begin_from_formation(now)
        else:
            self._welcome(message.entry, now)

    def _keep_up(self, sender: str, message: KeepUp, now: float) -> None:
        match message:
            case msg.Status():
                self._status(sender, message, now)
            case msg.Committed():
                self._catch_up(sender, message, now)
            case msg.Behind():
                if self.log is not None and message.height > self.log.height:
                    self.learner.ask_state((sender, *self._peers()), now, self._send)
            case msg.StateRequest():
                if self.donor.want_state(sender):
                    self._actions.append(ev.AskState())
            case msg.State():
                self._take_state(message, now)

    def _fenced(self, sender: str, message: msg.Fenced, now: float) -> None:
        """Hands a message to the slot of its height; the next heights' wait, older ones are refused."""
        if self.log is None:
            return
        height = self.log.height
        if message.height > height and not self._is_member() and not self._leaving:
            # whoever says this takes this run for a member of a view that it has not heard of yet
            self.learner.behind(message.height)
            self.learner.go_on(self.log, self._own_status(), now, self._send)
        if height < message.height <= height + EARLY_HEIGHTS:
            if len(self._early) < MAX_EARLY:
                self._early.append((sender, message))
            return
        if isinstance(message, msg.Report) and message.telemetry is not None and self._in_view(sender):
            self.context.telemetry[sender] = message.telemetry
        if self.slot is None or self.proposer is None or self._old(message):
            return
        if isinstance(message, msg.Promise | msg.Report):
            self.proposer.receive(sender, message, now)
        else:
            self.slot.receive(sender, message, now)

    def _old(self, message: msg.Fenced) -> bool:
        """The outer fence; attempts are fenced by the slot."""
        assert self.log is not None
        return (message.height, message.view) != (self.log.height, self.log.view.number)

    # forming and finding

    def _discover(self, peers: Iterable[str]) -> None:
        new = set(peers) - self.discovered - {self.context.me}
        self.discovered |= new
        if self.log is None and new:
            self._send(sorted(new), msg.Hello(incarnation=self.context.incarnation))

    def _hello(self, sender: str, message: msg.Hello, now: float) -> None:
        self.discovered.add(sender)
        if self.log is None:
            self.formation.hello(sender, message, now)
            self._begin_from_formation(now)
            return
        self.presence.note_run(self.log.view, sender, message.incarnation)
        self._send((sender,), msg.Welcome(entry=self.log.lineage[0]))

    def _begin_from_formation(self, now: float) -> None:
        if self.formation.entry is not None and self.log is None:
            self._welcome(self.formation.entry, now)

    def _welcome(self, entry: Entry, now: float) -> None:
        """Starts a log from the swarm's first entry; whoever is not in that view learns what came after."""
        try:
            self.log = Log(self.context.swarm, self._keys, self._options.history_bytes, entry)
        except (BadRecord, BadCertificate) as error:
            log.warning("a peer's first view is refused: %s", error)
            return
        if isinstance(entry.record, ViewRecord) and self.formation.gave_up(entry.record):
            # it has promised its place to another first view: it is no member of this one, but may join it
            self.context.incarnation += 1
            self.formation.new_run(self.context.incarnation)
        self._enter(now)

    def _enter(self, now: float) -> None:
        """Opens the slot of the log's height, if this member has a vote there."""
        assert self.log is not None
        self.presence.enter(self.log.view, now)
        self.slot = self.proposer = None
        if self._is_member():
            self.context.down.discard(self.context.me)
            self.slot = self.slot_class(self.context, self.log)
            self.proposer = self.proposer_class(self.slot)
        else:
            self._next_beat = now
        if self._stands_in():
            self.context.down.add(self.context.me)
            self.slot = self.slot_class(self.context, self.log)
            self.proposer = Bystander(self.slot)
        early, self._early = self._early, []
        for sender, message in early:
            self._fenced(sender, message, now)

    # committing

    def _advance(self, entry: Entry, now: float) -> None:
        """The log has grown by an entry: apply it, pass it on, go to the next height."""
        assert self.log is not None
        record = entry.record
        if isinstance(record, StepRecord):
            self._apply(record, entry, now)
        else:
            joined = {
                p
                for p, i in zip(record.next.members, record.next.incarnations, strict=True)
                if self.context.joining.pop(p, None) == i
            }
            self.context.down -= joined
            for peer in joined:
                self.presence.heard(peer, now)
            self.context.leaving &= set(record.next.members)
            log.info("view %d: %d members", record.next.number, len(record.next.members))
        self.donor.pass_on(self.log, entry, now)
        self._enter(now)

    def _apply(self, record: StepRecord, entry: Entry, now: float) -> None:
        context, offer = self.context, self.context.offer
        own = b""
        if context.me in record.contributors and offer is not None and offer.step == record.step:
            index = record.contributors.index(context.me)
            if offer.binding.digest == record.contribution_digests[index]:
                own = to_bytes(offer.vector)
                self._waited = max(0.0, now - self._contributed_at)
        self._expected_state[record.step] = record.state_digest
        if context.settled:
            self._check_state(record.step, context.state_digest, now)
        self._outstanding += 1
        context.settled = False
        self._actions.append(ev.Apply(CommittedStep(record, entry.certificate, entry.result, own)))

    def _check_state(self, step: int, digest: bytes, now: float) -> None:
        """Compares the state before `step` with what the record of that step says, if that is known already."""
        for old in [known for known in self._expected_state if known < step]:
            del self._expected_state[old]
        if not self.learner.compare(step, digest, self._expected_state.get(step, b"")):
            self.learner.ask_state(self._peers(), now, self._send)

    def _contributed(self, step: int, ranges: Ranges, contribution: Contribution, now: float) -> None:
        if self.log is None or step < self.log.step:
            return
        self.context.offer = rounds.make_offer(self.context, step, ranges, contribution, self._waited)
        self._contributed_at = now

    # who is there

    def _peer_down(self, peer: str) -> None:
        self.formation.gone(peer)
        self.donor.gone(peer)
        self.context.joining.pop(peer, None)
        self.learner.gone(peer)
        if self._in_view(peer):
            self.context.down.add(peer)
            self._lacking_due = True

    def _is_member(self) -> bool:
        return self.log is not None and self.log.view.incarnation(self.context.me) == self.context.incarnation

    def _stands_in(self) -> bool:
        """Whether this run votes in the place of an earlier one that has forgotten everything.

        Only in a view of two: there every vote of the other member is in every majority, so what it remembers is
        all that could have been committed. Otherwise one death would end the swarm.
        """
        if self.log is None or len(self.log.view.members) != STAND_IN_VIEW or self._leaving:
            return False
        earlier = self.log.view.incarnation(self.context.me)
        return earlier is not None and earlier < self.context.incarnation

    def _in_view(self, peer: str) -> bool:
        return self.log is not None and peer in self.log.view.members

    def _leaving_alone(self) -> bool:
        return self._leaving and self.log is not None and len(self.log.view.members) == 1

    # telling and answering

    def _beat(self, now: float) -> None:
        """Says where this member stands: a sign of life, and a request for whatever it lacks."""
        self._next_beat = now + self._options.beat
        self._lacking_told = False
        if self.log is None:
            self.formation.beat(sorted(self.discovered), now)
            self._begin_from_formation(now)
            return
        moved = self.log.height != self._beat_height
        self._beat_height = self.log.height
        self._idle_beats = 0 if moved else self._idle_beats + 1
        if self._is_member():
            self._send(self._peers(), self._own_status())
            if not moved and self.proposer is not None:
                self.proposer.beat()
            if self._leaving:
                self._send(self.log.view.members, msg.Leave())
            if self._idle_beats >= 6:
                self._send(sorted(self.discovered - set(self.log.view.members)), self._own_status())
        elif not self._leaving:
            self.learner.beat(self.log, self.discovered, self._own_status(), now, self._send)
        self.learner.repeat(now, self._send)

    def _own_status(self) -> msg.Status:
        assert self.log is not None
        base = msg.Status(
            incarnation=self.context.incarnation,
            genesis=self.log.genesis,
            height=self.log.height,
            view=self.log.view.number,
        )
        return msgspec.structs.replace(base, **self.slot.lacking()) if self.slot is not None else base

    def _status(self, sender: str, status: msg.Status, now: float) -> None:
        if self.log is None:
            return
        if status.genesis != self.log.genesis:
            self._other_swarm(status)
            return
        self.presence.note_run(self.log.view, sender, status.incarnation)
        self._heights[sender] = status.height
        if status.follow:
            self.donor.follow(sender, now)
        if status.ready and self.log.view.incarnation(sender) != status.incarnation:
            self.context.joining[sender] = status.incarnation
        if status.ask:
            self.donor.answer(self.log, sender, status.height, self._is_member())
        elif status.height < self.log.height:
            self._send((sender,), self._own_status())
        elif status.height > self.log.height and self._is_member() and not self._lacking_told:
            self._lacking_told = True
            self._send((sender,), msgspec.structs.replace(self._own_status(), ask=True))
        same = status.height == self.log.height
        if same and self.slot is not None and self.proposer is not None and self._in_view(sender):
            self.proposer.note_promised(status.promised)
            self.slot.answer(sender, status)

    def _other_swarm(self, status: msg.Status) -> None:
        """Two first views were formed. The one that has committed nothing and cannot go on gives way."""
        assert self.log is not None
        if self.log.height == 1 and status.height > 1 and self.role is not Role.MEMBER:
            log.warning("another first view of this swarm has gone ahead: joining that one")
            self.log = self.slot = self.proposer = None
            self.formation.entry = None

    # catching up

    def _catch_up(self, sender: str, message: msg.Committed, now: float) -> None:
        if self.log is None:
            return
        before = self.log.height
        for entry in msg.unpack_entries(message.payload):
            if entry.record.height != self.log.height:
                continue
            try:
                self.log.append(entry)
            except (BadRecord, BadCertificate) as error:
                log.warning("an entry from %s is refused: %s", sender, error)
                self.learner.distrust(sender)
                return
            self._advance(entry, now)
        if not self._is_member() and not self._leaving:
            self.learner.heard(sender, message.height, self.log, self.log.height > before, now)
            self.learner.go_on(self.log, self._own_status(), now, self._send)

    def _take_state(self, message: msg.State, now: float) -> None:
        """Goes to a state that a peer sent with the proof of its place in the log, if that is no way back."""
        if self.log is None or not self.learner.state_asked:
            return
        try:
            proof, state = msg.unpack_state(message.payload)
            given = Log.at_border(self.context.swarm, self._keys, self._options.history_bytes, proof)
        except (BadRecord, BadCertificate, MalformedMessage) as error:
            log.warning("a state is refused: %s", error)
            return
        mine = self.log.border(given.step)
        same_place = mine is not None and self.log.step == given.step and mine.head == given.head
        if given.genesis != self.log.genesis or given.step != message.step:
            return
        if not same_place and given.height <= self.log.height:
            return
        self.learner.state_asked = False
        self._outstanding += 1
        self.context.settled = False
        self.context.offer = self.context.asked = None
        self._actions.append(ev.Restore(given.step, state))
        if not same_place:
            self.log = given
            self._enter(now)

    # plumbing

    def _peers(self) -> tuple[str, ...]:
        assert self.log is not None
        return tuple(peer for peer in self.log.view.members if peer != self.context.me)

    def _send(self, to: Iterable[str], message: Message) -> None:
        for peer in to:
            if peer == self.context.me:
                self._local.append(message)
            else:
                self._actions.append(ev.Send(peer, message))

    def _ask_plan(self, step: int) -> None:
        assert self.log is not None
        members = self.log.view.members
        known = {peer: self.context.telemetry[peer] for peer in members if peer in self.context.telemetry}
        self._actions.append(ev.AskPlan(step, members, known))

    def _ask_contribution(self, step: int, ranges: Ranges) -> None:
        self._actions.append(ev.AskContribution(step, ranges))

    def _ask_lacking(self) -> None:
        self._lacking_due = True

    def _tell_lacking(self) -> None:
        """Asks at once, but once a beat, for what is known to be lacking."""
        if self._lacking_due and not self._lacking_told and self.slot is not None:
            self._lacking_told = True
            self._send(self._peers(), self._own_status())
        self._lacking_due = False

    def _wake_time(self) -> float:
        times = [self._next_beat]
        if self.slot is not None and self.proposer is not None:
            times += [self.slot.wake_at, self.proposer.wake_at]
        return min(times)
