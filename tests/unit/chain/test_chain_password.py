from pathlib import Path

import pytest

from hydra_node.chain.password import Password, PasswordMissing, read_password


def test_a_file_wins_over_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from the file\n")
    assert read_password(file, environment={"HYDRA_PASSWORD": "other"}) == "from the file"
    assert read_password(environment={"HYDRA_PASSWORD_FILE": str(file), "HYDRA_PASSWORD": "other"}) == "from the file"


def test_only_the_line_break_at_the_end_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b" two words \r\n")
    assert read_password(file, environment={}) == " two words "


def test_the_environment_wins_over_the_prompt() -> None:
    def ask(prompt: str) -> str:
        raise AssertionError(f"asked {prompt}")

    assert read_password(environment={"HYDRA_PASSWORD": "variable"}, ask=ask) == "variable"


def test_a_new_password_is_asked_for_twice() -> None:
    answers = iter(["one", "one", "one", "two"])
    assert read_password(environment={}, ask=lambda prompt: next(answers), confirm=True) == "one"
    with pytest.raises(PasswordMissing, match="differ"):
        read_password(environment={}, ask=lambda prompt: next(answers), confirm=True)


def test_without_any_source_the_error_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(PasswordMissing, match="HYDRA_PASSWORD_FILE"):
        read_password(environment={})


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * 5000])
def test_a_file_without_a_usable_password_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(PasswordMissing, match="password"):
        read_password(file, environment={})
    with pytest.raises(PasswordMissing, match="cannot be read"):
        read_password(tmp_path / "nowhere", environment={})


def test_a_password_is_hidden_where_values_are_shown() -> None:
    assert "hunter2" not in repr(Password("hunter2"))
    assert "hunter2" not in repr({"password": Password("hunter2")})
    assert Password("hunter2").encode() == b"hunter2"
