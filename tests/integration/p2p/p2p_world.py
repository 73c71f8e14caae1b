"""What the peer tests share: nodes, peers in other processes, waiting for facts, a client that breaks rules."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.frames import Arrived, FrameReader, Head, Limits, Message, MessageType, encode_head
from hydra_node.p2p.handshake import PROTOCOL, Challenge, Proof, Verdict, prove
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.node import PeerNode
from hydra_node.p2p.tls import client_context, fingerprint

PATIENCE = 30.0


async def echo(peer: PeerId, message: Message) -> Message:
    return message


async def hang(peer: PeerId, message: Message) -> Message:
    await asyncio.Event().wait()
    return message


@contextlib.asynccontextmanager
async def peer(*known: PeerNode, **options: Any) -> AsyncIterator[PeerNode]:
    """A node that starts from `known` and answers echo/1 and hang/1."""
    identity = options.pop("identity", None) or Identity.generate()
    start = [node.address for node in known if node.address is not None]
    async with PeerNode.start(identity, bootstrap=start, **options) as node:
        node.handle("echo/1", echo)
        node.handle("hang/1", hang)
        yield node


async def until(fact: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once `fact()` holds; fail after PATIENCE seconds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            held = fact()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.01)


def address_of(node: PeerNode) -> PeerAddress:
    assert node.address is not None
    return node.address


@contextlib.asynccontextmanager
async def peer_process(*known: PeerNode) -> AsyncIterator[tuple[asyncio.subprocess.Process, PeerAddress]]:
    """A peer in another process; killed at the end, if it still lives."""
    script = Path(__file__).with_name("peer_process.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), *(str(node.address) for node in known), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        yield process, PeerAddress.parse(line.decode().strip())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class RawClient:
    """A TLS client without the manners of a peer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(Limits())
        tls = writer.get_extra_info("ssl_object")
        self.server = fingerprint(tls.getpeercert(binary_form=True))

    @classmethod
    async def dial(cls, node: PeerNode) -> "RawClient":
        address = address_of(node)
        return cls(*await asyncio.open_connection(address.host, address.port, ssl=client_context()))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def say(self, part: msgspec.Struct) -> None:
        self.write(encode_head(0, Head(MessageType.ONE_WAY, PROTOCOL, 0, msgspec.msgpack.encode(part), 0)))

    def prove(self, identity: Identity, challenge: Challenge, boot: bytes = bytes(16)) -> Proof:
        return prove(identity, self.server, challenge.nonce, boot, [])

    async def challenge(self) -> Challenge:
        return msgspec.msgpack.decode(await self._body(), type=Challenge)

    async def verdict(self) -> Verdict:
        return msgspec.msgpack.decode(await self._body(), type=Verdict)

    async def closed(self) -> bool:
        """Wait for the server to close."""
        async with asyncio.timeout(PATIENCE):
            try:
                while await self._reader.read(4096):
                    pass
            except ConnectionError:
                pass
        return True

    async def hang_up(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _body(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            while True:
                data = await self._reader.readexactly(1)
                self._frames.buffer()[:1] = data
                for event in self._frames.received(1):
                    if isinstance(event, Arrived):
                        return event.head.body
