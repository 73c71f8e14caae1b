"""A contributor that is stopped while it waits for the reveals ends at once, and goes on when it is started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from commands_world import PASSWORD, Command, run_in
from sklearn.datasets import load_digits

pytestmark = pytest.mark.slow
Event = dict[str, Any]


@contextlib.contextmanager
def started(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`hydra-node` running beside the test; whatever happens, it is gone afterwards."""
    command = [sys.executable, "-m", "hydra_node", *arguments, "--json", "--yes"]
    environment = {**os.environ, "HYDRA_HOME": str(home), "HYDRA_PASSWORD": PASSWORD}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def until(stream: IO[str] | None, kind: str) -> list[Event]:
    """The events up to the first of that kind."""
    assert stream is not None
    seen: list[Event] = []
    for line in stream:
        seen.append(json.loads(line))
        if seen[-1]["event"] == kind:
            return seen
    raise AssertionError(f"ended without {kind}: {seen}")


def save(path: Path, start: int, end: int) -> str:
    digits = load_digits()
    np.savez(path, X=digits.images[start:end].astype(np.uint8), y=digits.target[start:end])
    return str(path)


@pytest.fixture
def campaign(home: Path, hydra: Command, tmp_path: Path) -> Iterator[str]:
    """An open campaign, served by its sponsor, whose reveals are far away."""
    hydra("wallet", "new", "sponsor")
    hydra("devnet", "fund", "sponsor")
    reference = save(tmp_path / "reference.npz", 0, 100)
    arguments = ("campaign", "create", "--wallet", "sponsor", "--reference", reference, "--reward", "100 HYDRA")
    with started(home, *arguments, "--commit-seconds", "45", "--scale", "16") as sponsor:
        yield str(until(sponsor.stdout, "campaign_created")[-1]["campaign"])


@pytest.mark.timeout(240)
def test_stopped_before_the_reveal_it_ends_at_once_and_goes_on_when_started_again(
    home: Path, hydra: Command, campaign: str, tmp_path: Path
) -> None:
    data = save(tmp_path / "data.npz", 100, 150)
    command = ("data", "submit", "--campaign", campaign, "--file", data)
    with started(home, *command) as contributor:
        submission = until(contributor.stdout, "committed")[-1]["submission"]
        second = hydra(*command, "--yes")
        assert second.returncode == 2 and "another process runs a node in" in second.stderr
        contributor.send_signal(signal.SIGINT)
        assert contributor.wait(15) == 130
        assert contributor.stderr is not None and contributor.stderr.read() == ""
    with started(home, *command) as contributor:
        assert until(contributor.stdout, "resumed")[-1]["submission"] == submission
        contributor.kill()
    with started(home, *command, "--no-wait") as contributor:
        events = until(contributor.stdout, "not_serving")
        assert [event["event"] for event in events] == ["resumed", "revealed", "not_serving"]
        assert contributor.wait(30) == 0
    listed = json.loads(hydra("data", "status", "--json").stdout)["items"]
    assert [(item["submission"], item["state"], item["items"]) for item in listed] == [(submission, "revealed", 50)]


@pytest.mark.timeout(120)
def test_stopped_while_the_chain_is_gone_it_ends_within_seconds(tmp_path: Path) -> None:
    """It is asking for the next job, patiently, and nobody answers."""
    chain = run_in(tmp_path, "devnet", "up", "--port", "0", "--json")
    try:
        assert run_in(tmp_path, "wallet", "new", "me").returncode == 0
        assert run_in(tmp_path, "devnet", "fund", "me").returncode == 0
        with started(tmp_path, "stake-and-train", "--stake", "100 HYDRA") as trainer:
            until(trainer.stdout, "waiting")
            status = json.loads(run_in(tmp_path, "devnet", "status", "--json").stdout)
            os.kill(status["pid"], signal.SIGKILL)
            with pytest.raises(subprocess.TimeoutExpired):
                trainer.wait(4)
            trainer.send_signal(signal.SIGINT)
            assert trainer.wait(15) == 130
    finally:
        run_in(tmp_path, "devnet", "down")
    assert chain.returncode == 0
