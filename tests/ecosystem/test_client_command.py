"""`mooring client` on files as people have them."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Command

from mooring.ecosystem.clients import editing
from mooring.ecosystem.clients.editing import ClientFileError, Edit
from mooring.ecosystem.documents.editing import Section, entries

JSON = Section("json", "mcpServers")
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
NOTES = {"type": "http", "url": "http://127.0.0.1:7433/mcp/notes"}


def cursor(mooring: Command, content: str | bytes | None = None) -> Path:
    file = mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def _read(file: Path) -> dict[str, Any]:
    return entries(editing.read_text(file), JSON)


def files_that_hold(folder: Path, secret: str) -> list[Path]:
    """Files with the secret in them, plain or inside something written in base64."""
    parts = [secret.encode()]
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + secret.encode())
        # The first and last characters also depend on what stands beside it.
        parts.append(coded[4:-4])
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(part in path.read_bytes() for part in parts)]


def test_status_shows_who_is_here_and_registered(mooring: Command) -> None:
    assert "no client was found here" in mooring("client", "status").stderr
    cursor(mooring)
    assert "cursor" in mooring.ok("client", "status")
    mooring.ok("client", "register", "cursor", "--yes")
    [row] = json.loads(mooring.ok("client", "status", "--format", "json"))["clients"]
    assert (row["id"], row["installed"], row["registered"], row["entries"]) == (
        "cursor",
        True,
        True,
        ["clock", "notes"],
    )
    assert len(json.loads(mooring.ok("client", "status", "--all", "--format", "json"))["clients"]) == 26


def test_nothing_is_written_before_the_change_was_shown_and_confirmed(mooring: Command) -> None:
    file = cursor(mooring, '{"mcpServers": {}}')
    shown = mooring("client", "register", "cursor", "--dry-run")
    assert (shown.returncode, file.read_text()) == (0, '{"mcpServers": {}}')
    assert '"notes": {' in shown.stderr
    assert "add --yes" in mooring("client", "register", "cursor").stderr
    assert file.read_text() == '{"mcpServers": {}}'


@pytest.mark.parametrize(
    "content",
    [
        '{\r\n\t"mcpServers": {\r\n\t\t"x": {"command": "y"} // mine\r\n\t}\r\n}\r\n',
        '\ufeff{\n  "theme": "dark", /* c */\n}\n',
        "",
        "// nothing yet\n",
        '{"mcpServers": {"a": {"command": "b"},},}',
    ],
    ids=["crlf", "bom", "empty", "comment", "one-line"],
)
def test_undo_restores_byte_for_byte(mooring: Command, content: str) -> None:
    file = cursor(mooring, content)
    file.chmod(0o640)
    mooring.ok("client", "register", "cursor", "--yes")
    assert _read(file)["notes"] == NOTES
    assert file.read_bytes().startswith(b"\xef\xbb\xbf") == content.startswith("\ufeff")
    if "\r\n" in content:
        assert b"\n" not in file.read_bytes().replace(b"\r\n", b"")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    mooring.ok("client", "remove", "cursor", "--yes")
    assert "notes" not in _read(file)
    mooring.ok("client", "undo", "cursor")
    assert _read(file)["notes"] == NOTES
    mooring.ok("client", "undo", "cursor")
    assert file.read_bytes() == content.encode()
    assert "nothing of ours can be undone" in mooring.refusal("client", "undo", "cursor")


def test_what_somebody_added_since_survives_an_undo(mooring: Command) -> None:
    file = cursor(mooring, '{\n  "mcpServers": {\n    "x": {}\n  }\n}\n')
    mooring.ok("client", "register", "cursor", "--yes")
    file.write_text(file.read_text().replace('"x": {}', '"x": {"command": "new"}'))
    mooring.ok("client", "undo", "cursor")
    assert file.read_text() == '{\n  "mcpServers": {\n    "x": {"command": "new"}\n  }\n}\n'


def test_an_undo_that_would_lose_something_is_refused(mooring: Command) -> None:
    file = cursor(mooring)
    mooring.ok("client", "register", "cursor", "--yes")
    file.write_text(file.read_text().replace("7433", "7434"))
    assert "was changed since" in mooring.refusal("client", "undo", "cursor")
    assert "7434" in file.read_text()


def test_a_link_stays_a_link_and_its_file_is_changed(mooring: Command) -> None:
    file = cursor(mooring)
    real = mooring.home / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_text("{}")
    file.symlink_to("../dotfiles/cursor.json")
    mooring.ok("client", "register", "cursor", "--yes")
    assert file.is_symlink()
    assert _read(real)["notes"] == NOTES
    mooring.ok("client", "undo", "cursor")
    assert (file.is_symlink(), real.read_text()) == (True, "{}")


def test_a_read_only_or_broken_file_is_left_alone(mooring: Command) -> None:
    file = cursor(mooring, "{}")
    file.chmod(0o444)
    assert "is read-only" in mooring("client", "register", "cursor", "--yes").stderr
    file.chmod(0o644)
    file.write_text('{"mcpServers": {')
    assert "is not JSON: line 1" in mooring.refusal("client", "register", "cursor", "--yes")
    file.write_bytes(b"\xff\xfe{\x00}\x00")
    assert "is not UTF-8" in mooring.refusal("client", "register", "cursor", "--yes")
    assert file.read_bytes() == b"\xff\xfe{\x00}\x00"
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]


def test_somebody_else_s_entry_of_the_same_name_is_not_overwritten(mooring: Command) -> None:
    file = cursor(mooring, '{"mcpServers": {"notes": {"command": "mine"}}}')
    assert "entries of its own named `notes`" in mooring.refusal("client", "register", "cursor", "--yes")
    mooring.ok("client", "register", "cursor", "--yes", "--replace")
    assert _read(file)["notes"] == NOTES
    mooring.ok("client", "undo", "cursor")
    assert _read(file) == {"notes": {"command": "mine"}}


def test_an_overwritten_entry_with_a_token_is_kept_for_undo_but_not_in_the_open(mooring: Command) -> None:
    content = json.dumps({"mcpServers": {"notes": {"command": "x", "env": {"API_TOKEN": TOKEN}}}})
    file = cursor(mooring, content)
    words = ("client", "register", "cursor", "--yes", "--replace")
    assert "the secret store is needed" in mooring.refusal(*words)
    assert file.read_text() == content
    mooring.ok("secret", "setup", "--key", "file")
    mooring.ok(*words)
    assert files_that_hold(mooring.home, TOKEN) == []
    mooring.ok("client", "undo", "cursor")
    assert file.read_text() == content


@pytest.mark.parametrize(
    "old",
    [
        {"url": "http://localhost:7433/mcp/notes/sse", "type": "sse", "disabled": True},
        {"serverUrl": "http://127.0.0.1:7433/mcp/notes", "disabled": True},
        {"command": "mooring", "args": ["proxy", "stdio", "notes"], "disabled": True},
    ],
    ids=["sse", "other-key", "stdio"],
)
def test_entries_of_an_older_version_are_migrated_and_keep_what_was_added(
    mooring: Command, old: dict[str, Any]
) -> None:
    file = cursor(mooring, json.dumps({"mcpServers": {"my notes": old}}))
    done = mooring("client", "register", "cursor", "--yes", "--server", "notes")
    assert "brought up to date" in done.stderr
    assert _read(file) == {"my notes": {**NOTES, "disabled": True}}


def test_a_foreign_server_on_this_machine_is_not_taken_for_ours(mooring: Command) -> None:
    foreign = {"url": "http://127.0.0.1:9000/mcp/other"}
    file = cursor(mooring, json.dumps({"mcpServers": {"other": foreign}}))
    mooring.ok("client", "register", "cursor", "--yes")
    mooring.ok("client", "remove", "cursor", "--yes")
    assert _read(file) == {"other": foreign}


def test_setup_registers_every_client_that_is_found(mooring: Command) -> None:
    for folder in (".cursor", ".codex", ".continue", ".config/Claude", ".claude"):
        (mooring.home / folder).mkdir(parents=True)
    (mooring.home / ".codex" / "config.toml").write_text('model = "x" # mine\n')
    mooring.ok("client", "setup", "--yes", "--server", "notes")
    listed = json.loads(mooring.ok("client", "status", "--format", "json"))["clients"]
    assert {row["id"] for row in listed if row["entries"] == ["notes"]} == {
        "claude-code",
        "claude-desktop",
        "codex",
        "continue",
        "cursor",
    }
    assert (
        (mooring.home / ".codex" / "config.toml").read_text().startswith('model = "x" # mine\n\n[mcp_servers')
    )
    desktop = json.loads((mooring.home / ".config/Claude/claude_desktop_config.json").read_text())
    words = desktop["mcpServers"]["notes"]["args"]
    assert words == ["proxy", "stdio", "notes", "--config", str(mooring.home / "mooring.yaml")]


def test_a_group_that_is_not_there_is_said(mooring: Command) -> None:
    file = cursor(mooring)
    for words in (("register", "cursor"), ("setup",)):
        said = mooring.refusal("client", *words, "--group", "wrok", "--yes")
        assert "no server is in a group called `wrok`; there are: `default`" in said
    assert not file.exists()


def test_without_a_gateway_the_file_says_which_servers_are_in_a_group_and_how_they_are_known(
    mooring: Command,
) -> None:
    file = cursor(mooring)
    (mooring.home / "mooring.yaml").write_text(
        "mooring: 1\nservers:\n"
        "  - id: notes\n    group: work\n    upstream: {url: 'http://127.0.0.1:9/mcp'}\n"
        "  - id: clock\n    run_config: {image: 'uvx://clock', proxy_mode: sse, group: work}\n"
        "  - id: other\n    upstream: {url: 'http://127.0.0.1:9/mcp'}\n"
    )
    mooring.ok("client", "register", "cursor", "--group", "work", "--yes")
    clock = {"type": "sse", "url": "http://127.0.0.1:7433/mcp/clock/sse"}
    assert _read(file) == {"notes": NOTES, "clock": clock}


def test_unknown_names_are_said(mooring: Command) -> None:
    cursor(mooring)
    said = mooring.refusal("client", "register", "cursr", "--yes")
    assert "`cursr` is no client we know: did you mean `cursor`?" in said
    assert "there are: `clock`, `notes`" in mooring.refusal(
        "client", "register", "cursor", "--yes", "--server", "x"
    )
    assert "add --create" in mooring.refusal("client", "register", "zed", "--yes")


def test_a_client_s_servers_are_taken_over_and_given_back(mooring: Command) -> None:
    original = (
        '{\n  // my servers\n  "mcpServers": {\n    "My GitHub": {"command": "npx", "args": ["-y", "gh"], '
        f'"env": {{"GITHUB_TOKEN": "{TOKEN}"}}}}\n  }}\n}}\n'
    )
    file = cursor(mooring, original)
    configuration = (mooring.home / "mooring.yaml").read_text()
    assert "run `mooring secret setup` first" in mooring("client", "take-over", "cursor", "--yes").stderr
    mooring.ok("secret", "setup", "--key", "file")
    done = mooring("client", "take-over", "cursor", "--yes")
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert _read(file) == {"My GitHub": {"type": "http", "url": "http://127.0.0.1:7433/mcp/my-github"}}
    assert "${secret:my-github-GITHUB_TOKEN}" in (mooring.home / "mooring.yaml").read_text()
    assert mooring.ok("secret", "get", "my-github-GITHUB_TOKEN") == TOKEN + "\n"
    assert files_that_hold(mooring.home, TOKEN) == []
    mooring.ok("client", "give-back", "cursor")
    assert file.read_text() == original
    assert (mooring.home / "mooring.yaml").read_text() == configuration
    assert "nothing was taken over" in mooring.refusal("client", "give-back", "cursor")


def test_servers_are_given_back_also_after_other_changes(mooring: Command) -> None:
    file = cursor(mooring, '{"mcpServers": {"a": {"command": "x"}}}')
    mooring.ok("client", "take-over", "cursor", "--yes")
    file.write_text(file.read_text()[:-2] + ', "b": {"command": "new"}}}')
    mooring.ok("client", "give-back", "cursor")
    assert _read(file) == {"a": {"command": "x"}, "b": {"command": "new"}}


WRITER = """
import sys
from pathlib import Path
from mooring.ecosystem.clients.editing import Edit, apply
from mooring.ecosystem.documents.editing import Section
for number in range(15):
    apply(Path(sys.argv[1]), Section("json", "mcpServers"), Edit({f"{sys.argv[2]}{number}": {"url": "u"}}))
"""


def test_two_processes_that_edit_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), prefix]) for prefix in ("a", "b", "c")
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert set(_read(file)) == {f"{prefix}{number}" for prefix in "abc" for number in range(15)}


def test_what_an_editor_saves_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """The editor knows no locks; it saves between our reading and our writing, a few times."""
    file = tmp_path / "mcp.json"
    file.write_text('{"saved": 0}')
    saves = [1, 2, 3]

    def save_meanwhile(_: object) -> None:
        if saves:
            file.write_text(json.dumps({"saved": saves.pop(0)}))

    editing.apply(file, JSON, Edit({"notes": NOTES}), save_meanwhile)
    assert json.loads(file.read_text()) == {"saved": 3, "mcpServers": {"notes": NOTES}}


def test_an_editor_that_never_stops_saving_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{}")
    count = iter(range(1000))

    def save_again(_: object) -> None:
        file.write_text(f'{{"n": {next(count)}}}')

    with pytest.raises(ClientFileError, match="keeps writing"):
        editing.apply(file, JSON, Edit({"notes": NOTES}), save_again)


def test_a_locked_folder_is_waited_for(tmp_path: Path) -> None:
    import fcntl

    file = tmp_path / "mcp.json"
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    worker = threading.Thread(target=lambda: editing.apply(file, JSON, Edit({"notes": NOTES})))
    worker.start()
    worker.join(0.2)
    assert worker.is_alive()
    assert not file.exists()
    os.close(holder)
    worker.join(20)
    assert _read(file) == {"notes": NOTES}
