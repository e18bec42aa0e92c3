"""`mooring import` for each kind of file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.support.command import Command

from mooring.config.loading import load
from mooring.ecosystem.importers.found import FoundServer
from mooring.ecosystem.importers.planning import (
    PlannedServer,
    as_run_config,
    plan_import,
    problems_of_run_config,
)
from mooring.ecosystem.importers.reading import read_servers
from mooring.ecosystem.importers.secrets_found import hidden, looks_secret
from mooring.workloads.runconfig import RunConfig

TOKEN = "sk-proj-0123456789abcdefghijklmnop"


def written(mooring: Command, name: str, content: Any) -> Path:
    file = mooring.home / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def servers_in(file: Path) -> dict[str, Any]:
    found = YAML(typ="safe").load(file.read_text())["servers"]
    return {each.pop("id"): each for each in found}


def imported(mooring: Command, name: str, content: Any, *words: str) -> dict[str, Any]:
    written(mooring, name, content)
    done = mooring("import", name, "--into", "new.yaml", "--yes", *words)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return servers_in(mooring.home / "new.yaml")


def test_mcp_servers_of_a_desktop_client(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    found = imported(
        mooring,
        "claude.json",
        {
            "mcpServers": {
                "Files": {"command": "npx", "args": ["-y", "server-files", "/srv"], "cwd": "/tmp"},
                "Web": {"url": "https://x/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
                "old": {"type": "sse", "url": "https://x/sse"},
                "off": {"command": "x", "disabled": True},
                "key": {
                    "command": "x",
                    "args": ["--api-key", TOKEN],
                    "env": {"LEVEL": "debug", "API_KEY": TOKEN},
                },
            }
        },
    )
    assert found == {
        "files": {"workload": {"run": ["npx", "-y", "server-files", "/srv"], "cwd": "/tmp"}},
        "web": {
            "upstream": {
                "url": "https://x/mcp",
                "transport": "auto",
                "headers": {"Authorization": "Bearer ${secret:web-Authorization}"},
            }
        },
        "old": {"upstream": {"url": "https://x/sse", "transport": "sse"}},
        "key": {
            "workload": {
                "run": ["x", "--api-key", "${secret:key-API_KEY}"],
                "env": {"LEVEL": "debug", "API_KEY": "${secret:key-API_KEY}"},
            }
        },
    }
    assert mooring.ok("secret", "get", "web-Authorization") == TOKEN + "\n"
    assert TOKEN not in (mooring.home / "new.yaml").read_text()
    config = load(
        mooring.home / "new.yaml",
        environment=mooring.environment | {"XDG_DATA_HOME": str(mooring.data.parent)},
    )
    web = next(server for server in config.servers if server.id == "web")
    assert web.upstream is not None
    assert web.upstream.headers == {"Authorization": f"Bearer {TOKEN}"}


def test_vs_code_with_its_questions(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    content = """{
      // mine
      "inputs": [{"id": "gh token", "type": "promptString", "password": true, "description": "GitHub token"}],
      "servers": {
        "gh": {"url": "https://x/mcp", "headers": {"Authorization": "Bearer ${input:gh token}"}},
        "env": {"type": "stdio", "command": "x", "env": {"A": "${env:HOME_A}"}},
        "ws": {"type": "stdio", "command": "x", "args": ["${workspaceFolder}"]},
      }
    }"""
    found = imported(mooring, "mcp.json", content)
    assert found["gh"]["upstream"]["headers"] == {"Authorization": "Bearer ${secret:gh_token}"}
    assert found["env"]["workload"]["env"] == {"A": "${HOME_A}"}
    assert "ws" not in found
    said = mooring("import", "mcp.json", "--dry-run").stderr
    assert "left out: `ws` uses `${workspaceFolder}`" in said


def test_codex(mooring: Command) -> None:
    mooring.ok("secret", "setup", "--key", "file")
    content = f"""
model = "x"
[mcp_servers.docs]
command = "uvx"
args = ["docs"]
env = {{ DOCS_TOKEN = "{TOKEN}" }}
[mcp_servers.web]
url = "https://x/mcp"
bearer_token_env_var = "WEB_TOKEN"
http_headers = {{ X-Region = "eu" }}
[mcp_servers.off]
command = "x"
enabled = false
"""
    assert imported(mooring, "config.toml", content) == {
        "docs": {"workload": {"run": ["uvx", "docs"], "env": {"DOCS_TOKEN": "${secret:docs-DOCS_TOKEN}"}}},
        "web": {
            "upstream": {
                "url": "https://x/mcp",
                "transport": "auto",
                "headers": {"X-Region": "eu", "Authorization": "Bearer ${WEB_TOKEN}"},
            }
        },
    }


def test_a_remote_mcp_adapter(mooring: Command) -> None:
    content = """
core: {port: 8932}
servers:
  - id: browser
    mount_path: /browser
    upstream: {url: "http://b:8931/mcp", transport: streamable_http, insecure_tls: true}
    disabled_tools: [browser_install]
    adapters: [{type: upload_consumer, tools: [browser_file_upload], file_path_argument: paths}]
"""
    written(mooring, "config.yaml", content)
    done = mooring("import", "config.yaml", "--into", "new.yaml", "--yes")
    assert servers_in(mooring.home / "new.yaml") == {
        "browser": {
            "upstream": {"url": "http://b:8931/mcp", "transport": "streamable_http"},
            "adapters": [
                {"type": "upload_consumer", "tools": ["browser_file_upload"], "file_path_argument": "paths"}
            ],
            "tools": {"deny": ["browser_install"]},
        }
    }
    assert "`upstream.insecure_tls` is not taken over" in done.stderr
    assert "only `servers` is imported, not `core`" in done.stderr
    assert "it was at `/browser`" in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("zed.json", {"context_servers": {"a": {"command": {"path": "x", "args": ["y"]}}}}, ["x", "y"]),
        (
            "opencode.json",
            {"mcp": {"a": {"type": "local", "command": ["x", "y"], "enabled": True}}},
            ["x", "y"],
        ),
        (
            "goose.yaml",
            "extensions:\n  a: {type: stdio, cmd: x, args: [y]}\n  b: {type: builtin}\n",
            ["x", "y"],
        ),
        ("continue.yaml", "mcpServers:\n  - name: a\n    command: x\n    args: [y]\n", ["x", "y"]),
    ],
)
def test_other_clients(mooring: Command, name: str, content: Any, command: list[str]) -> None:
    assert imported(mooring, name, content) == {"a": {"workload": {"run": command}}}


def test_what_is_there_already_keeps_its_name_and_its_lines(mooring: Command) -> None:
    written(mooring, "mcp.json", {"mcpServers": {"notes": {"command": "other"}}})
    before = (mooring.home / "mooring.yaml").read_text()
    mooring.ok("import", "mcp.json", "--yes")
    after = (mooring.home / "mooring.yaml").read_text()
    assert after.startswith(before)
    assert list(servers_in(mooring.home / "mooring.yaml")) == ["notes", "clock", "notes-2"]


def test_a_dry_run_changes_nothing_and_the_plan_has_no_secrets(mooring: Command) -> None:
    written(mooring, "mcp.json", {"mcpServers": {"a": {"command": "x", "env": {"TOKEN": TOKEN}}}})
    before = (mooring.home / "mooring.yaml").read_text()
    done = mooring("import", "mcp.json", "--dry-run", "--format", "json")
    assert TOKEN not in done.stdout + done.stderr
    [server] = json.loads(done.stdout)["servers"]
    assert server["secrets"] == [{"name": "a-TOKEN", "from": "variable `TOKEN`"}]
    assert (mooring.home / "mooring.yaml").read_text() == before


def test_without_a_secret_store_nothing_with_secrets_is_imported(mooring: Command) -> None:
    written(mooring, "mcp.json", {"mcpServers": {"a": {"command": "x", "env": {"TOKEN": TOKEN}}}})
    before = (mooring.home / "mooring.yaml").read_text()
    assert "run `mooring secret setup` first" in mooring("import", "mcp.json", "--yes").stderr
    assert (mooring.home / "mooring.yaml").read_text() == before


def test_only_the_named_servers_and_a_client_by_its_id(mooring: Command) -> None:
    (mooring.home / ".cursor").mkdir()
    written(mooring, ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    mooring.ok("import", "cursor", "--into", "new.yaml", "--only", "b", "--yes")
    assert list(servers_in(mooring.home / "new.yaml")) == ["b"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "holds no servers"),
        ('{"mcpServers": {}}', "nothing to import"),
        ('{"mcpServers": {"a": {}}}', "nothing to import"),
    ],
)
def test_a_file_without_servers_is_said(mooring: Command, content: str, said: str) -> None:
    written(mooring, "mcp.json", content)
    assert said in mooring("import", "mcp.json", "--yes").stderr
    assert "there is no file `nope.json`" in mooring.refusal("import", "nope.json")


# ---------------------------------------------------------------- what a secret is, and RunConfigs


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", "x", True),
        ("API_KEY", "abc", True),
        ("DATABASE_URL", "postgres://u:p@h/d", True),
        ("X", "ghp_0123456789abcdefghij", True),
        ("X", "0123456789abcdef0123456789abcdef", True),
        ("LOG_LEVEL", "debug", False),
        ("AUTH_ENABLED", "true", False),
        ("TOKEN_FILE", "/run/secrets/token", False),
        ("TOKEN", "${TOKEN}", False),
        ("HOME", "/home/somebody", False),
        ("KEYBOARD", "de", False),
    ],
)
def test_what_looks_secret(name: str, value: str, secret: bool) -> None:
    assert looks_secret(name, value) is secret


@pytest.mark.parametrize(
    "line",
    [
        f'  "env": {{"MY_TOKEN": "{TOKEN}"}}',
        f"  api_key: {TOKEN}",
        f"token = '{TOKEN}'",
        f'  "args": ["--password", "hunter2-{TOKEN}"]',
        f'"url": "https://u:{TOKEN}@h/"',
        f"+ run: [x, --token={TOKEN}]",
    ],
)
def test_secrets_are_hidden_in_what_is_shown(line: str) -> None:
    assert TOKEN not in hidden(line)
    assert "********" in hidden(line)


def run_configs(content: Any) -> dict[str, dict[str, Any]]:
    plan = plan_import(read_servers(json.dumps(content), "mcp.json"), (), (), whole_headers=True)
    assert [problem for server in plan.servers for problem in problems_of_run_config(server)] == []
    return {server.id: as_run_config(server) for server in plan.servers}


def test_the_daemon_gets_run_configs_that_name_secrets(tmp_path: Path) -> None:
    made = run_configs(
        {
            "mcpServers": {
                "files": {
                    "command": "npx",
                    "args": ["-y", "@x/files", str(tmp_path)],
                    "env": {"T_KEY": TOKEN, "A": "b"},
                },
                "own": {"command": "/opt/tool", "args": ["serve"]},
                "web": {"url": "https://x/mcp", "headers": {"Authorization": f"Bearer {TOKEN}", "X": "y"}},
            }
        }
    )
    assert TOKEN not in json.dumps(made)
    files, own, web = (RunConfig.read(made[name]) for name in ("files", "own", "web"))
    assert files.fields.image == "npx://@x/files"
    assert files.fields.cmd_args == [str(tmp_path)]
    assert files.fields.permission_profile is not None
    assert files.fields.permission_profile["write"] == [str(tmp_path)]
    assert (files.secret_targets, files.fields.env_vars) == ({"T_KEY": "files-T_KEY"}, {"A": "b"})
    assert own.fields.mooring.command == ["/opt/tool", "serve"]
    assert web.fields.header_forward.add_headers_from_secret == {"Authorization": "web-Authorization"}
    assert web.fields.header_forward.add_plaintext_headers == {"X": "y"}


def test_a_variable_of_the_environment_is_not_given_to_the_daemon_unfilled() -> None:
    server = FoundServer("a", ("x",), env={"T": "${MY_T}"})
    assert "takes `T` from the environment" in problems_of_run_config(PlannedServer("a", server, ()))[0]


def test_a_secret_among_arguments_is_not_given_to_the_daemon() -> None:
    server = FoundServer("a", ("x", "--token", "${secret:t}"))
    assert "among its arguments" in problems_of_run_config(PlannedServer("a", server, ()))[0]
