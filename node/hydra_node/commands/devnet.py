"""`hydra-node devnet`: a network of your own on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hydra_node.commands.options import JsonOption, KeystoreOption, default_devnet, wallet_address
from hydra_node.commands.output import Output

app = typer.Typer(no_args_is_help=True, help="Start and stop a network of your own on this machine.")

DirectoryOption = Annotated[Path | None, typer.Option("--dir", help="Folder of the devnet; default: your data folder.")]


@app.command()
def up(
    chain: Annotated[str, typer.Option("--chain", help="embedded, ganache or anvil.")] = "embedded",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port of the chain's JSON-RPC; 0: any; default: 8545."),
    ] = None,
    block_time: Annotated[int, typer.Option("--block-time", min=0, help="Seconds between blocks.")] = 1,
    directory: DirectoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a chain with the contracts and a first peer, in the background.

    Example: hydra-node devnet up
    """
    from hydra_node.devnet import chains, first_peer, lifecycle

    kind = chains.parse_kind(chain)
    if kind is None:
        raise chains.UnknownChain(f"{chain} runs already, or not here", expected=", ".join(chains.KINDS))
    folder = directory or default_devnet()
    status = lifecycle.up(folder, kind, block_time=block_time, port=port)
    address = first_peer.up(folder)
    assert status.rpc is not None
    first_peer.write_network(folder, status.rpc, address)
    text = f"chain {status.chain_id} at {status.rpc}, peer at {address}; try: hydra-node devnet status"
    Output(as_json).event("up", text, rpc=status.rpc, chain_id=status.chain_id, peer=address, directory=str(folder))


@app.command()
def down(directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """Stop the devnet; what it holds stays for the next time.

    Example: hydra-node devnet down
    """
    from hydra_node.devnet import first_peer, lifecycle

    folder = directory or default_devnet()
    stopped = [first_peer.down(folder), lifecycle.down(folder)]
    text = "stopped" if any(stopped) else "nothing was running"
    Output(as_json).event("down", text, stopped=any(stopped))


@app.command()
def status(directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """Say what runs and what is deployed.

    Example: hydra-node devnet status
    """
    from hydra_node.devnet import first_peer, lifecycle

    now = lifecycle.status(directory or default_devnet())
    if not now.running:
        Output(as_json).event("status", "no devnet is running; start one: hydra-node devnet up", running=False)
        return
    peer = first_peer.running(now.directory)
    peers = [peer] if peer else []
    lines = [f"{now.kind} chain {now.chain_id} at {now.rpc}, block {now.block}, process {now.pid}"]
    lines += [f"peer at {peer}" if peer else "the first peer does not run; start it: hydra-node devnet up"]
    lines += [f"  {name} {address}" for name, address in (now.contracts or {}).items()]
    Output(as_json).event(
        "status",
        "\n".join(lines),
        running=True,
        chain=now.kind,
        rpc=now.rpc,
        chain_id=now.chain_id,
        block=now.block,
        pid=now.pid,
        peers=peers,
        contracts=now.contracts,
    )


@app.command()
def fund(
    wallet: Annotated[str, typer.Argument(help="Name of the wallet that gets tokens.")],
    amount: Annotated[str, typer.Option("--amount", help="Tokens to give.")] = "1000 HYDRA",
    directory: DirectoryOption = None,
    keystore: KeystoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a wallet tokens, and ether for gas, on the running devnet.

    Example: hydra-node devnet fund me
    """
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.commands.money import positive_amount
    from hydra_node.devnet import lifecycle

    wei = positive_amount(amount)
    address = wallet_address(keystore, wallet)
    lifecycle.fund(directory or default_devnet(), address, wei)
    Output(as_json).event("funded", f"{format_hydra(wei)} sent to {address}", address=address, amount_wei=wei)


@app.command("data")
def sample_data(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; made if it is not there.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="How the data is cut.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write data to try things with: handwritten digits, cut as the demo's, one .npz file a participant.

    Example: hydra-node devnet data build/digits
    """
    from hydra_node.chain.files import private_directory
    from hydra_node.devnet.scenario import digits_scenario

    scenario = digits_scenario(seed)
    parts = {"reference": scenario.reference, "test": scenario.test, **scenario.contributors}
    private_directory(folder)
    for name, part in parts.items():
        part.save(folder / f"{name}.npz")
    files = [str(folder / f"{name}.npz") for name in parts]
    Output(as_json).event("data", "\n".join(files), files=files)
