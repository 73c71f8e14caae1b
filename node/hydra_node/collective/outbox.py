"""Messages on their way to each peer, in order, none of them waiting for another peer."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from hydra_node.collective import messages as msg
from hydra_node.p2p.errors import PeerError, PeerUnreachable
from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.node import PeerNode

log = logging.getLogger(__name__)

MAX_WAITING = 512
MAX_BYTES = 64 * 1024 * 1024
SEND_SECONDS = 60.0


@dataclass(slots=True)
class _Lane:
    """What is on its way to one peer: `keys` of the large messages, `size` of all payloads."""

    queue: asyncio.Queue[msg.Message] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    keys: set[object] = field(default_factory=set)
    size: int = 0

    def add(self, message: msg.Message) -> None:
        """Queues a message, unless there is no room for it or it is on its way already."""
        key, size = _key(message), _size(message)
        if self.queue.full() or key in self.keys or (size and self.size and self.size + size > MAX_BYTES):
            return
        if key is not None:
            self.keys.add(key)
        self.size += size
        self.queue.put_nowait(message)

    def done(self, message: msg.Message) -> None:
        """Forgets a message that has left, or will not."""
        self.keys.discard(_key(message))
        self.size -= _size(message)

    def clear(self) -> None:
        """Forgets everything that waits."""
        while not self.queue.empty():
            self.done(self.queue.get_nowait())


class Outbox:
    """One queue and one task a peer. What cannot be delivered is dropped: members say again what matters.

    A large message that is still waiting or under way to the same peer is not queued twice, nor a second answer to one
    that catches up; no more than MAX_BYTES of payloads wait for a peer, unless a single one is larger.
    """

    def __init__(
        self, node: PeerNode, protocol: str, tasks: asyncio.TaskGroup, on_unreachable: Callable[[PeerId], None]
    ) -> None:
        self._node = node
        self._protocol = protocol
        self._tasks = tasks
        self._on_unreachable = on_unreachable
        self._lanes: dict[PeerId, _Lane] = {}
        self._running: list[asyncio.Task[None]] = []

    def send(self, peer: PeerId, message: msg.Message) -> None:
        """Queues a message and returns at once."""
        lane = self._lanes.get(peer)
        if lane is None:
            lane = self._lanes[peer] = _Lane()
            self._running.append(self._tasks.create_task(self._deliver(peer, lane)))
        lane.add(message)

    def waiting(self, peer: PeerId) -> int:
        """Bytes of payloads that are on their way to a peer."""
        lane = self._lanes.get(peer)
        return lane.size if lane is not None else 0

    def close(self) -> None:
        """Stops delivering."""
        for task in self._running:
            task.cancel()

    async def _deliver(self, peer: PeerId, lane: _Lane) -> None:
        while True:
            message = await lane.queue.get()
            body, payload = msg.encode(message)
            try:
                await self._node.send(peer, self._protocol, body, payload, SEND_SECONDS)
            except PeerUnreachable as error:
                log.debug("%s", error)
                lane.clear()
                self._on_unreachable(peer)
            except PeerError as error:
                log.debug("a message to %s was lost: %s", peer, error)
            finally:
                lane.done(message)


def _size(message: msg.Message) -> int:
    return len(message.payload) if isinstance(message, msg.Bulky) else 0


def _key(message: msg.Message) -> object:
    """What tells a large message from the others; None for a small one."""
    match message:
        case msg.Shard() | msg.Value():
            return type(message), message.height, message.view, message.attempt
        case msg.Part():
            return msg.Part, message.height, message.view, message.attempt, message.owner
        case msg.Committed() | msg.State():
            return type(message)
        case _:
            return None
