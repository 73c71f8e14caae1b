"""`hydra-node stake | unstake | claim | balance`: tokens of one account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hydra_node.chain.amounts import format_coin, format_hydra, parse_hydra
from hydra_node.commands.confirm import confirm
from hydra_node.commands.options import (
    BootstrapOption,
    DeploymentOption,
    JsonOption,
    KeystoreOption,
    PasswordFileOption,
    RpcOption,
    WalletOption,
    YesOption,
)
from hydra_node.commands.output import Output
from hydra_node.errors import HydraError

if TYPE_CHECKING:
    from hydra_node.chain.contracts import ChainClient
    from hydra_node.chain.enums import Role

RoleOption = Annotated[str, typer.Option("--role", help="What the stake is for: trainer or validator.")]
AmountArgument = Annotated[str, typer.Argument(help='An amount, such as "100 HYDRA".')]


class BadChoice(HydraError):
    """An option's value that this command cannot take."""


def stake(
    amount: AmountArgument,
    role: RoleOption = "trainer",
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Lock tokens as a guarantee of honest work.

    Example: hydra-node stake "100 HYDRA" --role trainer
    """
    wei = positive_amount(amount)
    chosen = role_of(role)
    client = _client(rpc, deployment, keystore, wallet, password_file)
    confirm(f"Stake {format_hydra(wei)} as {role} from {client.address}?", yes=yes, as_json=as_json)
    staked = add_stake(client, chosen, wei)
    Output(as_json).event(
        "staked", f"{format_hydra(staked)} now at stake as {role}", role=role, amount_wei=wei, stake_wei=staked
    )


def unstake(
    amount: Annotated[str, typer.Argument(help="Amount to withdraw; without it, finish a withdrawal.")] = "",
    role: RoleOption = "trainer",
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Begin to withdraw stake, or finish once it has thawed.

    Example: hydra-node unstake "100 HYDRA" ; later: hydra-node unstake
    """
    from hydra_node.chain.clock import moment

    chosen = role_of(role)
    wei = positive_amount(amount) if amount else 0
    client = _client(rpc, deployment, keystore, wallet, password_file)
    output = Output(as_json)
    if wei:
        event = client.stakes.request_withdraw(chosen, wei).event("WithdrawRequested")
        ready = int(event.args["readyAt"])
        then = f"hydra-node unstake --role {role} --wallet {wallet}"
        text = f"{format_hydra(wei)} thaw until {moment(ready)}; then run: {then}"
        output.event("unstaking", text, role=role, amount_wei=wei, ready_at=ready)
        return
    paid = int(client.stakes.withdraw(chosen).event("Withdrawn").args["amount"])
    output.event("withdrawn", f"{format_hydra(paid)} withdrawn", role=role, amount_wei=paid)


def balance(
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Show an account's tokens, stakes and what it can claim. Needs no password.

    Example: hydra-node balance --wallet me
    """
    from hydra_node.campaigns.claims import Claimable, claimable, newest_documents
    from hydra_node.chain.clock import moment
    from hydra_node.chain.enums import Role
    from hydra_node.commands import session
    from hydra_node.commands.jobs import visiting_host
    from hydra_node.commands.options import wallet_address

    address = wallet_address(keystore, wallet)
    client = session.chain(rpc, deployment)
    facts: dict[str, Any] = {"address": address, "tokens_wei": client.token.balance_of(address)}
    facts["gas_wei"] = int(client.rpc.request("eth_getBalance", address, "latest"), 16)
    facts["stake_wei"] = {role.name.lower(): client.stakes.stake_of(role, address) for role in Role}
    thawing = {role.name.lower(): client.stakes.thawing_of(role, address) for role in Role}
    facts["thawing_wei"] = {role: amount for role, (amount, _ready_at) in thawing.items()}
    lines = [f"{address}: {format_hydra(facts['tokens_wei'])}, and {format_coin(facts['gas_wei'])} for gas"]
    lines += [f"{format_hydra(amount)} at stake as {role}" for role, amount in facts["stake_wei"].items() if amount]
    lines += [
        f"{format_hydra(amount)} thawing as {role} until {moment(ready_at)}"
        for role, (amount, ready_at) in thawing.items()
        if amount
    ]

    history = client.history
    history.refresh()
    documents = newest_documents(history)

    async def main() -> None:
        found = Claimable({}, ())
        if documents:
            async with visiting_host(bootstrap) as host:
                found = await claimable(client, host.ipfs, address, documents)
        facts["claimable_wei"] = sum(found.amounts.values())
        facts["unreadable_jobs"] = list(found.unreadable)
        if facts["claimable_wei"]:
            lines.append(f"{format_hydra(facts['claimable_wei'])} to claim: hydra-node claim --wallet {wallet}")
        if found.unreadable:
            numbers = ", ".join(str(job) for job in found.unreadable)
            lines.append(f"the rewards of job {numbers} cannot be read now: no peer serves them")
        Output(as_json).event("balance", "\n".join(lines), **facts)

    session.run(main())


def claim(
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Claim everything this wallet has earned, in every campaign and job.

    Example: hydra-node claim --wallet me
    """
    from hydra_node.campaigns.claims import claim_everything
    from hydra_node.commands import session
    from hydra_node.commands.jobs import visiting_host

    client = _client(rpc, deployment, keystore, wallet, password_file)

    async def main() -> None:
        # Not as this wallet's own node, which may be running.
        async with visiting_host(bootstrap) as host:
            paid = await claim_everything(client, host.ipfs)
        for job, amount in paid.items():
            Output(as_json).event("claimed", f"job {job}: {format_hydra(amount)}", job=job, amount_wei=amount)
        if not paid:
            Output(as_json).event("nothing_to_claim", "nothing to claim")

    session.run(main())


def add_stake(client: ChainClient, role: Role, wei: int) -> int:
    """Approve and stake `wei`; the account's active stake afterwards. Raises HydraError when it has too little."""
    from hydra_node.chain import actions

    tokens = client.token.balance_of(client.address)
    if tokens < wei:
        raise BadChoice(
            f"{client.address} has {format_hydra(tokens)}",
            expected=f"at least {format_hydra(wei)}",
            remedy="on a devnet: hydra-node devnet fund WALLET",
        )
    actions.stake(client, role, wei)
    return client.stakes.stake_of(role, client.address)


def positive_amount(text: str) -> int:
    """An amount above zero, in wei. Raises BadAmount, BadChoice."""
    wei = parse_hydra(text)
    if wei <= 0:
        raise BadChoice(f"{text!r} is nothing", expected="an amount above 0 HYDRA")
    return wei


def role_of(name: str) -> Role:
    """The role of that name. Raises BadChoice."""
    from hydra_node.chain.enums import Role

    try:
        return Role[name.upper()]
    except KeyError:
        raise BadChoice(f"{name!r} is no role", expected="trainer or validator") from None


def _client(
    rpc: str, deployment: Path | None, keystore: Path | None, wallet: str, password_file: Path | None
) -> ChainClient:
    from hydra_node.commands import session

    return session.chain(rpc, deployment, keystore=keystore, wallet=wallet, password_file=password_file)
