"""A trainer as a process of its own: python trainer_process.py OPTIONS.json; prints one JSON object an event."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from hydra_node.chain.contracts import connect
from hydra_node.chain.wallet import Wallet
from hydra_node.devnet.chains import DEV_MNEMONIC
from hydra_node.devnet.embedded.accounts import dev_accounts
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_node.training.adversary import Adversary
from hydra_node.training.trainer import Trainer, TrainerOptions
from hydra_node.training.workload import Manner


def report(kind: str, text: str, facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": kind, "text": text, **facts}) + "\n")
    sys.stdout.flush()


async def main(options: dict[str, Any]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)  # type: ignore[union-attr]  # there is one
    folder = Path(options["folder"])
    wallet = Wallet.from_key(dev_accounts(DEV_MNEMONIC, options["account"] + 1)[options["account"]].key)
    client = connect(options["rpc"], Path(options["deployment"]), wallet, folder)
    adversary = Adversary.parse(options["adversary"]) if options.get("adversary") else None
    trainer = TrainerOptions(
        folder=folder,
        job_id=options.get("job"),
        stake=options["stake"],
        manner=Manner(options.get("cpu_limit", 1.0), adversary),
        job_timeout=120,
        settlement_timeout=280,
    )
    async with Host.start(folder, bootstrap=options["bootstrap"]) as host:
        outcome = await Trainer(host, client, trainer, report).run()
    report("done", "", {"steps": outcome.steps, "claimed": outcome.claimed})


if __name__ == "__main__":
    try:
        asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
    except asyncio.CancelledError:
        sys.exit(130)
    except HydraError as error:
        report("failed", str(error), {"error": type(error).__name__})
        sys.exit(2)
