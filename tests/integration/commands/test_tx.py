"""`hydra-node tx`: what was sent can be seen and, while it waits, replaced."""

from __future__ import annotations

import json

from commands_world import Command


def test_what_was_sent_is_listed_and_shown(hydra: Command) -> None:
    before = json.loads(hydra("tx", "list", "--json").stdout)["items"]
    assert hydra("stake", "1 HYDRA", "--yes").returncode == 0
    items = json.loads(hydra("tx", "list", "--json").stdout)["items"]
    newest = items[-1]
    assert len(items) > len(before)
    assert (newest["what"], newest["state"], newest["reason"]) == ("StakeManager.stake", "final", "")
    shown = json.loads(hydra("tx", "show", str(newest["number"]), "--json").stdout)
    assert shown["nonce"] == newest["nonce"]
    assert shown["hashes"][0].startswith("0x")
    assert "StakeManager.stake" in hydra("tx", "list").stdout


def test_a_refusal_is_kept_with_its_reason(hydra: Command) -> None:
    refused = hydra("unstake", "999999 HYDRA")
    assert refused.returncode == 2
    newest = json.loads(hydra("tx", "list", "--json").stdout)["items"][-1]
    assert newest["state"] == "failed"
    assert newest["nonce"] is None
    assert "stake" in newest["reason"]


def test_what_is_mined_is_neither_bumped_nor_cancelled(hydra: Command) -> None:
    assert hydra("stake", "1 HYDRA", "--yes").returncode == 0
    number = json.loads(hydra("tx", "list", "--json").stdout)["items"][-1]["number"]
    for command in ("bump", "cancel"):
        done = hydra("tx", command, str(number), "--yes")
        assert done.returncode == 2
        assert f"transaction number {number} is final" in done.stderr


def test_unknown_numbers_and_prices_are_named(hydra: Command) -> None:
    assert "no transaction number 4711" in hydra("tx", "show", "4711").stderr
    done = hydra("tx", "bump", "1", "--max-fee", "cheap", "--yes")
    assert done.returncode == 2
    assert "is not a price of gas" in done.stderr
