"""A peer in a process of its own, for tests that kill or stop it: prints its address, then serves until the end."""

import asyncio
import sys

from hydra_node.p2p.address import PeerAddress
from hydra_node.p2p.frames import Message
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.node import PeerNode


async def echo(peer: PeerId, message: Message) -> Message:
    return message


async def hang(peer: PeerId, message: Message) -> Message:
    await asyncio.Event().wait()
    return message


async def main() -> None:
    bootstrap = [PeerAddress.parse(text) for text in sys.argv[1:]]
    async with PeerNode.start(Identity.generate(), bootstrap=bootstrap) as node:
        node.handle("echo/1", echo)
        node.handle("hang/1", hang)
        await node.dht.publish(f"name/{node.peer_id}", b"from another process", 600)
        print(node.address, flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
