"""What waits to be sent on one connection, and in which order: no message waits behind the whole of a large one."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hydra_node.p2p.frames import CHUNK, data_prefix

MAX_LARGE = 3
"""How many large payloads take turns at once; more would only make all of them late, and cost the receiver memory."""


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way out: its encoded HEAD frame and its payload. `sent` is called when all of it has left."""

    stream: int
    head: bytes
    payload: memoryview
    sent: Callable[[], None]
    position: int = -1

    @property
    def large(self) -> bool:
        """Whether it needs more than one turn."""
        return len(self.payload) > CHUNK

    @property
    def begun(self) -> bool:
        """Whether its HEAD frame has left."""
        return self.position >= 0


class Outbox:
    """Round robin over the messages, one chunk a turn; at most MAX_LARGE large ones take part."""

    def __init__(self) -> None:
        self._turns: deque[Outgoing] = deque()
        self._waiting: deque[Outgoing] = deque()
        self._large = 0

    def __bool__(self) -> bool:
        return bool(self._turns)

    def add(self, message: Outgoing) -> None:
        """Queue a message."""
        if message.large and self._large >= MAX_LARGE:
            self._waiting.append(message)
            return
        self._large += message.large
        self._turns.append(message)

    def take(self) -> tuple[bytes | memoryview, ...]:
        """The next buffers to write, in order; empty when nothing waits."""
        if not self._turns:
            return ()
        message = self._turns.popleft()
        start = max(message.position, 0)
        piece = message.payload[start : start + CHUNK]
        buffers = self._frame(message, piece)
        message.position = start + len(piece)
        if message.position < len(message.payload):
            self._turns.append(message)
        else:
            self._finished(message)
            message.sent()
        return buffers

    def remove(self, message: Outgoing) -> None:
        """Forget what is left of a message, if any of it is."""
        if message in self._turns:
            self._turns.remove(message)
            self._finished(message)
        elif message in self._waiting:
            self._waiting.remove(message)

    def _frame(self, message: Outgoing, piece: memoryview) -> tuple[bytes | memoryview, ...]:
        prefix = data_prefix(message.stream, len(piece)) if len(piece) else b""
        if not message.begun:
            prefix = message.head + prefix
        # one write, hence one TLS record, for what is small anyway
        return (b"".join((prefix, piece)),) if len(piece) <= 4096 else (prefix, piece)

    def _finished(self, message: Outgoing) -> None:
        if message.large:
            self._large -= 1
            if self._waiting:
                self.add(self._waiting.popleft())
