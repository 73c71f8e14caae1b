"""One validator: its stake, its view of the chain, and its two agents."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hydra_node.chain import actions
from hydra_node.chain.amounts import format_hydra
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Role
from hydra_node.chain.secrets import SecretStore
from hydra_node.errors import HydraError
from hydra_node.p2p.host import Host
from hydra_validator.audit.agent import AuditAgent
from hydra_validator.rounds import ScoringAgent
from hydra_validator.watch import Report, Watch


class CannotValidate(HydraError):
    """This wallet cannot be a validator."""


@dataclass(frozen=True, slots=True)
class ValidatorOptions:
    """What one validator does: `stake` is what shall be staked in all (wei; 0 leaves it as it is), `campaigns` those
    to score (none given: all), `adversary` a way to misbehave on a devnet."""

    stake: int = 0
    campaigns: frozenset[int] = frozenset()
    adversary: str = ""


class Validator:
    """Scores and audits until cancelled."""

    def __init__(
        self, host: Host, client: ChainClient, secrets: SecretStore, options: ValidatorOptions, report: Report
    ) -> None:
        self._client = client
        self._options = options
        self._report = report
        self._watch = Watch(client, report)
        self._scoring = ScoringAgent(
            self._watch,
            host.ipfs,
            secrets,
            report,
            campaigns=options.campaigns,
            adversary=options.adversary,
        )
        self._audit = AuditAgent(self._watch, host.ipfs, report)

    async def run(self) -> None:
        """Stake, then follow the chain. Raises CannotValidate, and the errors of a chain that is not ours."""
        await asyncio.to_thread(self._stake)
        try:
            async with asyncio.TaskGroup() as group:
                for agent in (self._watch, self._scoring, self._audit):
                    group.create_task(agent.run(), name=type(agent).__name__)
        except* HydraError as failed:
            raise failed.exceptions[0] from None

    def _stake(self) -> None:
        client, wanted = self._client, self._options.stake
        present = client.stakes.stake_of(Role.VALIDATOR, client.address)
        missing = wanted - present
        if missing > 0:
            tokens = client.token.balance_of(client.address)
            if tokens < missing:
                raise CannotValidate(
                    f"the wallet {client.address} holds {format_hydra(tokens)}",
                    expected=f"{format_hydra(missing)} to stake",
                    remedy="fund the wallet or stake less",
                )
            actions.stake(client, Role.VALIDATOR, missing)
            present = client.stakes.stake_of(Role.VALIDATOR, client.address)
            self._report("staked", f"{format_hydra(present)} at stake", {"stake_wei": present})
        if present == 0:
            raise CannotValidate(
                f"{client.address} has nothing at stake as a validator", remedy='give --stake, such as "300 HYDRA"'
            )
