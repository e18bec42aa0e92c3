"""`mooring secret` as a person uses it."""

from __future__ import annotations

import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.command import LIMIT_SECONDS, Command

VALUE = "s3cret-välue-that-must-not-show"


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_without_setup_the_next_step_is_said(mooring: Command) -> None:
    assert "run `mooring secret setup`" in mooring.refusal("secret", "list")


def test_a_secret_is_stored_read_listed_and_deleted(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    mooring.ok("secret", "set", "token", stdin=VALUE + "\n")
    assert mooring.ok("secret", "get", "token") == VALUE + "\n"
    assert mooring.ok("secret", "list") == "token\n"
    assert json.loads(mooring.ok("secret", "list", "--format", "json")) == {"secrets": [{"name": "token"}]}
    mooring.ok("secret", "delete", "token")
    assert "there is no secret `token`" in mooring.refusal("secret", "get", "token")
    assert "there is no secret `token`" in mooring.refusal("secret", "delete", "token")


def test_no_file_holds_the_value_or_the_name_and_others_read_none(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    mooring.ok("secret", "set", "very-own-name", stdin=VALUE)
    found = files_of(mooring.home)
    assert {path.name for path in found} >= {"secrets.vault", "secrets.key"}
    for path in found:
        assert VALUE.encode() not in path.read_bytes()
        assert b"very-own-name" not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_key_file_can_lie_elsewhere_and_is_needed(mooring: Command, tmp_path: Path) -> None:
    key = tmp_path / "stick" / "mooring.key"
    mooring.ok("secret", "setup", "--key-file", str(key))
    mooring.ok("secret", "set", "a", stdin="1")
    assert mooring.ok("secret", "get", "a") == "1\n"
    key.chmod(0o644)
    assert f"chmod 600 {key}" in mooring.refusal("secret", "get", "a")
    key.unlink()
    assert f"cannot read the key file `{key}`" in mooring.refusal("secret", "get", "a")


def test_another_key_file_is_refused_as_the_wrong_one(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    mooring.ok("secret", "set", "a", stdin="1")
    (mooring.data / "secrets.key").write_text("A" * 44)
    assert "does not belong to this vault" in mooring.refusal("secret", "get", "a")


def test_a_wrong_password_is_said_and_the_right_one_opens(mooring: Command) -> None:
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "right and long"
    mooring.ok("secret", "setup", "--key", "password")
    mooring.ok("secret", "set", "a", stdin="1")
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "wrong and long"
    assert "the password is wrong" in mooring.refusal("secret", "get", "a")
    assert "the password is wrong" in mooring.refusal("secret", "set", "a", stdin="2")
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "right and long"
    assert mooring.ok("secret", "get", "a") == "1\n"


def test_without_a_terminal_the_password_variable_is_named(mooring: Command) -> None:
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "right and long"
    mooring.ok("secret", "setup", "--key", "password")
    del mooring.environment["MOORING_SECRETS_PASSWORD"]
    assert "set MOORING_SECRETS_PASSWORD" in mooring.refusal("secret", "list")


def test_a_person_may_mistype_the_password(mooring: Command) -> None:
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "right and long"
    mooring.ok("secret", "setup", "--key", "password")
    mooring.ok("secret", "set", "a", stdin="found")
    del mooring.environment["MOORING_SECRETS_PASSWORD"]
    shown = typed(mooring, ["secret", "get", "a"], ["wrong one", "right and long"])
    assert "that is not it: type it again: " in shown
    assert "found" in shown
    assert "right and long" not in shown


def test_a_password_is_asked_for_once_by_a_command_that_needs_it_often(mooring: Command) -> None:
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "right and long"
    mooring.ok("secret", "setup", "--key", "password")
    del mooring.environment["MOORING_SECRETS_PASSWORD"]
    file = mooring.home / "mcp.json"
    file.write_text(f'{{"mcpServers": {{"a": {{"command": "x", "env": {{"A_TOKEN": "{VALUE}"}}}}}}}}')
    shown = typed(mooring, ["import", str(file), "--yes"], ["right and long"] * 5)
    assert shown.count("password for your secrets: ") == 1


def test_changing_the_key_keeps_the_secrets(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    mooring.ok("secret", "set", "a", stdin="1")
    mooring.environment["MOORING_SECRETS_PASSWORD"] = "right and long"
    mooring.ok("secret", "setup", "--key", "password")
    (mooring.data / "secrets.key").unlink()
    assert mooring.ok("secret", "get", "a") == "1\n"


def test_the_keyring_holds_the_key_where_there_is_one(mooring: Command, tmp_path: Path) -> None:
    mooring.environment["PYTHON_KEYRING_BACKEND"] = "tests.support.file_keyring.FileKeyring"
    mooring.environment["FILE_KEYRING"] = str(tmp_path / "keyring.json")
    done = mooring.process("secret", "setup")
    assert "a key in the OS keyring" in done.stderr
    assert mooring.process("secret", "set", "a", stdin="1").returncode == 0
    assert mooring.process("secret", "get", "a").stdout == "1\n"
    assert not (mooring.data / "secrets.key").exists()
    assert len(json.loads((tmp_path / "keyring.json").read_text())) == 1
    (tmp_path / "keyring.json").unlink()
    assert "the OS keyring has no key" in mooring.process("secret", "get", "a").stderr


def test_without_keyring_and_terminal_a_key_file_is_made(mooring: Command) -> None:
    assert "opened by a key file" in mooring.process("secret", "setup").stderr
    assert (
        "the OS keyring cannot be used here" in mooring.process("secret", "setup", "--key", "keyring").stderr
    )


@pytest.mark.parametrize("name", ["", " a", "a,b", "a\nb", "mooring/own", "-x" * 200])
def test_names_that_are_none_are_refused(mooring: Command, name: str) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    done = mooring("secret", "set", "--", name, stdin="1")
    assert done.returncode == 1
    assert "choose another one" in done.stderr or "is no name for a secret" in done.stderr


def test_an_empty_or_binary_value_is_refused(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    assert "is empty" in mooring.refusal("secret", "set", "a", stdin="\n")
    assert "must be text" in mooring.refusal("secret", "set", "a", stdin=b"\xff\xfe")


def test_a_damaged_vault_is_said_and_left_alone(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    vault = mooring.data / "secrets.vault"
    whole = vault.read_bytes()
    vault.write_bytes(whole[: len(whole) // 2])
    assert "is damaged" in mooring.refusal("secret", "list")
    assert "is damaged" in mooring.refusal("secret", "set", "a", stdin="1")
    assert vault.read_bytes() == whole[: len(whole) // 2]


def test_the_environment_is_a_provider_that_only_reads(mooring: Command) -> None:
    mooring.environment |= {"MOORING_SECRETS_PROVIDER": "environment", "MOORING_SECRET_token": VALUE}
    assert mooring.ok("secret", "get", "token") == VALUE + "\n"
    assert mooring.ok("secret", "list") == "token\n"
    assert "set the variable MOORING_SECRET_x instead" in mooring.refusal("secret", "set", "x", stdin="1")


def test_what_the_vault_lacks_may_stand_in_the_environment(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    mooring.environment["MOORING_SECRET_token"] = VALUE
    assert mooring.ok("secret", "get", "token") == VALUE + "\n"
    mooring.ok("secret", "set", "token", stdin="mine")
    assert mooring.ok("secret", "get", "token") == "mine\n"


OP = """#!{python}
import json, sys
words = sys.argv[1:]
if words == ["whoami"]:
    print("URL: https://my.1password.com")
elif words == ["item", "list", "--format", "json"]:
    print(json.dumps([{{"id": "x1", "title": "GitHub", "vault": {{"id": "v1", "name": "Work"}}}}]))
elif words == ["read", "--no-newline", "--", "op://Work/GitHub/token"]:
    sys.stdout.write("{value}")
else:
    sys.exit("[ERROR] could not read secret: item not found")
"""


def test_1password_is_asked_through_its_command(mooring: Command, tmp_path: Path) -> None:
    """Against a stand-in that speaks the interface of `op`; the real one needs an account."""
    mooring.environment["PATH"] = f"{tmp_path / 'bin'}"
    assert "`op` is not installed" in mooring.refusal("secret", "setup", "--provider", "1password")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "op"
    program.write_text(OP.format(python=sys.executable, value=VALUE), "utf-8")
    program.chmod(0o755)
    mooring.ok("secret", "setup", "--provider", "1password")
    assert mooring.ok("secret", "list") == "Work/GitHub\n"
    assert mooring.ok("secret", "get", "Work/GitHub/token") == VALUE + "\n"
    assert mooring.ok("secret", "get", "op://Work/GitHub/token") == VALUE + "\n"
    assert "item not found" in mooring.refusal("secret", "get", "Work/GitHub/nope")
    assert "`vault/item/field`" in mooring.refusal("secret", "get", "GitHub")
    assert "only reads" in mooring.refusal("secret", "set", "a", stdin="1")


def typed(mooring: Command, words: list[str], lines: list[str]) -> str:
    """What a terminal shows while these lines are typed, each when a prompt appears."""
    terminal, inner = pty.openpty()
    process = subprocess.Popen(
        mooring.arguments(*words),
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=mooring.environment,
        cwd=mooring.home,
        start_new_session=True,
        close_fds=True,
    )
    os.close(inner)
    shown, waiting, deadline = b"", list(lines), time.monotonic() + LIMIT_SECONDS
    prompts = 0
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
            if waiting and shown.count(b": ") > prompts:
                prompts = shown.count(b": ")
                os.write(terminal, waiting.pop(0).encode() + b"\n")
        assert process.wait(LIMIT_SECONDS) == 0, shown.decode()
    finally:
        process.kill()
        process.wait(LIMIT_SECONDS)
        os.close(terminal)
    return shown.decode()
