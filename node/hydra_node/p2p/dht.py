"""The DHT as a node uses it: publish a signed value, find all values under a key."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_node.p2p.book import read_json, read_udp_addresses, write_json
from hydra_node.p2p.errors import BadRecord, PortUnavailable
from hydra_node.p2p.identity import Identity
from hydra_node.p2p.records import MAX_TTL, Record, check, decode, location_of, make_record
from hydra_node.p2p.rpc import Address, Answer, DhtProtocol, contacts_of, node_id_of
from hydra_node.p2p.storage import RecordStorage, newest
from hydra_node.p2p.walk import Contact, Walk

log = logging.getLogger(__name__)

MAX_PIECES = 64
MAX_STORED = 64
MIN_PATIENCE = 0.05


@dataclass(frozen=True, slots=True)
class DhtOptions:
    """Times in seconds.

    `answer`: deadline of one datagram. `straggler`: the longest that a lookup which heard others waits for the last.
    `silence`: how long a node that did not answer is left out, unless it is heard.
    `replicas`: how many nodes hold a record. Published values are sent again after `republish`, twice that, and so
    on until a third of their life, because a young network changes quickly. `patrol`: how often known bootstrap
    addresses are asked again once the node has joined, so that halves of a split network meet.
    """

    answer: float = 2.0
    straggler: float = 0.25
    silence: float = 10.0
    replicas: int = 8
    alpha: int = 6
    republish: float = 20.0
    retry: float = 0.25
    longest_retry: float = 5.0
    patrol: float = 10.0


@dataclass(slots=True)
class _Published:
    value: bytes
    ttl: float
    due: float
    interval: float
    spread: bool = False


class Dht:
    """One node of the DHT. Make it with `open`; `run` does the work that has no caller."""

    def __init__(
        self,
        identity: Identity,
        bootstrap: Iterable[Address],
        state_file: Path | None,
        options: DhtOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._identity = identity
        self._bootstrap = list(dict.fromkeys(bootstrap))
        self._state_file = state_file
        self._options = options
        self._clock = clock
        self._storage = RecordStorage()
        self._published: dict[str, _Published] = {}
        self._sequence = 0
        self._spread = asyncio.Event()
        self._tried_to_join = asyncio.Event()
        self._saved: list[Contact] = []
        self._protocol = DhtProtocol(
            node_id_of(identity.peer_id), self._storage, clock, wait=options.answer, silence=options.silence
        )
        self._protocol.on_contact = self._welcome

    # use

    @property
    def contacts(self) -> list[Contact]:
        """The nodes this one knows and has heard."""
        return self._protocol.contacts()

    async def publish(self, key: str, value: bytes, ttl: float) -> int:
        """Publish a value under `key` for `ttl` seconds, and again and again while this node runs.

        Returns how many other nodes keep it already; 0 while none is known, and then it is spread as soon as one is.
        Raises BadRecord if it is too large (4095 bytes) or the key belongs to another peer.
        """
        if not 1 <= ttl <= MAX_TTL:
            raise BadRecord(f"a DHT lifetime of {ttl:g} s", expected=f"1 to {MAX_TTL}")
        record = self._make(key, value, ttl)
        interval = min(self._options.republish, ttl / 3)
        item = self._published[key] = _Published(value, ttl, self._now() + interval, interval)
        self._spread.set()
        count = await self._store(record)
        item.spread = count > 0
        return count

    def withdraw(self, key: str) -> None:
        """Stop publishing; what others hold expires by itself."""
        self._published.pop(key, None)
        self._storage.drop(location_of(key), self._identity.peer_id)

    async def find(self, key: str) -> list[Record]:
        """All good records under `key`, one a publisher, merged from the nodes asked; the longest-lived first.

        A node that has just started first lets its first attempt to join end.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * self._options.answer):
                await self._tried_to_join.wait()
        location = location_of(key)
        found = self._storage.get(location, self._clock())

        async def ask(contact: Contact) -> Answer | None:
            answer = await self._protocol.find(contact, location, records=True)
            while answer is not None:
                last = self._collect(answer, location, found)
                if not (answer.more and last and len(found) < MAX_PIECES * self._options.replicas):
                    return answer
                rest = await self._protocol.find(contact, location, records=True, after=last)
                if rest is None:
                    return answer
                answer = rest
            return None

        await self._walk(location, ask)
        return newest(found)

    # running

    @contextlib.asynccontextmanager
    async def open(self, host: str, port: int) -> AsyncIterator[None]:
        """Bind the UDP port for the duration; raises PortUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_datagram_endpoint(lambda: self._protocol, local_addr=(host, port))
        except OSError as error:
            raise PortUnavailable(
                f"cannot bind UDP port {port} of {host}: {error.strerror or error}",
                remedy="stop what uses it, or choose another port",
            ) from error
        try:
            yield
        finally:
            transport.close()
            self.save()

    async def run(self) -> None:
        """Join through the bootstrap addresses and stored nodes, and keep published values alive. Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_joined())
            tasks.create_task(self._keep_published())

    def save(self) -> None:
        """Write the known nodes to disk, if they changed."""
        contacts = self.contacts
        if self._state_file is None or not contacts or contacts == self._saved:
            return
        try:
            write_json(self._state_file, {"version": 1, "nodes": [[c.host, c.port] for c in contacts]})
        except OSError as error:
            # the file only makes the next start quicker
            log.warning("cannot keep the known nodes in %s: %s", self._state_file, error)
            return
        self._saved = contacts

    # inside

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _make(self, key: str, value: bytes, ttl: float) -> Record:
        """Sign a record that is newer than all this node made before, in this run or an earlier one."""
        now = self._clock()
        self._sequence = max(self._sequence + 1, int(now * 1000))
        record = make_record(self._identity, key, value, sequence=self._sequence, expires=int(now + ttl) + 1)
        self._storage.put(record.location, record, now)
        return record

    async def _store(self, record: Record) -> int:
        async def ask(contact: Contact) -> Answer | None:
            return await self._protocol.find(contact, record.location, records=False)

        nearest = await self._walk(record.location, ask)
        stores = [self._protocol.store(contact, record) for contact in nearest]
        return sum(await self._most(stores))

    async def _walk(self, target: bytes, ask: Callable[[Contact], Coroutine[Any, Any, Answer | None]]) -> list[Contact]:
        """Ask one node after another, nearer and nearer; the nearest that answered."""
        began = self._now()
        known = self._protocol.near(target)
        # if all seem silent, it is more likely this node that was cut off
        start = [contact for contact in known if not self._protocol.is_silent(contact)] or known
        walk = Walk(target, self._protocol.node_id, start, width=self._options.replicas, alpha=self._options.alpha)
        underway: dict[asyncio.Task[Answer | None], Contact] = {}
        try:
            while True:
                for contact in walk.next():
                    underway[asyncio.create_task(ask(contact))] = contact
                if not underway:
                    return walk.nearest()
                patience = self._patience(began) if walk.settled and walk.nearest() else None
                done, _ = await asyncio.wait(underway, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    for contact in underway.values():
                        self._protocol.suspect(contact)
                    return walk.nearest()
                for task in done:
                    self._report(walk, underway.pop(task), task.result())
        finally:
            await _cancel(underway)

    def _patience(self, began: float) -> float:
        """How long to wait for the last ones: twice as long as the others took, within bounds."""
        return min(self._options.straggler, max(MIN_PATIENCE, 2 * (self._now() - began)))

    def _report(self, walk: Walk, contact: Contact, answer: Answer | None) -> None:
        if answer is None or answer.sender != contact.node_id:
            walk.failed(contact)
        else:
            walk.answered(contact, [c for c in contacts_of(answer) if not self._protocol.is_silent(c)])

    async def _most(self, calls: list[Coroutine[Any, Any, bool]]) -> list[bool]:
        """The results that come, without waiting long for the last ones."""
        tasks = [asyncio.create_task(call) for call in calls]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(tasks, timeout=self._options.straggler)
            return [task.result() for task in tasks if task.done()]
        finally:
            await _cancel(tasks)

    def _collect(self, answer: Answer, location: bytes, found: list[Record]) -> str:
        """Add the good records of an answer; the last publisher named, good or not."""
        last = ""
        for data in answer.records:
            try:
                record = decode(data)
                last = max(last, record.publisher)
                if record not in found:
                    check(record, location, self._clock())
                    found.append(record)
            except BadRecord as error:
                log.debug("a record is left out: %s", error)
        return last

    def _welcome(self, contact: Contact) -> None:
        """Hand a new node the records that belong to it.

        Of several holders only the one nearest to the record does (Kademlia, section 2.5), and its publisher, whom a
        young network may have left with few holders.
        """
        now = self._clock()
        for item in self._published.values():
            if not item.spread:
                item.due = self._now()
        mine = {location_of(key) for key in self._published}
        for location in self._storage.locations():
            near = [c for c in self._protocol.near(location, self._options.replicas + 1) if c != contact]
            own = Contact(self._protocol.node_id, "", 0).distance(location)
            nearest = not near or own < near[0].distance(location)
            belongs = len(near) < self._options.replicas or contact.distance(location) < near[-1].distance(location)
            if belongs and (nearest or location in mine):
                self._protocol.hand_over(contact, self._storage.get(location, now))
        self._spread.set()

    async def _keep_joined(self) -> None:
        """Try the bootstrap addresses for ever; after joining, ask them again from time to time."""
        delay = self._options.retry
        addresses = self._bootstrap + self._stored_addresses()
        while True:
            if addresses and await self._join(addresses):
                delay = self._options.patrol
                self.save()
            elif self.contacts:
                delay = self._options.patrol
            else:
                delay = min(delay * 2, self._options.longest_retry)
            self._tried_to_join.set()
            self._storage.expire(self._clock())
            await asyncio.sleep(delay)

    async def _join(self, addresses: list[Address]) -> bool:
        """Ask all addresses, then look for the nodes nearest to this one. Whether any address answered."""
        answers = await asyncio.gather(*(self._protocol.ping(address) for address in addresses))
        if not any(answers):
            return False
        own = self._protocol.node_id

        async def ask(contact: Contact) -> Answer | None:
            return await self._protocol.find(contact, own, records=False)

        await self._walk(own, ask)
        return True

    async def _keep_published(self) -> None:
        while True:
            self._spread.clear()
            now = self._now()
            due = [key for key, item in self._published.items() if item.due <= now]
            for key in due:
                await self._republish(key)
            wait = min((item.due for item in self._published.values()), default=now + 3600) - self._now()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, wait)):
                    await self._spread.wait()

    async def _republish(self, key: str) -> None:
        item = self._published.get(key)
        if item is None:
            return
        item.interval = min(item.interval * 2, item.ttl / 3)
        item.due = self._now() + item.interval
        item.spread = await self._store(self._make(key, item.value, item.ttl)) > 0

    def _stored_addresses(self) -> list[Address]:
        stored = read_json(self._state_file) if self._state_file is not None else None
        nodes = stored.get("nodes") if isinstance(stored, dict) else None
        return read_udp_addresses(nodes if isinstance(nodes, list) else [])[:MAX_STORED]


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Stop tasks and wait for their end."""
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
