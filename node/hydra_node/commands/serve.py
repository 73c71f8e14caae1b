"""`hydra-node serve`: a peer that others start from."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hydra_node.commands.options import BootstrapOption, DataDirOption, JsonOption, ListenOption, home
from hydra_node.commands.output import Output


def serve(
    listen: ListenOption = "127.0.0.1:0",
    data_dir: DataDirOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Run a plain peer: others find each other through it, and it serves the blocks it holds.

    Example: hydra-node serve --listen 127.0.0.1:4001
    """
    from hydra_node.commands import session
    from hydra_node.p2p.host import Host

    folder: Path = data_dir or home() / "nodes" / "serve"

    async def main() -> None:
        async with Host.start(folder, listen=listen, bootstrap=list(bootstrap)) as host:
            address = str(host.address)
            Output(as_json).event("serving", f"serving at {address}; Ctrl-C ends", address=address, api=host.api)
            await asyncio.Event().wait()

    session.run(main())
