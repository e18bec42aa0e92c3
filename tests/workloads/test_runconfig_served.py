"""`mooring serve` takes a RunConfig as it is, and a RunConfig as one server of a file among others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Journal, running_gateway, scripted_command
from tests.support.peers import StreamablePeer

from mooring.config.loading import ConfigError, load_with_notes

COMMAND: dict[str, Any] = {"command": [sys.executable, "server.py"], "sandbox": "off"}


def loaded(folder: Path, name: str, text: str) -> Any:
    (folder / name).write_text(text)
    return load_with_notes(folder / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "x.json",
            '{"schema_version": "v0.1.0", "image": "uvx://mcp-server-time", "name": "time", "port": 1}',
        ),
        ("x.yaml", "schemaVersion: v0.1.0\nimage: uvx://mcp-server-time\nname: time\nport: 1\n"),
    ],
)
def test_a_run_config_is_served_under_its_own_name(tmp_path: Path, name: str, text: str) -> None:
    found = loaded(tmp_path, name, text)
    [server] = found.config.servers
    assert (server.id, server.run_config["image"]) == ("time", "uvx://mcp-server-time")
    assert found.notes == ()


def test_what_mooring_exported_itself_is_one_too(tmp_path: Path) -> None:
    text = json.dumps({"schema_version": "v0.1.0", "name": "own", "mooring": COMMAND})
    [server] = loaded(tmp_path, "own.json", text).config.servers
    assert server.id == "own"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"schema_version": "v9", "image": "x"}, "only v0.1.0 is known"),
        ({"image": "x", "k8s_pod_template_patch": "{}"}, "`k8s_pod_template_patch` is not supported"),
        ({"mooring": 1, "servers": [{"id": "s", "run_config": {"image": "a://b"}}]}, "`a://b` cannot be run"),
        (
            {"mooring": 1, "servers": [{"id": "s", "run_config": {}, "workload": {"run": "x"}}]},
            "has both `workload` and `run_config`",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "x.json", json.dumps(document))
    assert message in str(caught.value)


@pytest.mark.e2e
def test_it_runs_at_the_first_call_with_its_filter_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    command = scripted_command(journal.path, "stdio", "legacy")
    config = {"mooring": {"command": command, "sandbox": "off"}, "tools_filter": ["echo"], "group": "work"}
    with running_gateway(tmp_path, [{"id": "s", "run_config": config}]) as gateway:
        assert journal.pids() == []
        with StreamablePeer(gateway, "s") as peer:
            assert "hello" in json.dumps(peer.tool("echo", {"text": "hello"}))
            listed = json.dumps(peer.request("tools/list"))
        assert "echo" in listed
        assert "nap" not in listed
        [found] = json.loads(gateway.command("list", "--format", "json").stdout)
        assert (found["name"], found["tools"], found["declared"]) == ("s", ["echo"], True)
