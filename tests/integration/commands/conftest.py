"""A devnet of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands_world import Command, run_in

from hydra_node.chain.contracts import connect
from hydra_node.chain.wallet import WalletStore
from hydra_node.commands.session import network

Holdings = Callable[[], tuple[int, int]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """HYDRA_HOME with a running devnet and a funded wallet `me`."""
    folder = tmp_path_factory.mktemp("home")
    try:
        up = run_in(folder, "devnet", "up", "--port", "0")
        assert up.returncode == 0, up.stderr
        assert run_in(folder, "wallet", "new", "me").returncode == 0
        assert run_in(folder, "devnet", "fund", "me").returncode == 0
        yield folder
    finally:
        run_in(folder, "devnet", "down")


@pytest.fixture
def hydra(home: Path) -> Command:
    """`hydra-node` on the running devnet."""
    return lambda *arguments, **keywords: run_in(home, *arguments, **keywords)


@pytest.fixture
def holdings(home: Path) -> Holdings:
    """What the wallet `me` has, in wei of the token and of the coin: whoever sends anything has less of the coin."""
    known = network(home / "devnet")
    assert known is not None
    client = connect(known.rpc, home / "devnet" / "deployment.json")
    address = WalletStore(home / "keystore").require("me").address
    return lambda: (client.token.balance_of(address), int(client.rpc.request("eth_getBalance", address, "latest"), 16))
