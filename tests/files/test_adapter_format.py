"""A Remote MCP Adapter's file is served as it is."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.files.conftest import SERVER, post, said
from tests.support.gateway import Gateway, program, running_process, stop
from tests.support.peers import StreamablePeer
from tests.support.waiting import eventually

from mooring.config.loading import ConfigError, load_with_notes

Json = dict[str, Any]


def adapter_file(folder: Path, **more: Any) -> Path:
    value: Json = {
        "core": {"host": "127.0.0.1", "port": 0, "allow_artifacts_download": True},
        "storage": {"root": str(folder / "shared")},
        "servers": [
            {
                "id": "files",
                "mount_path": "/mcp/of/files",
                "upstream": {"url": "http://127.0.0.1:1/mcp", "static_headers": {"X-Who": "me"}},
                "disabled_tools": ["say"],
                "adapters": [
                    {"type": "upload_consumer", "tools": ["measure"], "file_path_argument": "path"},
                    {
                        "type": "artifact_producer",
                        "tools": ["write"],
                        "output_path_argument": "filename",
                        "include_raw_output": True,
                        "output_locator": {"mode": "regex", "output_path_regexes": []},
                    },
                ],
            }
        ],
    }
    for name, section in more.items():
        value[name] = {**value.get(name, {}), **section} if isinstance(section, dict) else section
    file = folder / "config.yaml"
    with file.open("w") as stream:
        YAML().dump(value, stream)
    return file


def test_its_defaults_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("servers: [{id: a, mount_path: /mcp/a, upstream: {url: 'http://x/mcp'}}]")
    loaded = load_with_notes(file, environment={})
    config = loaded.config
    assert config.listen == "0.0.0.0:8932"
    assert config.storage.root == Path("/data/shared")
    assert (config.uploads.max_file_bytes, config.uploads.ttl_seconds) == (10 * 1024**2, 120)
    assert config.artifacts.ttl_seconds == 600
    assert config.servers[0].timeouts.call_seconds == 60
    assert config.servers[0].mount_path == "/mcp/a"
    assert any("everybody who can reach 0.0.0.0:8932" in note for note in loaded.notes)


def test_keys_go_where_they_belong(tmp_path: Path) -> None:
    loaded = load_with_notes(
        adapter_file(
            tmp_path,
            core={"host": "127.0.0.1", "port": 1234, "public_base_url": "https://files.example.com"},
            uploads={"max_file_bytes": "5Mi", "ttl_seconds": None, "require_sha256": True},
            sessions={"max_active": 7, "max_in_flight_per_session": 2, "max_total_session_size": "1Gi"},
            telemetry={"enabled": True},
            state_persistence={"type": "redis"},
        ),
        environment={},
    )
    config = loaded.config
    assert (config.listen, config.public_url) == ("127.0.0.1:1234", "https://files.example.com")
    assert (config.uploads.max_file_bytes, config.uploads.require_sha256) == (5 * 1024**2, True)
    assert config.uploads.ttl_seconds > 300_000_000
    assert (config.sessions.max_active, config.sessions.max_in_flight_per_session) == (7, 2)
    [server] = config.servers
    assert server.upstream is not None
    assert server.upstream.headers == {"X-Who": "me"}
    assert server.tools.deny == ["say"]
    assert server.adapters[1].allow_raw_output is True
    [ignored] = [note for note in loaded.notes if "left out" in note]
    assert "`telemetry.enabled`" in ignored
    assert "`state_persistence.type`" in ignored


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"core": {"auth": {"enabled": True, "token": "x"}}}, "core.auth.enabled"),
        ({"core": {"tool_metadata_sanitization": {"mode": "block"}}}, "core.tool_metadata_sanitization.mode"),
        ({"uploads": {"max_file_bytes": "lots"}}, "uploads.max_file_bytes"),
        ({"uploads": {"max_file_size": 5}}, "uploads.max_file_size"),
        ({"sessions": {"max_active": "many"}}, "sessions.max_active"),
        ({"nonsense": {"a": 1}}, "nonsense"),
        ({"core": {"port": "http"}}, "listen"),
    ],
)
def test_what_cannot_be_kept_is_an_error_that_names_the_key(tmp_path: Path, more: Json, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong.replace(".", r"\.")):
        load_with_notes(adapter_file(tmp_path, **more), environment={})


def test_it_is_served_at_its_own_path(tmp_path: Path) -> None:
    import subprocess

    with running_process(["python3", "-S", SERVER, "--http=0"]) as url:
        servers = [{**_server(tmp_path), "upstream": {"url": url}}]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        file = adapter_file(tmp_path, servers=servers, core={"host": "127.0.0.1", "port": port})
        log = (tmp_path / "gateway.log").open("wb")
        process = subprocess.Popen(
            [program(), "serve", "--config", str(file)], stdout=log, stderr=log, start_new_session=True
        )
        try:
            eventually(lambda: "control socket" in (tmp_path / "gateway.log").read_text(), "the gateway")
            gateway = Mounted(process, f"http://127.0.0.1:{port}", tmp_path)
            with StreamablePeer(gateway, "files") as peer:
                names = [tool["name"] for tool in peer.request("tools/list")["tools"]]
                assert "files_get_upload_url" in names
                assert "say" not in names
                about = peer.tool("files_get_upload_url")["structuredContent"]
                handle = post(about, ("a.txt", b"abc")).json["upload_handle"]
                size, _, path = said(peer.tool("measure", {"path": handle})).split(" ", 2)
                assert size == "3"
                assert Path(path).is_relative_to(tmp_path / "shared")
                result = peer.tool("write", {"filename": "a.txt", "text": "made"})
                assert [block["type"] for block in result["content"]].count("resource") == 1
                assert result["_meta"]["artifact"]["download_url"]
        finally:
            stop(process)
            log.close()


def _server(folder: Path) -> Json:
    return YAML(typ="safe").load(adapter_file(folder).read_text())["servers"][0]


class Mounted(Gateway):
    """The same gateway, reached by the path in its file."""

    def url(self, server: str) -> str:
        return f"{self.address}/mcp/of/{server}"
