"""The commands on a running devnet, as a person and as a program use them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_world import Command, run_in
from sklearn.datasets import load_digits

from hydra_node.chain.abi import names

Holdings = Callable[[], tuple[int, int]]
DATASET = "bafyreiepcdjchzpfvsajpm4jiw5f6arhth52ojpxj2onzyzsqttzbqu5t4"


def last_line(text: str) -> dict[str, Any]:
    value = json.loads(text.strip().splitlines()[-1])
    assert isinstance(value, dict)
    return value


def test_stake_unstake_and_balance_agree(hydra: Command) -> None:
    before = last_line(hydra("balance", "--json").stdout)
    staked = last_line(hydra("stake", "100 HYDRA", "--json", "--yes").stdout)
    assert staked["amount_wei"] == 100 * 10**18
    after = last_line(hydra("balance", "--json").stdout)
    assert before["tokens_wei"] - after["tokens_wei"] == 100 * 10**18
    assert after["stake_wei"]["trainer"] - before["stake_wei"]["trainer"] == 100 * 10**18
    leaving = last_line(hydra("unstake", "40 HYDRA", "--json").stdout)
    assert leaving["amount_wei"] == 40 * 10**18
    assert last_line(hydra("balance", "--json").stdout)["thawing_wei"]["trainer"] == 40 * 10**18


def test_status_names_every_contract(hydra: Command) -> None:
    status = last_line(hydra("devnet", "status", "--json").stdout)
    assert status["running"] is True
    assert set(status["contracts"]) == set(names())


def test_up_again_changes_nothing(hydra: Command) -> None:
    first = last_line(hydra("devnet", "status", "--json").stdout)
    again = hydra("devnet", "up", "--port", "0", "--json")
    assert again.returncode == 0, again.stderr
    assert last_line(hydra("devnet", "status", "--json").stdout)["contracts"] == first["contracts"]


def test_up_at_another_port_while_it_runs_is_refused(hydra: Command) -> None:
    refused(hydra("devnet", "up", "--port", "1"), "127.0.0.1", "devnet down")


def test_lists_are_empty_before_anything_is_opened(hydra: Command) -> None:
    assert last_line(hydra("job", "list", "--json").stdout) == {"event": "jobs", "items": []}
    assert last_line(hydra("campaign", "list", "--json").stdout) == {"event": "campaigns", "items": []}
    assert last_line(hydra("data", "status", "--json").stdout) == {"event": "submissions", "items": []}


def refused(done: Any, *words: str) -> None:
    """One line on standard error that names the cause; status 2; nothing on standard output."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], lines[0]
    assert done.stdout == ""


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "not-a-url"])
def test_an_unknown_chain_is_named(hydra: Command, url: str) -> None:
    refused(hydra("balance", "--rpc", url), url.removeprefix("http://"))


def test_a_wrong_password_is_named(hydra: Command) -> None:
    refused(hydra("stake", "1 HYDRA", "--yes", password="wrong"), "password", "me")


def test_no_password_is_named(hydra: Command) -> None:
    refused(hydra("stake", "1 HYDRA", "--yes", password=None), "password")


def test_an_unknown_wallet_is_named(hydra: Command) -> None:
    refused(hydra("balance", "--wallet", "nobody"), "nobody", "hydra-node wallet new")


@pytest.mark.parametrize("amount", ["0", "0 HYDRA", "-1 HYDRA", "many", "1.0000000000000000001 HYDRA"])
def test_an_impossible_stake_is_named(hydra: Command, amount: str) -> None:
    refused(hydra("stake", "--yes", "--", amount), amount.split(maxsplit=1)[0])


def test_a_stake_beyond_the_balance_is_named(hydra: Command) -> None:
    refused(hydra("stake", "999999 HYDRA", "--yes"), "999999", "devnet fund")


def corrupt(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04 this is no archive")


def empty_arrays(path: Path) -> None:
    np.savez(path, X=np.zeros((0, 8, 8), np.uint8), y=np.zeros(0, np.int64))


BAD_FILES: dict[str, Any] = {
    "missing": lambda _path: None,
    "empty": lambda path: path.write_bytes(b""),
    "corrupt": corrupt,
    "no-items": empty_arrays,
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_data_is_refused_before_anything_is_sent(
    hydra: Command, holdings: Holdings, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "data.npz"
    BAD_FILES[kind](path)
    before = holdings()
    refused(hydra("data", "submit", "--campaign", "1", "--file", str(path), "--yes"), str(path))
    refused(
        hydra("campaign", "create", "--reference", str(path), "--reward", "10 HYDRA", "--yes"),
        str(path),
    )
    assert holdings() == before


def test_unknown_numbers_are_named(hydra: Command, tmp_path: Path) -> None:
    refused(hydra("campaign", "show", "99"), "99", "campaign list")
    refused(hydra("job", "show", "99"), "99", "job list")
    np.savez(tmp_path / "data.npz", X=np.zeros((3, 8, 8), np.uint8), y=np.zeros(3, np.int64))
    refused(hydra("data", "submit", "--campaign", "99", "--file", str(tmp_path / "data.npz"), "--yes"), "99")


def test_an_occupied_port_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused(run_in(tmp_path, "devnet", "up", "--port", port), port)
    assert not (tmp_path / "devnet" / "deployment.json").exists()
    assert last_line(run_in(tmp_path, "devnet", "status", "--json").stdout)["running"] is False


def test_an_unknown_kind_of_chain_is_named(tmp_path: Path) -> None:
    refused(run_in(tmp_path, "devnet", "up", "--chain", "dogechain"), "dogechain", "embedded")
    refused(run_in(tmp_path, "demo", "--chain", "dogechain"), "dogechain", "embedded")


def test_without_a_devnet_the_next_step_is_named(tmp_path: Path) -> None:
    refused(run_in(tmp_path, "job", "list"), "hydra-node devnet up")


def test_a_wallet_is_never_overwritten(hydra: Command) -> None:
    refused(hydra("wallet", "new", "me"), "me")


def test_a_private_key_is_imported_from_a_file_and_never_shown(hydra: Command, tmp_path: Path) -> None:
    key = "0x" + "11" * 32
    (tmp_path / "key").write_text(key + "\n")
    done = hydra("wallet", "import", "old", "--key-file", str(tmp_path / "key"), "--json")
    assert done.returncode == 0, done.stderr
    assert last_line(done.stdout)["address"] == "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
    assert "1111" not in done.stdout + done.stderr


def test_a_recovery_phrase_is_imported_from_a_file_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("Test test test test test test test test test test test junk\n")
    words = ("--mnemonic-file", str(tmp_path / "words"))
    first = run_in(tmp_path, "wallet", "import", "first", *words, "--json")
    third = run_in(tmp_path, "wallet", "import", "third", *words, "--account", "2", "--json")
    assert last_line(first.stdout)["address"] == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert last_line(third.stdout)["address"] == "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
    assert "junk" not in first.stdout + first.stderr + third.stdout + third.stderr
    refused(run_in(tmp_path, "wallet", "import", "x", *words, "--account", "-1"), "no account -1")
    refused(run_in(tmp_path, "wallet", "import", "x", *words, "--key-file", str(tmp_path / "words")), "not both")
    refused(run_in(tmp_path, "wallet", "import", "x", "--key-file", str(tmp_path / "words")), "private key")


def test_a_private_key_has_no_second_account(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0x" + "11" * 32)
    key = ("--key-file", str(tmp_path / "key"))
    refused(run_in(tmp_path, "wallet", "import", "x", *key, "--account", "1"), "one account")


def test_every_command_has_help_with_an_example(hydra: Command) -> None:
    commands = [
        ["demo"],
        ["serve"],
        *(["devnet", name] for name in ("up", "down", "status", "fund", "data")),
        *(["wallet", name] for name in ("new", "list", "import")),
        *(["campaign", name] for name in ("create", "list", "show", "wait", "refund")),
        *(["data", name] for name in ("submit", "status")),
        *(["job", name] for name in ("create", "list", "show", "wait", "refund", "model")),
        ["stake"],
        ["unstake"],
        ["claim"],
        ["balance"],
        ["stake-and-train"],
    ]
    for command in commands:
        done = hydra(*command, "--help")
        assert done.returncode == 0
        assert f"Example: hydra-node {' '.join(command)}" in done.stdout, command


def test_help_is_whole_on_a_narrow_terminal(home: Path) -> None:
    shown = run_in(home, "campaign", "create", "--help", columns=80).stdout
    assert {"--score-commit-seconds", "--validator-penalty", "--password-file"} <= set(shown.split())


def test_the_version_is_told() -> None:
    done = run_in(Path("unused"), "--version")
    assert done.returncode == 0 and done.stdout.strip() == version("hydra-node")


# --- nothing is spent unasked, nothing is in escrow for what cannot be opened --------------------------------------


def reference(folder: Path) -> str:
    path = folder / "reference.npz"
    digits = load_digits()
    np.savez(path, X=digits.images[:100].astype(np.uint8), y=digits.target[:100])
    return str(path)


SPENDING = {
    "stake": ["stake", "1 HYDRA"],
    "campaign": ["campaign", "create", "--reference", "FILE", "--reward", "50 HYDRA"],
    "job": ["job", "create", "--dataset", DATASET],
    "train": ["stake-and-train", "--stake", "1 HYDRA"],
}


@pytest.mark.parametrize("kind", SPENDING)
@pytest.mark.parametrize("json_too", [[], ["--json"]], ids=["asked", "json"])
def test_nothing_is_spent_without_a_yes(
    hydra: Command, holdings: Holdings, tmp_path: Path, kind: str, json_too: list[str]
) -> None:
    before = holdings()
    command = [reference(tmp_path) if part == "FILE" else part for part in SPENDING[kind]]
    done = hydra(*command, *json_too)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "--yes" in done.stderr.splitlines()[-1]
    assert holdings() == before


BAD_CAMPAIGNS = {
    "a window beyond what the contract counts": ["--commit-seconds", "4294967296"],
    "windows of centuries": ["--commit-seconds", "4000000000"],
    "a reward below one fee": ["--reward", "10 HYDRA"],
    "a scale of nothing": ["--scale", "0"],
    "a scale that is no number": ["--scale", "nan"],
    "more items than a submission holds": ["--max-items", "1000000000"],
    "no title": ["--title", ""],
    "fewer classes than the file has": ["--classes", "2"],
}


@pytest.mark.parametrize("case", BAD_CAMPAIGNS)
def test_an_impossible_campaign_is_refused_before_its_reward_is_in_escrow(
    hydra: Command, holdings: Holdings, tmp_path: Path, case: str
) -> None:
    before = holdings()
    options = ["--reference", reference(tmp_path), "--reward", "50 HYDRA", *BAD_CAMPAIGNS[case], "--yes"]
    refused(hydra("campaign", "create", *options))
    assert holdings() == before


BAD_JOBS: dict[str, tuple[list[str], str]] = {
    "a dataset that is no CID": (["--dataset", "bafyfoo"], "bafyfoo"),
    "a window beyond what the contract counts": (["--dataset", DATASET, "--post-seconds", "4294967296"], "post"),
    "a penalty above the stake": (["--dataset", DATASET, "--penalty", "101 HYDRA"], "--penalty"),
    "a reward that does not pay for the samples": (["--dataset", DATASET, "--reward", "1 HYDRA"], "samples"),
}


@pytest.mark.parametrize("case", BAD_JOBS)
def test_an_impossible_job_is_refused_before_its_reward_is_in_escrow(
    hydra: Command, holdings: Holdings, case: str
) -> None:
    before = holdings()
    options, named = BAD_JOBS[case]
    refused(hydra("job", "create", "--reward", "800 HYDRA", *options, "--yes"), named)
    assert holdings() == before


@pytest.mark.slow
def test_a_job_on_a_dataset_that_nobody_has_is_refused(hydra: Command, holdings: Holdings) -> None:
    before = holdings()
    refused(hydra("job", "create", "--dataset", DATASET, "--reward", "800 HYDRA", "--yes"), DATASET)
    assert holdings() == before


@pytest.mark.slow
def test_a_campaign_is_shown_in_full_and_refunded_in_time(hydra: Command, tmp_path: Path) -> None:
    windows = [part for name in ("commit", "reveal") for part in (f"--{name}-seconds", "1")]
    created = hydra(
        *("campaign", "create", "--reference", reference(tmp_path), "--reward", "50 HYDRA", "--title", "my digits"),
        *(*windows, "--scale", "16", "--no-wait", "--yes", "--json"),
    )
    assert created.returncode == 0, created.stderr
    events = [json.loads(line) for line in created.stdout.splitlines()]
    assert [event["event"] for event in events] == ["campaign_created", "not_serving"]
    number = str(events[0]["campaign"])
    facts = last_line(hydra("campaign", "show", number, "--json").stdout)
    assert facts["deposited_wei"] == 50 * 10**18 and facts["state"] == "collecting"
    assert "nobody serves it" in facts["policy"]
    shown = hydra("campaign", "show", number).stdout
    assert "deposited: 50 HYDRA" in shown and "UTC" in shown and "validator fee: 10 HYDRA" in shown
    refused(hydra("campaign", "refund", number), "collecting", "UTC")
    refused(hydra("job", "refund", number), "job list")
    listed = last_line(hydra("campaign", "list", "--json").stdout)["items"]
    assert {"campaign": int(number), "deposited_wei": 50 * 10**18}.items() <= listed[-1].items()
    refused(hydra("campaign", "wait", number), "nobody submitted data", f"campaign refund {number}")


# --- folders, keystores, keys ---------------------------------------------------------------------------------------


UNUSABLE = {
    "wallet": ["wallet", "new", "ada", "--keystore"],
    "serve": ["serve", "--data-dir"],
    "devnet": ["devnet", "up", "--port", "0", "--dir"],
}


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.parametrize("where", ["below a file", "in /proc"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, kind: str, where: str) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "sub" if where == "below a file" else Path("/proc/hydra")
    refused(run_in(tmp_path / "home", *UNUSABLE[kind], str(folder)), str(folder))


def test_a_damaged_keystore_is_called_damaged(tmp_path: Path) -> None:
    assert run_in(tmp_path, "wallet", "new", "me").returncode == 0
    keystore = tmp_path / "keystore" / "me.json"
    keystore.write_text(keystore.read_text()[:100])
    refused(run_in(tmp_path, "balance"), str(keystore), "damaged")
    listed = run_in(tmp_path, "wallet", "list")
    assert str(keystore) in listed.stderr


def test_a_wallet_list_shows_whole_addresses(tmp_path: Path) -> None:
    assert run_in(tmp_path, "wallet", "new", "me").returncode == 0
    address = last_line(run_in(tmp_path, "wallet", "list", "--json").stdout)["items"][0]["address"]
    assert address in run_in(tmp_path, "wallet", "list", columns=80).stdout


@pytest.mark.parametrize("content", [b"\xff\xfe\x00binary", b"", b"not a key", b"0x" + b"1" * 500, b"x" * 5000])
@pytest.mark.parametrize(("option", "kind"), [("--key-file", "private key"), ("--mnemonic-file", "recovery phrase")])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes, option: str, kind: str) -> None:
    (tmp_path / "key").write_bytes(content)
    refused(run_in(tmp_path, "wallet", "import", "old", option, str(tmp_path / "key")), kind)
    refused(run_in(tmp_path, "wallet", "import", "old", option, str(tmp_path)), str(tmp_path))


def test_a_taken_name_is_said_before_a_password_is_asked(hydra: Command) -> None:
    refused(hydra("wallet", "new", "me", password=None), "exists")
