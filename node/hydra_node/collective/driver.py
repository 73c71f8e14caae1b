"""A member of a swarm on real sockets.

    collective = Collective(node, identity, swarm_id, workload, Options(min_members=3))
    await collective.run(until_step=1000, eject=is_banned)

`node` is a running `PeerNode`, `identity` the same peer's key, `swarm_id` any bytes that name the job alike for
everyone, `workload` the training (`collective.workload.Workload`) at its state before step 0. `run` finds the others
through the DHT, forms or joins the swarm, and returns when step `until_step` - 1 is applied here and nobody needs this
member to catch up, or after `leave()`. `eject(peer)` says whether the job's rules shut a peer out; it is asked often
and must answer at once from memory. One collective for one swarm on one node.

The protocol itself is in `member.Member`; here are only sockets, clock and the calls to the workload.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from hydra_node.collective import events as ev
from hydra_node.collective import messages as msg
from hydra_node.collective.errors import BadContribution, Ejected
from hydra_node.collective.events import Role
from hydra_node.collective.keys import IdentityKeys
from hydra_node.collective.log import Entry
from hydra_node.collective.member import Member
from hydra_node.collective.options import Options
from hydra_node.collective.outbox import Outbox
from hydra_node.collective.record import View
from hydra_node.collective.vectors import DTYPE
from hydra_node.collective.workload import CommittedStep, Workload
from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.errors import PeerError
from hydra_node.p2p.frames import Message
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.node import PeerNode

log = logging.getLogger(__name__)

PRESENCE_TTL = 120.0
SEARCH_SECONDS = 0.25
LONGEST_SEARCH_SECONDS = 5.0
LINGER_SECONDS = 30.0
PARTING_SECONDS = 10.0
MAX_VECTOR = 2**31

OnCommit = Callable[[CommittedStep], None]


class Collective:
    """See the module. `on_commit` is called after each step is applied; it must return at once."""

    def __init__(
        self,
        node: PeerNode,
        identity: Identity,
        swarm_id: bytes,
        workload: Workload,
        options: Options | None = None,
        *,
        on_commit: OnCommit | None = None,
    ) -> None:
        self._node = node
        self._identity = identity
        self._swarm = swarm_id
        self._workload = workload
        self._options = options or Options()
        self._on_commit = on_commit
        self._protocol = f"collective/1/{swarm_id.hex()[:64]}"
        self._key = f"swarm/{swarm_id.hex()[:64]}"
        self._eject: Callable[[str], bool] = lambda peer: False
        self._member: Member | None = None
        self._outbox: Outbox | None = None
        self._work: asyncio.Queue[ev.Action] = asyncio.Queue()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._changed = asyncio.Event()
        self._role = Role.FORMING
        self._stopped = False

    # what others may ask

    @property
    def lineage(self) -> Sequence[Entry]:
        """The committed views from the first one on, each with its certificate: what proves later certificates."""
        return () if self._member is None or self._member.log is None else tuple(self._member.log.lineage)

    @property
    def role(self) -> Role:
        """What this member is doing; `Role.WAITING` while the swarm lacks a majority."""
        return self._role

    @property
    def view(self) -> View | None:
        """The view in force, once there is one."""
        return None if self._member is None or self._member.log is None else self._member.log.view

    def leave(self) -> None:
        """Leave after the current step: the others agree on a view without this member, then `run` returns."""
        if self._member is not None:
            self._feed(ev.LeaveRequested())

    async def run(self, until_step: int, eject: Callable[[str], bool] = lambda peer: False) -> None:
        """Takes part until `until_step` steps are applied or this member has left.

        Raises Ejected if `eject` says so of this member itself, and whatever the workload raises.
        """
        self._eject = eject
        me = self._node.peer_id
        self._member = Member(
            me,
            time.time_ns(),
            self._swarm,
            IdentityKeys(self._identity),
            self._options,
            is_banned=eject,
            until=until_step,
        )
        self._node.handle(self._protocol, self._receive)
        undo = self._node.on_disconnect(self._disconnected)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._outbox = Outbox(self._node, self._protocol, tasks, self._unreachable)
                running = [tasks.create_task(self._search()), tasks.create_task(self._labour())]
                self._feed(ev.Tick())
                try:
                    await self._until_done(until_step)
                finally:
                    for task in running:
                        task.cancel()
                    self._outbox.close()
        except ExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise
        finally:
            self._stopped = True
            undo()
            if self._timer is not None:
                self._timer.cancel()
            self._node.dht.withdraw(self._key)

    # the member and its clock

    def _feed(self, event: ev.Event) -> None:
        if self._member is None or self._stopped or self._outbox is None:
            return
        now = asyncio.get_running_loop().time()
        for action in self._member.handle(event, now):
            if isinstance(action, ev.Send):
                self._outbox.send(PeerId(action.to), action.message)
            else:
                self._work.put_nowait(action)
        role = self._member.role
        if role is not self._role:
            self._role = role
            log.info("this member is now: %s", self._role.value)
        self._set_timer(self._member.wake_at)
        self._changed.set()

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            if at == self._timer_at and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer_at = float("inf")
        self._feed(ev.Tick())

    async def _until_done(self, until_step: int) -> None:
        """Waits for the end; then stays a while for those who still need this member."""
        loop = asyncio.get_running_loop()
        ends: float | None = None
        member = self._member
        assert member is not None
        while True:
            self._changed.clear()
            if self._role is Role.LEFT:
                return
            if self._role is Role.EJECTED:
                # it still votes for the view without itself: the others may need its vote to go on
                ends = ends if ends is not None else loop.time() + PARTING_SECONDS
                if loop.time() >= ends or not member.in_view:
                    raise Ejected(
                        f"this peer is shut out of the swarm after step {member.log.step if member.log else 0}",
                        remedy="see the job's events for the reason",
                    )
            elif member.done:
                ends = ends if ends is not None else loop.time() + LINGER_SECONDS
                if loop.time() >= ends or not member.needed_by(loop.time()):
                    log.info("%d steps are done", until_step)
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ends):
                    await self._changed.wait()

    # the network

    async def _receive(self, peer: PeerId, message: Message) -> None:
        """A handler of the node; raises MalformedMessage, which the peer is told."""
        if not self._eject(peer):
            self._feed(ev.Received(peer, msg.decode(message.body, bytes(message.payload))))

    def _disconnected(self, peer: PeerId) -> None:
        def tell() -> None:
            # a connection that was only replaced is there again by now
            if peer not in self._node.peers:
                self._feed(ev.PeerDown(peer))

        asyncio.get_running_loop().call_soon(tell)

    def _unreachable(self, peer: PeerId) -> None:
        if peer not in self._node.peers:
            self._feed(ev.PeerDown(peer))

    async def _search(self) -> None:
        """Says in the DHT that this peer is in the swarm, and looks for others who say so."""
        address = str(self._node.address).encode()
        published = False
        pause = SEARCH_SECONDS
        while True:
            try:
                if not published:
                    await self._node.dht.publish(self._key, address, PRESENCE_TTL)
                    published = True
                records = await self._node.dht.find(self._key)
            except PeerError as error:
                log.warning("the search for members failed: %s", error)
                records = []
            found = []
            for record in records:
                with contextlib.suppress(PeerError, UnicodeDecodeError):
                    where = PeerAddress.parse(record.value.decode())
                    if where.peer_id == record.publisher and where.peer_id != self._node.peer_id:
                        self._node.learn([where])
                        found.append(where.peer_id)
            allowed = tuple(peer for peer in found if not self._eject(peer))
            if allowed:
                self._feed(ev.Discovered(allowed))
            await asyncio.sleep(pause)
            pause = min(LONGEST_SEARCH_SECONDS, 1.5 * pause)

    # the workload

    async def _labour(self) -> None:
        """Does what the member asks of the workload, one thing after the other."""
        while True:
            action = await self._work.get()
            self._feed(await self._perform(action))

    async def _perform(self, action: ev.Action) -> ev.Event:
        workload = self._workload
        match action:
            case ev.AskPlan(step, members, telemetry):
                return ev.Planned(step, workload.plan(step, members, telemetry))
            case ev.AskContribution(step, ranges):
                contribution = await workload.contribute(step, ranges)
                vector = contribution.vector
                if vector.ndim != 1 or vector.dtype != DTYPE or not 0 < len(vector) <= MAX_VECTOR:
                    raise BadContribution(
                        f"the contribution to step {step} has shape {vector.shape} and type {vector.dtype}",
                        expected="one dimension of float32, not empty",
                    )
                return ev.Contributed(step, ranges, contribution)
            case ev.Apply(committed):
                digest = await workload.apply(committed)
                if self._on_commit is not None:
                    self._on_commit(committed)
                return ev.Applied(committed.step, digest)
            case ev.AskState():
                step, state = await workload.state()
                return ev.StateTaken(step, state)
            case ev.Restore(step, state):
                return ev.Restored(step, await workload.restore(step, state) or b"")
            case ev.Send():
                raise AssertionError("messages do not go to the workload")
