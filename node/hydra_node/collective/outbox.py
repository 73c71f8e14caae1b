"""Messages on their way to each peer, in order, none of them waiting for another peer."""

import asyncio
import logging
from collections.abc import Callable

from hydra_node.collective import messages as msg
from hydra_node.p2p.errors import PeerError, PeerUnreachable
from hydra_node.p2p.identity import PeerId
from hydra_node.p2p.node import PeerNode

log = logging.getLogger(__name__)

MAX_WAITING = 512
SEND_SECONDS = 60.0


class Outbox:
    """One queue and one task a peer. What cannot be delivered is dropped: members say again what matters.

    A large message that is still waiting or under way to the same peer is not queued twice.
    """

    def __init__(
        self, node: PeerNode, protocol: str, tasks: asyncio.TaskGroup, on_unreachable: Callable[[PeerId], None]
    ) -> None:
        self._node = node
        self._protocol = protocol
        self._tasks = tasks
        self._on_unreachable = on_unreachable
        self._queues: dict[PeerId, asyncio.Queue[msg.Message]] = {}
        self._running: list[asyncio.Task[None]] = []
        self._bulky: set[tuple[PeerId, object]] = set()

    def send(self, peer: PeerId, message: msg.Message) -> None:
        """Queues a message and returns at once."""
        queue = self._queues.get(peer)
        if queue is None:
            queue = self._queues[peer] = asyncio.Queue(MAX_WAITING)
            self._running.append(self._tasks.create_task(self._deliver(peer, queue)))
        key = _key(message)
        if queue.full() or (key is not None and (peer, key) in self._bulky):
            return
        if key is not None:
            self._bulky.add((peer, key))
        queue.put_nowait(message)

    def close(self) -> None:
        """Stops delivering."""
        for task in self._running:
            task.cancel()

    async def _deliver(self, peer: PeerId, queue: asyncio.Queue[msg.Message]) -> None:
        while True:
            message = await queue.get()
            body, payload = msg.encode(message)
            try:
                await self._node.send(peer, self._protocol, body, payload, SEND_SECONDS)
            except PeerUnreachable as error:
                log.debug("%s", error)
                while not queue.empty():
                    self._bulky.discard((peer, _key(queue.get_nowait())))
                self._on_unreachable(peer)
            except PeerError as error:
                log.debug("a message to %s was lost: %s", peer, error)
            finally:
                self._bulky.discard((peer, _key(message)))


def _key(message: msg.Message) -> object:
    """What tells a large message from the others; None for a small one."""
    match message:
        case msg.Shard() | msg.Value():
            return type(message), message.height, message.view, message.attempt
        case msg.Part():
            return msg.Part, message.height, message.view, message.attempt, message.owner
        case msg.State():
            return msg.State, message.step
        case _:
            return None
