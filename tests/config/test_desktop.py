"""`mcpServers` files of desktop clients, given to the gateway as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.config.loading import ConfigError, Loaded, load_with_notes


def loaded(folder: Path, content: Any) -> Loaded:
    file = folder / "mcp.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_with_notes(file, environment={"TOKEN": "t"})


def refusal(folder: Path, content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, content)
    return str(caught.value)


def test_commands_become_processes_and_urls_become_upstreams(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "server", "."], "env": {"A": "1"}},
                "web": {
                    "type": "http",
                    "url": "https://x/mcp",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
                "old": {"type": "sse", "url": "https://x/sse"},
            }
        },
    )
    files, web, old = found.config.servers
    assert files.workload is not None
    assert (files.id, files.workload.run, files.workload.env) == (
        "files",
        ["npx", "-y", "server", "."],
        {"A": "1"},
    )
    assert files.workload.cwd == tmp_path
    assert web.upstream is not None
    assert (web.upstream.transport, web.upstream.headers) == ("auto", {"Authorization": "Bearer t"})
    assert old.upstream is not None
    assert old.upstream.transport == "sse"


def test_the_person_is_told_what_the_sandbox_lets_through(tmp_path: Path) -> None:
    entry = {"command": "x", "args": [str(tmp_path), "/no/such/folder", "--flag"]}
    found = loaded(tmp_path, {"mcpServers": {"a": entry, "b": {"url": "http://x"}}})
    (note,) = found.notes
    assert f"`a` runs in a sandbox that sees the internet and {tmp_path};" in note
    assert found.config.servers[0].workload is not None
    profile = found.config.servers[0].workload.permission_profile
    assert profile is not None
    assert profile.write == (str(tmp_path),)
    assert profile.network.outbound.insecure_allow_all


def test_names_become_ids_that_fit_in_a_url_and_stay_apart(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        {
            "mcpServers": {
                "My Server": {"url": "http://x"},
                "my-server": {"url": "http://y"},
                "💡": {"url": "http://z"},
            }
        },
    )
    assert [server.id for server in found.config.servers] == ["my-server", "my-server-2", "server"]
    assert "`My Server` is served as `my-server`" in found.notes


def test_a_disabled_entry_is_left_out_and_said_so(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"mcpServers": {"a": {"command": "x", "disabled": True}}})
    assert found.config.servers == []
    assert found.notes == ("`a` is disabled in the file and was left out",)


def test_the_vs_code_spelling_with_comments_is_understood(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, '{\n // mine\n "servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}'
    )
    assert [server.id for server in found.config.servers] == ["a"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "x", "url": "http://x"}, "needs exactly one of `command` and `url`"),
        ({}, "needs exactly one of `command` and `url`"),
        ("x", "must be an object"),
        ({"command": "x", "args": "y"}, "`args` as a list"),
        ({"command": "x", "sandbox": {}}, "`mcpServers.a.sandbox` is not a key this version knows"),
        ({"command": "x", "type": "http"}, "must be `stdio`"),
        ({"url": "http://x", "type": "stdio"}, "must be `http` or `sse`"),
        ({"command": "x", "env": {"K": "${input:key}"}}, "`mcpServers.a.env.K` uses `${input:key}`"),
        ({"command": "x", "env": {"K": "${NOPE}"}}, "needs the environment variable `NOPE`"),
        ({"url": "ftp://x"}, "must start with `http://`"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(tmp_path: Path, entry: Any, said: str) -> None:
    assert said in refusal(tmp_path, {"mcpServers": {"a": entry}})


def test_a_typo_is_said_in_the_words_of_the_file_and_nothing_else(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"mcpServers": {"a": {"comand": "x"}}})
    assert (
        "`mcpServers.a.comand` is not a key this version knows in such a file: did you mean `command`?"
        in said
    )
    assert "servers[0]" not in said


def test_data_is_not_kept_in_the_folder_of_the_client(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {}}')
    found = load_with_notes(file, environment={"XDG_DATA_HOME": str(tmp_path / "share")})
    assert found.config.storage.root == tmp_path / "share" / "mooring"
