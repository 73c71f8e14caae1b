"""What the commands that run a node of their own share: account, chain, host."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_node.commands import session
from hydra_node.commands.options import home

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient
    from hydra_node.chain.secrets import SecretStore
    from hydra_node.p2p.host import Host


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The options of one participant, as given on its command line; empty ones mean the devnet's or the defaults."""

    wallet: str
    rpc: str = ""
    deployment: Path | None = None
    keystore: Path | None = None
    password_file: Path | None = None
    data_dir: Path | None = None
    bootstrap: tuple[str, ...] = ()
    listen: str = "127.0.0.1:0"

    @property
    def folder(self) -> Path:
        """Where this participant keeps its blocks, keys of its peer, secrets and journals."""
        return self.data_dir or home() / "nodes" / self.wallet

    def client(self) -> ChainClient:
        """The chain, with the wallet that sends. Raises HydraError naming what is missing."""
        return session.chain(
            self.rpc,
            self.deployment,
            keystore=self.keystore,
            wallet=self.wallet,
            password_file=self.password_file,
        )

    def secrets(self) -> SecretStore:
        from hydra_node.chain.secrets import SecretStore

        return SecretStore(self.folder / "secrets")

    @contextlib.asynccontextmanager
    async def host(self) -> AsyncIterator[Host]:
        """This participant's peer and store, running within the context."""
        from hydra_node.p2p.host import Host

        async with Host.start(
            self.folder, listen=self.listen, bootstrap=session.bootstrap(list(self.bootstrap))
        ) as host:
            yield host
