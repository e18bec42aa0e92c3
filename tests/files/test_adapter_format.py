"""A Remote MCP Adapter's file is served as it is."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.files.conftest import SERVER, http_request, post, said
from tests.support.gateway import Gateway, program, running_process, stop
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

from mooring.config.loading import ConfigError, load_with_notes
from mooring.config.locations import data_directory_of
from mooring.workloads.state import DataDirectory

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
    assert config.servers[0].files.shared_directory == Path("/data/shared")
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
            state_persistence={"type": "redis", "redis": {"host": "r", "password": None}},
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
    assert "`state_persistence.type`" in ignored
    assert "`state_persistence.redis.host`" in ignored
    assert "`state_persistence.redis.password`" not in ignored


def test_its_figures_go_to_its_collector(tmp_path: Path) -> None:
    telemetry = {
        "enabled": True,
        "transport": "http",
        "endpoint": "http://c:4318/v1/metrics",
        "insecure": True,
    }
    more = {"headers": {"Authorization": "Bearer x"}, "service_name": "files", "max_queue_size": 9}
    loaded = load_with_notes(adapter_file(tmp_path, telemetry={**telemetry, **more}), environment={})
    found = loaded.config.telemetry
    assert (found.otlp_endpoint, found.otlp_signals, found.service_name) == (
        "http://c:4318",
        ["metrics"],
        "files",
    )
    assert found.otlp_headers == {"Authorization": "Bearer x"}
    assert [note for note in loaded.notes if "telemetry" in note] == [
        "these keys have no meaning here and were left out: `telemetry.max_queue_size`"
    ]


def test_a_collector_that_takes_no_http_gets_nothing_and_that_is_said(tmp_path: Path) -> None:
    loaded = load_with_notes(adapter_file(tmp_path, telemetry={"enabled": True}), environment={})
    assert loaded.config.telemetry.otlp_endpoint is None
    assert any("`telemetry.transport` to `http`" in note for note in loaded.notes)


def test_keys_that_ask_for_nothing_are_not_worth_a_word(tmp_path: Path) -> None:
    more: Json = {
        "telemetry": {"enabled": False, "transport": "grpc", "endpoint": None, "max_queue_size": 5000},
        "state_persistence": {"redis": {"host": "localhost", "port": 6379}},
        "storage": {"artifact_locator_allowed_roots": []},
        "servers": [
            {
                "id": "a",
                "mount_path": "/mcp/a",
                "upstream": {"url": "http://a:8931/mcp", "insecure_tls": True},
                "adapters": [
                    {
                        "type": "artifact_producer",
                        "tools": ["make"],
                        "output_path_argument": "filename",
                        "output_locator": {"mode": "structured", "output_path_key": None},
                    }
                ],
            }
        ],
    }
    loaded = load_with_notes(adapter_file(tmp_path, **more), environment={})
    assert [note for note in loaded.notes if "left out" in note or "insecure_tls" in note] == []
    assert loaded.config.servers[0].adapters[0].output_locator.mode == "structured"


def test_certificates_are_checked_whatever_it_says_and_that_is_said(tmp_path: Path) -> None:
    server = {
        "id": "a",
        "mount_path": "/mcp/a",
        "upstream": {"url": "https://a/mcp", "insecure_tls": True},
    }
    notes = load_with_notes(adapter_file(tmp_path, servers=[server]), environment={}).notes
    assert any("`servers[0].upstream.insecure_tls`" in note and "SSL_CERT_FILE" in note for note in notes)


def _kept(file: Path, **environment: str) -> tuple[Path, list[str]]:
    """Where our own state is with this file, and what the start-up lines say about it."""
    loaded = load_with_notes(file, environment=environment)
    assert data_directory_of(file, environment) == loaded.config.storage.root, "commands look there, too"
    return loaded.config.storage.root, [note for note in loaded.notes if "our own state" in note]


def test_our_own_state_is_not_in_the_folder_that_servers_can_read(tmp_path: Path) -> None:
    file = adapter_file(tmp_path)
    root, [note] = _kept(file, XDG_DATA_HOME=str(tmp_path / "home"))
    assert root.is_relative_to(tmp_path / "home" / "mooring")
    assert str(root) in note
    assert "state_persistence.disk.local_path" in note
    [server] = load_with_notes(file, environment={}).config.servers
    assert server.files.shared_directory == tmp_path / "shared"


def test_each_file_has_a_state_of_its_own_that_stays(tmp_path: Path) -> None:
    for name in ("a", "b", "real"):
        (tmp_path / name).mkdir()
    first, second = adapter_file(tmp_path / "a"), adapter_file(tmp_path / "b")
    home = {"XDG_DATA_HOME": str(tmp_path)}
    assert _kept(first, **home) == _kept(tmp_path / "b" / ".." / "a" / "config.yaml", **home)
    assert _kept(first, **home)[0] != _kept(second, **home)[0]
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert _kept(tmp_path / "link" / "config.yaml", **home)[0] == _kept(first, **home)[0]
    mounted = tmp_path / "mounted.yaml"  # as a ConfigMap is: each change is a new file behind the same link
    kept: list[Path] = []
    for target in (first, second):
        mounted.unlink(missing_ok=True)
        mounted.symlink_to(target)
        kept.append(_kept(mounted, **home)[0])
    assert kept[0] == kept[1]


def _state(path: Path | str) -> Json:
    return {"state_persistence": {"disk": {"local_path": str(path)}}}


def test_its_folder_for_state_is_ours(tmp_path: Path) -> None:
    chosen = adapter_file(tmp_path, **_state(tmp_path / "volume" / "state.sqlite3"))
    assert _kept(chosen) == (tmp_path / "volume", [])
    assert not [note for note in load_with_notes(chosen, environment={}).notes if "local_path" in note]
    relative = adapter_file(tmp_path, **_state("${PLACE:-volume}/state.sqlite3"))
    assert _kept(relative) == (tmp_path / "volume", [])
    assert _kept(relative, PLACE="other")[0] == tmp_path / "other"


@pytest.mark.parametrize("place", ["shared/state/a.sqlite3", "shared/a.sqlite3", "link/a.sqlite3"])
def test_state_in_the_shared_folder_must_be_asked_for_and_is_said(tmp_path: Path, place: str) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    root, [note] = _kept(adapter_file(tmp_path, **_state(tmp_path / place)))
    assert root == (tmp_path / place).parent.resolve()
    assert f"can read `{tmp_path / 'shared'}`" in note
    off = load_with_notes(tmp_path / "config.yaml", environment={}, sandboxed=False)
    assert note in off.notes, "there is nothing to run without a sandbox"


def test_a_folder_of_ours_never_becomes_the_shared_one_by_its_name(tmp_path: Path) -> None:
    more = _state(tmp_path / "state.sqlite3")
    root, [note] = _kept(adapter_file(tmp_path, storage={"root": str(tmp_path / "files")}, **more))
    assert root == tmp_path / "mooring-state"
    assert str(root) in note


def test_a_shared_folder_around_the_data_of_the_user_is_refused(tmp_path: Path) -> None:
    file = adapter_file(tmp_path, storage={"root": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"`storage.root` .*`state_persistence.disk.local_path`"):
        load_with_notes(file, environment={"XDG_DATA_HOME": str(tmp_path / "home")})


def _one(**more: Any) -> Json:
    return {"servers": [{"id": "a", "mount_path": "/a", "upstream": {"url": "http://x/mcp"}, **more}]}


def test_its_guards_are_ours(tmp_path: Path) -> None:
    ping = {"failure_threshold": 7, "open_cooldown_seconds": 9, "interval_seconds": 5}
    servers: list[Json] = [
        {
            **_one()["servers"][0],
            "disabled_tools": ["say", "browser_.*|x[0-9]+"],
            "upstream": {"url": "http://x/mcp", "client_headers": {"passthrough": ["X-Tenant"]}},
            "tool_definition_pinning": {"block_strategy": "baseline_subset"},
            "tool_metadata_sanitization": {"mode": "block", "max_tool_title_chars": 9},
            "tool_description_policy": {"max_tool_description_chars": 100},
        },
        {**_one()["servers"][0], "id": "b", "mount_path": "/b", "tool_metadata_sanitization": None},
    ]
    core: Json = {
        "host": "127.0.0.1",
        "auth": {"enabled": True, "token": "s3cret", "signed_upload_ttl_seconds": 60, "signing_secret": "x"},
        "tool_definition_pinning": {"mode": "block"},
        "tool_metadata_sanitization": {"normalize_unicode": False},
        "tool_description_policy": {"mode": "truncate"},
        "upstream_ping": ping,
        "cors": {"enabled": True, "allowed_origins": ["https://a.example"], "allow_credentials": True},
    }
    loaded = load_with_notes(adapter_file(tmp_path, core=core, servers=servers), environment={})
    config = loaded.config
    assert (config.auth.mode, config.auth.shared_token) == ("shared_token", "s3cret")
    assert config.auth.shared_token_header == "X-Mcp-Adapter-Auth-Token"
    assert config.uploads.link_ttl_seconds == 60
    assert config.cors.allowed_origins == ["https://a.example"]
    assert (config.cors.allowed_methods, config.cors.allowed_headers) == (["POST", "GET", "OPTIONS"], ["*"])
    cleaning = config.core.sanitize
    assert (cleaning.mode, cleaning.max_description_chars) == ("strip", 2000)
    assert (cleaning.normalize_unicode, cleaning.max_schema_text_chars) == (False, 1000)
    first, second = config.servers
    assert (first.tools.deny, first.tools.deny_regex) == (["say"], ["browser_.*|x[0-9]+"])
    assert first.upstream is not None
    assert first.upstream.forward_headers == ["X-Tenant"]
    assert first.tool_definition_pinning is not None
    assert (first.tool_definition_pinning.mode, first.tool_definition_pinning.block_strategy) == (
        "block",
        "baseline_subset",
    )
    assert first.sanitize is not None
    assert (first.sanitize.mode, first.sanitize.max_title_chars) == ("block", 9)
    assert first.sanitize.normalize_unicode is False
    assert (first.savings.description_limit, second.savings.description_limit) == (100, 280)
    assert second.sanitize is None
    assert (second.breaker.failures, second.breaker.open_seconds) == (7, 9)
    [ignored] = [note for note in loaded.notes if "left out" in note]
    assert "`core.auth.signing_secret`" in ignored
    assert "`core.cors.allow_credentials`" in ignored
    assert "`core.upstream_ping.interval_seconds`" in ignored


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"core": {"auth": {"enabled": True}}}, "core.auth.token"),
        ({"core": {"auth": {"enabled": True, "token": "x", "realm": "y"}}}, "core.auth.realm"),
        ({"core": {"tool_metadata_sanitization": {"mode": "wash"}}}, "core.tool_metadata_sanitization.mode"),
        (
            {"core": {"tool_metadata_sanitization": {"max_tool_title_chars": 0}}},
            "core.tool_metadata_sanitization",
        ),
        ({"core": {"tool_metadata_sanitization": {"zeal": 1}}}, "core.tool_metadata_sanitization.zeal"),
        ({"core": {"tool_definition_pinning": {"mode": "loose"}}}, "core.tool_definition_pinning.mode"),
        ({"core": {"cors": {"enabled": True, "allowed_origins": ["x"]}}}, "core.cors.allowed_origins[0]"),
        ({"core": {"cors": {"enabled": True, "allowed_methods": ["get"]}}}, "core.cors.allowed_methods[0]"),
        ({"core": {"cors": {"enabled": True, "allowed_headers": ["a b"]}}}, "core.cors.allowed_headers[0]"),
        ({"core": {"cors": {"enabled": True, "allowed_methods": None}}}, "core.cors.allowed_methods"),
        ({"core": {"cors": {"origins": []}}}, "core.cors.origins"),
        ({"core": {"upload_path": "upload"}}, "core.upload_path"),
        ({"core": {"public_base_url": "files.example.com"}}, "core.public_base_url"),
        ({"core": {"defaults": {"timeout": 5}}}, "core.defaults.timeout"),
        ({"core": {"upstream_ping": {"ttl": 5}}}, "core.upstream_ping.ttl"),
        ({"telemetry": {"enable": True}}, "telemetry.enable"),
        ({"state_persistence": {"redis": {"hostname": "x"}}}, "state_persistence.redis.hostname"),
        ({"servers": [{"mount_path": "/a", "id": "a", "extra": 1}]}, "servers[0].extra"),
        (_one(disabled_tools=["a("]), "servers[0].disabled_tools[0]"),
        (
            _one(upstream={"url": "http://x/mcp", "client_headers": {"required": ["X A"]}}),
            "servers[0].upstream.client_headers.required[0]",
        ),
        (
            _one(upstream={"url": "http://x/mcp", "client_headers": {"passthrough": ["Authorization"]}}),
            "servers[0].upstream.client_headers.passthrough[0]",
        ),
        (
            _one(tool_metadata_sanitization={"mode": "soap"}),
            "servers[0].tool_metadata_sanitization.mode",
        ),
        ({"storage": {"root": None}}, "storage.root"),
        ({"storage": {"root": ""}}, "storage.root"),
        ({"state_persistence": {"disk": {"local_path": 5}}}, "state_persistence.disk.local_path"),
        ({"uploads": {"max_file_bytes": "lots"}}, "uploads.max_file_bytes"),
        ({"uploads": {"max_file_size": 5}}, "uploads.max_file_size"),
        ({"sessions": {"max_active": "many"}}, "sessions.max_active"),
        ({"nonsense": {"a": 1}}, "nonsense"),
        ({"core": {"port": "http"}}, "core.port"),
        ({"core": {"auth": {"enabled": "nope", "token": "x"}}}, "core.auth.enabled"),
        ({"core": {"cors": {"enabled": "nope"}}}, "core.cors.enabled"),
        ({"core": {"log_level": "loud"}}, "core.log_level"),
        ({"core": {"defaults": {"tool_call_timeout_seconds": "soon"}}}, "core.defaults.tool_call_timeout"),
        ({"core": {"tool_description_policy": {"mode": "shout"}}}, "core.tool_description_policy.mode"),
        ({"core": {"upstream_ping": {"failure_threshold": 0}}}, "core.upstream_ping.failure_threshold"),
        ({"storage": {"lock_mode": "sometimes"}}, "storage.lock_mode"),
        ({"state_persistence": {"type": "cloud"}}, "state_persistence.type"),
        (_one(tool_defaults={"allow_raw_output": "x"}), "servers[0].tool_defaults.allow_raw_output"),
        (_one(tool_defaults=["x"]), "servers[0].tool_defaults"),
        (_one(adapters=["x"]), "servers[0].adapters[0]"),
        (_one(upstream={"url": "http://x/mcp", "insecure_tls": 5}), "servers[0].upstream.insecure_tls"),
        (
            _one(upstream={"url": "http://x/mcp", "client_headers": ["a"]}),
            "servers[0].upstream.client_headers",
        ),
    ],
)
def test_what_cannot_be_kept_is_an_error_that_names_the_key(tmp_path: Path, more: Json, wrong: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"`{wrong}")):
        load_with_notes(adapter_file(tmp_path, **more), environment={})


def test_what_a_variable_holds_is_what_its_key_wants(tmp_path: Path) -> None:
    more = {
        "core": {
            "auth": {"enabled": "${AUTH:-false}", "token": "${TOKEN:-7}"},
            "cors": {"enabled": "${CORS:-false}", "allowed_origins": ["https://a.example"]},
            "defaults": {"tool_call_timeout_seconds": "${SECONDS:-5}"},
        },
        "uploads": {"max_file_bytes": "${SIZE:-2Mi}", "ttl_seconds": "${TTL:-90}"},
    }
    config = load_with_notes(adapter_file(tmp_path, **more), environment={"TTL": "91"}).config
    assert (config.auth.mode, config.cors.allowed_origins) == ("none", [])
    assert config.servers[0].timeouts.call_seconds == 5
    assert (config.uploads.max_file_bytes, config.uploads.ttl_seconds) == (2 * 1024**2, 91)
    on = load_with_notes(adapter_file(tmp_path, **more), environment={"AUTH": "true"}).config
    assert (on.auth.mode, on.auth.shared_token) == ("shared_token", "7")
    with pytest.raises(ConfigError, match="not what the environment variable holds") as wrong:
        load_with_notes(adapter_file(tmp_path, **more), environment={"AUTH": "s3cret"})
    assert "s3cret" not in str(wrong.value)


@contextmanager
def served(folder: Path, server: Json, more: Json | None = None, **core: Any) -> Iterator[Gateway]:
    with running_process(["python3", "-S", SERVER, "--http=0"]) as url:
        servers = [{**_server(folder), "upstream": {"url": url}, **server}]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        core = {"host": "127.0.0.1", "port": port, **core}
        file = adapter_file(folder, servers=servers, core=core, **(more or {}))
        log = (folder / "gateway.log").open("wb")
        process = subprocess.Popen(
            [program(), "serve", "--config", str(file)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=_environment(folder),
        )
        try:
            eventually(lambda: "control socket" in (folder / "gateway.log").read_text(), "the gateway")
            yield Mounted(process, f"http://127.0.0.1:{port}", folder)
        finally:
            stop(process)
            log.close()


def test_it_is_served_at_its_own_path(tmp_path: Path) -> None:
    with (
        served(tmp_path, {}, allow_artifacts_download=True) as gateway,
        StreamablePeer(gateway, "files") as peer,
    ):
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


def test_what_servers_can_read_holds_nothing_of_ours_and_commands_find_us(tmp_path: Path) -> None:
    with served(tmp_path, {}) as gateway:
        with StreamablePeer(gateway, "files") as peer:
            about = peer.tool("files_get_upload_url")["structuredContent"]
            handle = post(about, ("a.txt", b"abc")).json["upload_handle"]
            assert said(peer.tool("measure", {"path": handle})).startswith("3 ")
            assert {path.name for path in (tmp_path / "shared").iterdir()} == {"files"}
            files = [path.name for path in (tmp_path / "shared").rglob("*") if not path.is_dir()]
            assert files == ["a.txt"]
        for words in (["status"], ["tool", "call", "files", "plain"]):
            done = subprocess.run(
                [program(), *words, "--config", str(tmp_path / "config.yaml")],
                env=_environment(tmp_path),
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert gateway.log().count("our own state is kept in") == 1


def test_a_folder_for_state_that_cannot_be_had_is_said_with_its_key(tmp_path: Path) -> None:
    file = adapter_file(tmp_path, **_state("/proc/state/a.sqlite3"))
    command = [program(), "serve", "--config", str(file)]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert failed.stderr.startswith("error: cannot use `/proc/state")
    assert failed.stderr.endswith("; data is kept where `state_persistence.disk.local_path` says\n")
    file = adapter_file(tmp_path, **_state(tmp_path / "state" / "a.sqlite3"))
    with DataDirectory(tmp_path / "state"):
        taken = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert "already runs on" in taken.stderr
    assert "`state_persistence.disk.local_path`" in taken.stderr


def test_its_token_and_its_patterns_hold(tmp_path: Path) -> None:
    auth = {"enabled": True, "token": "s3cret"}
    server = {"disabled_tools": ["measure_(all|deep)", "plai[n]"]}
    with served(tmp_path, server, auth=auth) as gateway:
        url = f"{gateway.address}/mcp/of/files"
        for headers in ({}, {"X-Mcp-Adapter-Auth-Token": "other"}, {"X-Api-Key": "s3cret"}):
            refused = http_request("POST", url, b"{}", headers)
            assert refused.status == 401
            assert headers or "`X-Mcp-Adapter-Auth-Token: ...`" in refused.json["error"]["message"]
            assert http_request("PUT", f"{gateway.address}/upload/files", b"a", headers).status == 401
        with TokenPeer(gateway, "files") as peer:
            names = {tool["name"] for tool in peer.request("tools/list")["tools"]}
            assert {"measure", "files_get_upload_url"} <= names
            assert not names & {"measure_all", "measure_deep", "plain"}
            with pytest.raises(RpcRefused, match="Unknown tool"):
                peer.tool("plain")
            about = peer.tool("files_get_upload_url")["structuredContent"]
            handle = post(about, ("a.txt", b"abc")).json["upload_handle"]
            assert said(peer.tool("measure", {"path": handle})).startswith("3 ")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_header_that_it_requires_must_be_there(tmp_path: Path, era: str) -> None:
    named = {"required": ["X-Tenant"], "passthrough": ["X-Tenant"]}
    with running_process(["python3", "-S", SERVER, "--http=0"]) as url:
        server = {"upstream": {"url": url, "client_headers": named}}
        with served(tmp_path, server) as gateway:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            for headers in ({}, {"X-Tenant": ""}):
                refused = http_request(
                    "POST", gateway.url("files"), json.dumps(hello).encode(), kind | headers
                )
                assert refused.status == 400
                assert "needs the header `X-Tenant`" in refused.json["error"]["message"]
            with TENANTS[era](gateway, "files") as peer:
                assert said(peer.tool("plain")) == "plain"


def test_web_pages_may_do_what_it_lets_them_and_no_more(tmp_path: Path) -> None:
    page = "https://app.example"
    cors = {
        "enabled": True,
        "allowed_origins": [page],
        "allowed_methods": ["POST"],
        "allowed_headers": ["X-Mcp-Adapter-Auth-Token"],
    }
    with served(tmp_path, {}, cors=cors) as gateway:
        assert "left out" not in gateway.log()
        for path in ("/mcp/of/files", "/upload/files"):
            url = gateway.address + path
            asked = {"Origin": page, "Access-Control-Request-Method": "POST"}
            answered = http_request("OPTIONS", url, None, asked)
            assert answered.status == 204
            assert answered.headers["Access-Control-Allow-Methods"] == "POST"
            names = answered.headers["Access-Control-Allow-Headers"].split(", ")
            assert "X-Mcp-Adapter-Auth-Token" in names
            assert "Authorization" not in names
            asked["Access-Control-Request-Method"] = "DELETE"
            assert http_request("OPTIONS", url, None, asked).status == 403
            refused = http_request("GET", url, None, {"Origin": page})
            assert refused.status == 403
            assert "`cors.allowed_methods`" in refused.json["error"]
            assert b"cors" not in http_request("GET", url).body, "who is no page is not meant"


class TenantPeer(StreamablePeer):
    def headers_for(self, message: Json) -> Json:
        return {**super().headers_for(message), "X-Tenant": "one"}


class ModernTenantPeer(ModernHttpPeer):
    def headers_for(self, message: Json) -> Json:
        return {**super().headers_for(message), "X-Tenant": "one"}


TENANTS = {"legacy": TenantPeer, "modern": ModernTenantPeer}


class TokenPeer(StreamablePeer):
    """A client of the original, with its header."""

    def headers_for(self, message: Json) -> Json:
        return {**super().headers_for(message), "X-Mcp-Adapter-Auth-Token": "s3cret"}


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(folder / "home"), "NO_COLOR": "1"}


def _server(folder: Path) -> Json:
    return YAML(typ="safe").load(adapter_file(folder).read_text())["servers"][0]


class Mounted(Gateway):
    """The same gateway, reached by the path in its file."""

    def url(self, server: str) -> str:
        return f"{self.address}/mcp/of/{server}"
