"""A process that sends transactions and is killed at one moment of the outbox, when asked to."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from hydra_node.chain import sender as sender_module
from hydra_node.chain.outbox import Outbox
from hydra_node.chain.rpc import Rpc, RpcUnavailable
from hydra_node.chain.sender import Sender
from hydra_node.chain.transactions import ContractCall, TransactionRejected, TransactionTimeout
from hydra_node.chain.wallet import Wallet
from hydra_node.errors import HydraError

STEPS = ("prepare", "simulated", "sign", "mined")
MOMENTS = tuple(f"{moment} {step}" for step in STEPS for moment in ("before", "after"))
PATIENCE = 4.0


class MortalOutbox(Outbox):
    """Kills its process at the moment that is set, the first time that it comes."""

    moment = ""

    def _at(self, moment: str) -> None:
        if moment == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def prepare(self, *arguments: Any, **keywords: Any) -> Any:
        return self._mortally("prepare", *arguments, **keywords)

    def simulated(self, *arguments: Any, **keywords: Any) -> Any:
        return self._mortally("simulated", *arguments, **keywords)

    def sign(self, *arguments: Any, **keywords: Any) -> Any:
        return self._mortally("sign", *arguments, **keywords)

    def mined(self, *arguments: Any, **keywords: Any) -> Any:
        return self._mortally("mined", *arguments, **keywords)

    def _mortally(self, step: str, *arguments: Any, **keywords: Any) -> Any:
        self._at(f"before {step}")
        result = getattr(super(), step)(*arguments, **keywords)
        self._at(f"after {step}")
        return result


def pay(url: str, key: bytes, folder: str, receivers: list[str], moment: str) -> None:
    """Pay one wei to each receiver, each under a key of its own; exit status 0 when all are paid, 3 when the chain
    could not be reached."""
    MortalOutbox.moment = moment
    sender_module.Outbox = MortalOutbox  # type: ignore[misc]
    try:
        rpc = Rpc(url, patience=PATIENCE, timeout=2.0)
        sender = Sender(rpc, Wallet.from_key(key), Path(folder), bump_seconds=1.0, bump_blocks=0)
        for receiver in receivers:
            call = ContractCall("payment", receiver, b"", value=1, gas=21_000)
            sender.send(call, key=receiver, timeout=6.0)
    except (RpcUnavailable, TransactionTimeout, TransactionRejected):
        os._exit(3)
    except HydraError as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(4)
    os._exit(0)
