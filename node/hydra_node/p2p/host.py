"""What every participant runs: a peer, a block store, and a Kubo RPC of its own through which its agents reach both."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from hydra_node.p2p.address import PeerAddress, parse_port
from hydra_node.p2p.announcer import Announcer
from hydra_node.p2p.blocks import BlockExchange
from hydra_node.p2p.errors import BadAddress, DirectoryBusy
from hydra_node.p2p.identity import Identity, PeerId
from hydra_node.p2p.node import NodeOptions, PeerNode
from hydra_node.p2p.tasks import TaskOwner
from hydra_node.storage.blockstore import BlockStore
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.storage.kubo_rpc import ConnectedPeer, KuboRpcServer


@dataclass(frozen=True, slots=True)
class Host:
    """A running participant. `ipfs` is synchronous: asyncio callers use `asyncio.to_thread`.

    `api` is the multiaddr of the Kubo RPC. What is pinned in the store is announced to the other peers, and what is
    missing is fetched from them.
    """

    identity: Identity
    node: PeerNode
    store: BlockStore
    exchange: BlockExchange
    ipfs: IpfsClient
    api: str
    address: PeerAddress

    @property
    def peer_id(self) -> PeerId:
        """The participant's peer id."""
        return self.identity.peer_id

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        directory: Path,
        *,
        listen: str = "127.0.0.1:0",
        bootstrap: Sequence[str] = (),
        api_port: int = 0,
        options: NodeOptions | None = None,
    ) -> AsyncIterator[Self]:
        """A participant that lives in `directory` (key, known peers, blocks), for the duration of the `async with`.

        `listen` is HOST:PORT, port 0 for any; `bootstrap` are peer addresses, which need not be up yet. Raises
        BadAddress, PortUnavailable, IdentityFileUnusable, DirectoryBusy, StorageError.
        """
        host, port = parse_listen(listen)
        entries = [PeerAddress.parse(text) for text in bootstrap]
        identity = Identity.load_or_create(directory / "peer.key")
        lock = FileLock(directory / "running", thread_local=False)
        store = BlockStore(directory / "store")
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(_alone(lock, directory))
            node = await stack.enter_async_context(
                PeerNode.start(identity, host, port, entries, directory / "peer", options=options)
            )
            assert node.address is not None
            exchange = BlockExchange(node, store)
            rpc = await stack.enter_async_context(
                KuboRpcServer(
                    store, exchange.fetch, port=api_port, peer_id=identity.peer_id, peers=lambda: _connected(node)
                )
            )
            ipfs = stack.enter_context(IpfsClient(rpc.api))
            tasks = TaskOwner()
            stack.push_async_callback(tasks.close)
            tasks.start(Announcer(store, exchange).run())
            yield cls(identity, node, store, exchange, ipfs, rpc.api, node.address)


@contextlib.contextmanager
def _alone(lock: FileLock, directory: Path) -> Iterator[None]:
    """Two processes with one key would each be reached in the other's place."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DirectoryBusy(
            f"another process runs a node in {directory}", remedy="stop it, or choose another --data-dir"
        ) from None
    try:
        yield
    finally:
        lock.release()


def parse_listen(text: str) -> tuple[str, int]:
    """Read HOST:PORT, where HOST is an IP literal (IPv6 in brackets) and PORT may be 0; raises BadAddress."""
    name, _, port = text.rpartition(":")
    try:
        host = str(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError as error:
        raise BadAddress(f"{text!r} is no place to listen", expected="IP:PORT such as 127.0.0.1:4001") from error
    return host, 0 if port == "0" else parse_port(port)


def _connected(node: PeerNode) -> list[ConnectedPeer]:
    return [ConnectedPeer(str(peer), address) for peer, address in node.connected()]
