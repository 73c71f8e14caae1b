import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hydra_node.chain.secrets import BadSecret, SecretExists, SecretStore

REVEAL = {"round": 12, "root": bytes(range(32)), "total": 10**30, "evidence": "bafy", "salt": b"\xff" * 32}


def test_a_pending_reveal_is_there_after_a_restart(tmp_path: Path) -> None:
    SecretStore(tmp_path / "secrets").put("round-12", REVEAL)
    again = SecretStore(tmp_path / "secrets")
    assert again.get("round-12") == REVEAL
    assert again.pending("round-") == {"round-12": REVEAL}
    assert again.pending("job-") == {}


def test_a_kill_right_after_put_loses_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, pathlib\n"
        "from hydra_node.chain.secrets import SecretStore\n"
        "SecretStore(pathlib.Path(sys.argv[1])).put('round-1', {'salt': b'0' * 32})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert SecretStore(tmp_path).get("round-1") == {"salt": b"0" * 32}


def test_an_interrupted_write_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SecretStore(tmp_path)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put("round-1", REVEAL)
    assert store.pending() == {}
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    SecretStore(tmp_path / "secrets").put("round-12", REVEAL)
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    for file in (tmp_path / "secrets").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_salt_in_use_is_never_overwritten(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.put("round-12", REVEAL)
    store.put("round-12", REVEAL)
    with pytest.raises(SecretExists, match="round-12"):
        store.put("round-12", REVEAL | {"salt": b"\0" * 32})
    assert store.get("round-12") == REVEAL


def test_a_revealed_secret_is_forgotten(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "secrets")
    store.delete("round-12")
    store.put("round-12", REVEAL)
    store.delete("round-12")
    assert store.get("round-12") is None
    assert store.pending() == {}


@pytest.mark.parametrize("key", ["", "../round", "a/b", ".x", "k" * 129])
def test_keys_cannot_leave_the_directory(tmp_path: Path, key: str) -> None:
    with pytest.raises(BadSecret, match="cannot name a secret"):
        SecretStore(tmp_path).put(key, REVEAL)


def test_damage_is_named_not_taken_for_absence(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.put("round-12", REVEAL)
    next(tmp_path.iterdir()).write_bytes(b'{"salt": {"hex": "zz"}}')
    with pytest.raises(BadSecret, match="damaged"):
        store.get("round-12")


def test_salts_differ() -> None:
    salts = {SecretStore.new_salt() for _ in range(100)}
    assert len(salts) == 100
    assert {len(salt) for salt in salts} == {32}
