"""Validators score a real campaign on a real chain: they agree, a copied commitment fails, a crash loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from books_check import assert_books_are_the_contracts
from validator_world import HYDRA, World, digits_files, eventually, quiet, running_world

from hydra_node.campaigns.claims import evidence_of
from hydra_node.campaigns.policy import CampaignPolicy, ItemSchema
from hydra_node.campaigns.sponsor import Sponsor, read_reference
from hydra_node.campaigns.submit import Submitter, prepare
from hydra_node.chain.bindings.structs import CampaignTerms
from hydra_node.chain.enums import Role, State
from hydra_node.chain.secrets import SecretStore
from hydra_node.p2p.host import Host
from hydra_node.storage.cid import Cid
from hydra_validator.scoring.report import verify

pytestmark = pytest.mark.timeout(240)
SCHEMA = ItemSchema(dtype="u1", shape=(8, 8), scale=16.0, classes=10)
TERMS = CampaignTerms(
    commit_seconds=10,
    reveal_seconds=6,
    score_commit_seconds=35,
    score_reveal_seconds=20,
    bond=HYDRA,
    max_items=1000,
    validator_fee=10 * HYDRA,
    validator_penalty=40 * HYDRA,
    relay_fee=0,
    gas_pool=0,
)
NAMES = ("sponsor", "honest", "noise", "validator-a", "validator-b", "validator-c")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from running_world(tmp_path)


async def contribute(world: World, host: Host, name: str, policy: CampaignPolicy, file: Path, campaign: int) -> int:
    client = await asyncio.to_thread(world.client, name)
    submitter = Submitter(host, client, SecretStore(world.folder / name / "secrets"), campaign, quiet)
    return await submitter.submit(prepare(policy, file, "CC0-1.0"))


async def test_a_campaign_is_scored_and_paid(world: World) -> None:
    world.fund(*NAMES)
    files = digits_files(world.folder)
    async with Host.start(world.folder / "host") as host:
        address = str(host.address)
        honest = [world.validator(name, address) for name in NAMES[3:5]]
        copier = world.validator(NAMES[5], address, "--adversary", "copy-commitment")
        for validator in (*honest, copier):
            await validator.wait_for("staked")
        sponsor_client = world.client("sponsor")
        sponsor = Sponsor(host, sponsor_client, quiet)
        reference = await sponsor.add(read_reference(files["reference"], SCHEMA))
        policy = CampaignPolicy(
            title="digits", item_schema=SCHEMA, reference=str(reference), licences=("CC0-1.0",),
            consent="I agree.", max_items=1000,
        )  # fmt: skip
        campaign = await sponsor.open_campaign(policy, 1000 * HYDRA, TERMS)
        submissions = await asyncio.gather(
            *(contribute(world, host, name, policy, files[name], campaign) for name in ("honest", "noise"))
        )

        await honest[0].wait_for("committed")
        honest[0].kill()
        assert SecretStore(world.folder / "validator-a" / "data" / "secrets").pending("round-")
        honest[0].start()

        history = sponsor_client.history

        def tallied() -> list[object]:
            history.refresh()
            return list(history.find("Tallied", jobId=campaign))

        await eventually(tallied, "the tally", 150, honest[1])
        final = history.find("Tallied", jobId=campaign)[0]
        document = await asyncio.to_thread(host.ipfs.get_node, Cid.parse(evidence_of(history, final)))
        report = verify(document, bytes(final.args["root"]), int(final.args["total"]))
        scores = {entry.id: [bool(b) for b in entry.buckets] for entry in report.submissions}
        assert sum(scores[submissions[0]]) >= 0.9 * 120
        assert sum(scores[submissions[1]]) <= 0.05 * 40
        assert int(final.args["total"]) <= 1000 * HYDRA - 3 * TERMS.validator_fee

        stakes = {v.name: sponsor_client.stakes.stake_of(Role.VALIDATOR, world.client(v.name).address)
                  for v in world.validators}  # fmt: skip
        assert stakes == {"validator-a": 300 * HYDRA, "validator-b": 300 * HYDRA, "validator-c": 260 * HYDRA}
        assert (await copier.wait_for("reveal_refused"))["error"] == "CommitmentMismatch"
        assert sponsor_client.escrow.job(campaign).state == State.CHALLENGE
        revealed = {str(e.args["validator"]) for e in history.find("Revealed", "QualityRounds")}
        assert revealed == {world.client(name).address for name in NAMES[3:5]}, "the killed one revealed too"
        assert len(honest[0].events("scored")) == 1, "what was committed before the crash was not computed again"
        await honest[0].wait_for("round_settled")
        assert not SecretStore(world.folder / "validator-a" / "data" / "secrets").pending("round-")
        assert [validator.stop() for validator in honest] == [130, 130]
        await asyncio.to_thread(assert_books_are_the_contracts, sponsor_client)


async def test_a_wallet_without_stake_is_told_so_in_one_line(world: World) -> None:
    world.fund("validator-a")
    async with Host.start(world.folder / "host") as host:
        validator = world.validator("validator-a", str(host.address), "--stake", "")
        status = await asyncio.to_thread(validator.process.wait, 60)  # type: ignore[union-attr]  # just started
        assert status == 2
        lines = validator.errors().strip().splitlines()
        assert len(lines) == 1 and "nothing at stake" in lines[0] and "--stake" in lines[0]


async def test_bad_input_is_one_line_and_exit_2(world: World) -> None:
    world.fund("validator-a")
    home = world.folder / "validator-a"
    wrong = world.folder / "wrong"
    wrong.write_text("not the password")
    for options, told in (
        (("--rpc", "http://127.0.0.1:1"), "127.0.0.1:1"),
        (("--deployment", str(world.folder / "nowhere.json")), "nowhere.json"),
        (("--password-file", str(wrong)), "password"),
        (("--stake", "much"), "much"),
        (("--stake", "0 HYDRA"), "0 HYDRA"),
        ((), "not a peer id"),
    ):
        (home / "errors.txt").unlink(missing_ok=True)
        validator = world.validator("validator-a", "/ip4/127.0.0.1/tcp/1/p2p/x", *options)
        assert await asyncio.to_thread(validator.process.wait, 60) == 2, validator.errors()  # type: ignore[union-attr]  # just started
        lines = validator.errors().strip().splitlines()
        assert len(lines) == 1 and told in lines[0], lines
