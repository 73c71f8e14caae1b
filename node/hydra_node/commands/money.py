"""`hydra-node stake | unstake | claim | balance`: tokens of one account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hydra_node.commands.options import (
    BootstrapOption,
    DataDirOption,
    DeploymentOption,
    JsonOption,
    KeystoreOption,
    PasswordFileOption,
    RpcOption,
    WalletOption,
    YesOption,
    home,
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
    from hydra_node.chain.amounts import format_hydra

    wei = positive_amount(amount)
    chosen = role_of(role)
    client = _client(rpc, deployment, keystore, wallet, password_file)
    confirm(yes, as_json, f"Stake {format_hydra(wei)} as {role} from {client.address}?")
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
    from hydra_node.chain.amounts import format_hydra

    chosen = role_of(role)
    wei = positive_amount(amount) if amount else 0
    client = _client(rpc, deployment, keystore, wallet, password_file)
    output = Output(as_json)
    if wei:
        event = client.stakes.request_withdraw(chosen, wei).event("WithdrawRequested")
        ready = int(event.args["readyAt"])
        text = f"{format_hydra(wei)} thaw until chain time {ready}; then run: hydra-node unstake --role {role}"
        output.event("unstaking", text, role=role, amount_wei=wei, ready_at=ready)
        return
    paid = int(client.stakes.withdraw(chosen).event("Withdrawn").args["amount"])
    output.event("withdrawn", f"{format_hydra(paid)} withdrawn", role=role, amount_wei=paid)


def balance(
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an account's tokens, stakes and what it can claim. Needs no password.

    Example: hydra-node balance --wallet me
    """
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.chain.enums import Role
    from hydra_node.commands import session
    from hydra_node.commands.options import wallet_address

    address = wallet_address(keystore, wallet)
    client = session.chain(rpc, deployment)
    tokens = client.token.balance_of(address)
    stakes = {role.name.lower(): client.stakes.stake_of(role, address) for role in Role}
    thawing = {role.name.lower(): client.stakes.thawing_of(role, address)[0] for role in Role}
    text = f"{address}: {format_hydra(tokens)}" + "".join(
        f"; {format_hydra(amount)} at stake as {role}" for role, amount in stakes.items() if amount
    )
    text += "".join(f"; {format_hydra(amount)} thawing as {role}" for role, amount in thawing.items() if amount)
    Output(as_json).event("balance", text, address=address, tokens_wei=tokens, stake_wei=stakes, thawing_wei=thawing)


def claim(
    wallet: WalletOption = "me",
    rpc: RpcOption = "",
    deployment: DeploymentOption = None,
    keystore: KeystoreOption = None,
    password_file: PasswordFileOption = None,
    data_dir: DataDirOption = None,
    bootstrap: BootstrapOption = [],
    as_json: JsonOption = False,
) -> None:
    """Claim everything this wallet has earned, in every campaign and job.

    Example: hydra-node claim --wallet me
    """
    from hydra_node.campaigns.claims import claim_everything
    from hydra_node.chain.amounts import format_hydra
    from hydra_node.commands import session
    from hydra_node.p2p.host import Host

    client = _client(rpc, deployment, keystore, wallet, password_file)

    async def main() -> None:
        folder = data_dir or home() / "nodes" / wallet
        async with Host.start(folder, bootstrap=session.bootstrap(bootstrap)) as host:
            paid = await claim_everything(client, host.ipfs)
        for job, amount in paid.items():
            Output(as_json).event("claimed", f"job {job}: {format_hydra(amount)}", job=job, amount_wei=amount)
        if not paid:
            Output(as_json).event("nothing_to_claim", "nothing to claim")

    session.run(main())


def add_stake(client: ChainClient, role: Role, wei: int) -> int:
    """Approve and stake `wei`; the account's active stake afterwards. Raises HydraError when it has too little."""
    from hydra_node.chain.amounts import format_hydra

    tokens = client.token.balance_of(client.address)
    if tokens < wei:
        raise BadChoice(
            f"{client.address} has {format_hydra(tokens)}",
            expected=f"at least {format_hydra(wei)}",
            remedy="on a devnet: hydra-node devnet fund NAME",
        )
    client.token.approve(client.stakes.address, wei)
    client.stakes.stake(role, wei)
    return client.stakes.stake_of(role, client.address)


def positive_amount(text: str) -> int:
    """An amount above zero, in wei. Raises BadAmount, BadChoice."""
    from hydra_node.chain.amounts import parse_hydra

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


def confirm(yes: bool, as_json: bool, question: str) -> None:
    """Ask before spending, unless told not to. Raises typer.Abort when the answer is no."""
    if not yes and not as_json:
        typer.confirm(question, abort=True)


def _client(
    rpc: str, deployment: Path | None, keystore: Path | None, wallet: str, password_file: Path | None
) -> ChainClient:
    from hydra_node.commands import session

    return session.chain(rpc, deployment, keystore=keystore, wallet=wallet, password_file=password_file)
