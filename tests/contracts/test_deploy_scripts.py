"""What deploy.py does with a run that was cut short and with wrong files, and the scripts that fund and inspect."""

import json
import shutil

import pytest
from brownie import HydraToken, JobEscrow, StakeManager, chain, web3
from scripts import deploy as script
from scripts.deploy import PLAN, DeploymentError, deploy, load_record, pending_path, place_contracts, wire
from scripts.fund import fund, read_recipients
from scripts.fund import main as fund_main
from scripts.inspect_deployment import examine
from scripts.inspect_deployment import main as inspect_main
from world import HYDRA, PARAMETERS

NAMES = [step["contract"] for step in PLAN["deployments"]]


class CutShort(Exception):
    """The seeded crash."""


@pytest.fixture(scope="module")
def finished(accounts, tmp_path_factory):
    """The file of a finished deployment."""
    path = tmp_path_factory.mktemp("finished") / "deployment.json"
    deploy(accounts[0], PARAMETERS, path)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deployment.json"


@pytest.fixture
def copied(finished, path):
    """The finished deployment's file, to be changed."""
    return shutil.copy(finished, path)


def addresses(path):
    return json.loads(path.read_text())["addresses"]


def rename(path, name, address):
    """Have the file name another address for a contract."""
    record = json.loads(path.read_text())
    record["addresses"][name] = address
    path.write_text(json.dumps(record))


def whole(deployer, **changed):
    """Every parameter of the plan."""
    return {**PARAMETERS, **dict.fromkeys(("treasury", "guardian", "admin"), deployer.address), **changed}


def cut_short(monkeypatch, deployer, *, recorded):
    """End the run at the first contract that it creates, before or after that is recorded."""
    save, nonce = script.save_record, deployer.nonce

    def crash(path, record):
        created = deployer.nonce > nonce
        if recorded or not created:
            save(path, record)
        if created:
            raise CutShort

    monkeypatch.setattr(script, "save_record", crash)


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "mined, not recorded"])
def test_runs_cut_short_after_each_contract_create_none_twice(accounts, path, monkeypatch, recorded):
    start, block = accounts[0].nonce, web3.eth.block_number
    for count in range(1, len(NAMES) + 1):
        with monkeypatch.context() as patch, pytest.raises(CutShort):
            cut_short(patch, accounts[0], recorded=recorded)
            deploy(accounts[0], PARAMETERS, path)
        assert accounts[0].nonce == start + count
        assert pending_path(path).exists()
    contracts = deploy(accounts[0], PARAMETERS, path)
    created = [accounts[0].get_deployment_address(start + number) for number in range(len(NAMES))]
    assert (
        addresses(path) == {name: contracts[name].address for name in NAMES} == dict(zip(NAMES, created, strict=True))
    )
    assert accounts[0].nonce == start + len(NAMES) + len(PLAN["grants"]) + len(PLAN["renounce"])
    assert json.loads(path.read_text())["block"] == block
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]
    assert examine(path).misfits == []


def note_pending(path, deployer, nonce, name="HydraToken"):
    """What a run leaves that was cut short around the sending of transaction `nonce`."""
    address = str(deployer.get_deployment_address(nonce))
    place = {"contract": name, "address": address, "sender": deployer.address, "nonce": nonce}
    pending_path(path).write_text(json.dumps({**place, "chain_id": chain.id, "block": web3.eth.block_number}))
    return address


def test_a_creation_that_was_never_sent_is_sent_once(accounts, path):
    start = accounts[0].nonce
    expected = note_pending(path, accounts[0], start)
    _, contracts = place_contracts(accounts[0], whole(accounts[0]), path)
    assert contracts["HydraToken"].address == expected
    assert accounts[0].nonce == start + len(NAMES)


def test_a_transaction_that_created_something_else_is_not_taken_over(accounts, path, capsys):
    """Once another contract, once the right one with another supply."""
    for make in (
        lambda: JobEscrow.deploy(accounts[1], accounts[0], accounts[0], {"from": accounts[0]}),
        lambda: HydraToken.deploy(accounts[0], 5 * HYDRA, {"from": accounts[0]}),
        lambda: accounts[0].transfer(accounts[1], 1),
    ):
        path.unlink(missing_ok=True)
        foreign = note_pending(path, accounts[0], accounts[0].nonce)
        make()
        _, contracts = place_contracts(accounts[0], whole(accounts[0]), path)
        assert contracts["HydraToken"].address != foreign
        assert "did not create the HydraToken that is wanted" in capsys.readouterr().out


def test_a_creation_that_waits_to_be_mined_is_not_sent_again(accounts, path, monkeypatch):
    nonce = accounts[0].nonce
    note_pending(path, accounts[0], nonce)
    counts = {"latest": nonce, "pending": nonce + 1}
    monkeypatch.setattr(web3.eth, "get_transaction_count", lambda _, block="latest": counts[block])
    with pytest.raises(DeploymentError, match=f"transaction {nonce} of .* is not mined yet; run again"):
        deploy(accounts[0], PARAMETERS, path)
    assert not path.exists()


def test_a_pending_file_of_another_chain_is_passed_over(accounts, path):
    note_pending(path, accounts[0], 0)
    pending = json.loads(pending_path(path).read_text())
    pending_path(path).write_text(json.dumps({**pending, "chain_id": 1, "block": 0}))
    assert load_record(path)["block"] == web3.eth.block_number


def refused(path, deployer, parameters, pattern):
    """The deployment is refused and nothing is sent."""
    nonce = deployer.nonce
    with pytest.raises(DeploymentError, match=pattern):
        deploy(deployer, parameters, path)
    assert deployer.nonce == nonce


def test_foreign_code_is_refused_by_name(accounts, copied):
    foreign = addresses(copied)["StakeManager"]
    rename(copied, "JobEscrow", foreign)
    pattern = f"JobEscrow at {foreign} is not what this checkout compiles: expected .*0x[0-9a-f]{{64}}, found 0x"
    refused(copied, accounts[0], PARAMETERS, pattern)


def test_code_that_differs_in_one_instruction_is_refused(accounts, copied, monkeypatch):
    code = bytearray(web3.eth.get_code(addresses(copied)["JobEscrow"]))
    code[len(code) // 2] ^= 1
    read = web3.eth.get_code
    monkeypatch.setattr(
        web3.eth, "get_code", lambda at: bytes(code) if at == addresses(copied)["JobEscrow"] else read(at)
    )
    refused(copied, accounts[0], PARAMETERS, "JobEscrow at .* is not what this checkout compiles")


def test_another_address_in_the_constructor_is_refused(accounts, copied):
    """The code is right and works with another token."""
    other = JobEscrow.deploy(accounts[9], accounts[0], accounts[0], {"from": accounts[0]}).address
    rename(copied, "JobEscrow", other)
    refused(copied, accounts[0], PARAMETERS, f"JobEscrow at {other} was made with token {accounts[9].address}")


@pytest.mark.parametrize("parameter", ["supply", "thawSeconds", "activationSeconds", "disputeBond", "disputeSeconds"])
def test_another_parameter_is_refused(accounts, copied, parameter):
    refused(copied, accounts[0], {**PARAMETERS, parameter: PARAMETERS[parameter] + 1}, "was made with .* the plan's")


def test_a_file_without_a_contract_that_others_use_is_refused(accounts, copied):
    record = json.loads(copied.read_text())
    del record["addresses"]["QualityRounds"]
    copied.write_text(json.dumps(record))
    refused(copied, accounts[0], PARAMETERS, " at .* was made for a QualityRounds that .* does not name")


def test_a_damaged_file_is_refused(accounts, path):
    for text in ("", "[]", '{"chain_id": 1}'):
        path.write_text(text)
        refused(path, accounts[0], PARAMETERS, "is damaged")


def test_there_is_one_file_a_chain_by_default(accounts, path, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    parameters = tmp_path / "parameters.json"
    parameters.write_text(json.dumps(PARAMETERS))
    script.main(str(parameters))
    written = tmp_path / "deployments" / f"{chain.id}.json"
    assert json.loads(written.read_text()).keys() == {"chain_id", "block", "addresses"}
    assert [each.name for each in written.parent.iterdir()] == [written.name]


# ---- fund


def recipients(tmp_path, listed):
    file = tmp_path / "recipients.json"
    file.write_text(json.dumps(listed))
    return file


def test_funding_twice_sends_once(accounts, finished, tmp_path, capsys):
    token = HydraToken.at(addresses(finished)["HydraToken"])
    new, rich = accounts.add(), accounts[7]
    file = recipients(tmp_path, {new.address: {"ether": "0.5", "tokens": "100.25"}, rich.address: {"ether": "1"}})
    fund_main(str(file), str(finished))
    assert (new.balance(), token.balanceOf(new)) == (HYDRA // 2, 10025 * HYDRA // 100)
    said = capsys.readouterr().out
    assert f"{new.address} received 0.5 ether and 100.25 tokens" in said
    assert f"{rich.address} has enough" in said
    nonce = accounts[0].nonce
    fund_main(str(file), str(finished))
    assert accounts[0].nonce == nonce
    assert f"{new.address} has enough" in capsys.readouterr().out


def test_funding_sends_only_what_is_missing(accounts, finished, tmp_path):
    token = HydraToken.at(addresses(finished)["HydraToken"])
    token.transfer(accounts[8], 3 * HYDRA, {"from": accounts[0]})
    wanted = read_recipients(recipients(tmp_path, {accounts[8].address.lower(): {"tokens": 10}}))
    assert fund(accounts[0], wanted, finished) == {accounts[8].address: {"tokens": 7 * HYDRA}}
    assert token.balanceOf(accounts[8]) == 10 * HYDRA


def test_funding_that_cannot_be_paid_sends_nothing(accounts, finished, tmp_path):
    nonce = accounts[0].nonce
    too_much = {accounts[7].address: {"tokens": "1"}, accounts[8].address: {"tokens": "1000000"}}
    with pytest.raises(DeploymentError, match="has 1000000 tokens and 1000001 are missing"):
        fund(accounts[0], read_recipients(recipients(tmp_path, too_much)), finished)
    herself = {accounts[0].address: {"ether": "100001"}}
    with pytest.raises(DeploymentError, match="cannot top itself up"):
        fund(accounts[0], read_recipients(recipients(tmp_path, herself)), finished)
    assert accounts[0].nonce == nonce


@pytest.mark.parametrize("amount", ["-1", "x", "NaN", "Infinity", "0.0000000000000000001", "1e999999", None, ""])
def test_amounts_that_are_none_are_refused(accounts, tmp_path, amount):
    with pytest.raises(DeploymentError, match="expected an amount"):
        read_recipients(recipients(tmp_path, {accounts[1].address: {"ether": amount}}))


def test_recipients_that_are_none_are_refused(accounts, tmp_path):
    one = accounts[1].address
    for listed in ([], {"0x12": {"ether": "1"}}, {one: {"gold": "1"}}, {one: "1"}, {one: {}, one.lower(): {}}):
        with pytest.raises(DeploymentError):
            read_recipients(recipients(tmp_path, listed))


# ---- inspect


def test_a_good_deployment_fits(accounts, finished, capsys):
    nonce = accounts[0].nonce
    inspect_main(str(finished))
    lines = capsys.readouterr().out.splitlines()
    for name, address in addresses(finished).items():
        assert f"{name:20} {address} verified" in lines
    slashers = [grant["to"] for grant in PLAN["grants"] if grant["role"] == "SLASHER_ROLE"]
    assert f"    {'SLASHER_ROLE':20} {', '.join(sorted(slashers))}" in lines
    assert lines.count(f"    {'DEFAULT_ADMIN_ROLE':20} nobody") == len(PLAN["renounce"])
    assert f"{'token supply':20} 1000000 of 1000000 HYDRA, the rest is burned" in lines
    assert f"{'jobs':20} 0" in lines
    assert f"{'staked by trainers':20} 0 HYDRA" in lines
    assert lines[-1].endswith("everything fits")
    assert accounts[0].nonce == nonce


def test_a_deployment_that_is_not_wired_does_not_fit(accounts, path, capsys):
    _, contracts = place_contracts(accounts[0], whole(accounts[0]), path)
    with pytest.raises(SystemExit, match="things do not fit"):
        inspect_main(str(path))
    said = capsys.readouterr().out
    for grant in PLAN["grants"]:
        assert f"{grant['role']} of {grant['contract']} is not granted to {grant['to']}" in said
    for name in PLAN["renounce"]:
        assert f"{accounts[0].address} is still admin of {name}" in said
    assert len(examine(path).misfits) == len(PLAN["grants"]) + len(PLAN["renounce"])
    wire(accounts[0], contracts)
    assert examine(path).misfits == []


def test_what_the_plan_does_not_say_does_not_fit(accounts, path):
    """Another slasher, another guardian, and a contract that is missing."""
    record, contracts = place_contracts(accounts[0], whole(accounts[0]), path)
    stakes = contracts["StakeManager"]
    stakes.grantRole(stakes.SLASHER_ROLE(), accounts[5], {"from": accounts[0]})
    stakes.grantRole(stakes.GUARDIAN_ROLE(), accounts[6], {"from": accounts[0]})
    stakes.grantRole(stakes.LOCKER_ROLE(), accounts[7], {"from": accounts[0]})
    stakes.revokeRole(stakes.LOCKER_ROLE(), accounts[7], {"from": accounts[0]})
    wire(accounts[0], contracts)
    del record["addresses"][NAMES[-1]]
    path.write_text(json.dumps(record))
    said = "\n".join(examine(path).misfits)
    assert f"SLASHER_ROLE of StakeManager is granted to {accounts[5].address}, which the plan does not say" in said
    assert "there are several guardians" in said
    assert f"the file names no {NAMES[-1]}" in said
    assert accounts[7].address not in said


def test_foreign_and_wrong_contracts_do_not_fit(accounts, copied):
    rename(copied, "DisputeManager", addresses(copied)["QualityRounds"])
    rename(
        copied, "StakeManager", StakeManager.deploy(accounts[9], 1, *[accounts[0]] * 2, {"from": accounts[0]}).address
    )
    report = examine(copied)
    assert any("DisputeManager at" in each and "is not what this checkout compiles" in each for each in report.misfits)
    assert any("StakeManager at" in each and "was made with token" in each for each in report.misfits)


def test_a_missing_file_is_named(path):
    with pytest.raises(DeploymentError, match="there is no deployment file"):
        inspect_main(str(path))
