"""API keys: who has one is let in as who they are, everybody else is challenged and sees nothing."""

from __future__ import annotations

import http.client
import json
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.policy.caller import META, MODERN, Caller
from tests.support.gateway import Gateway, http_server, rewrite, running_gateway, stdio_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


class Guarded:
    """A gateway that wants keys, and a way to make them."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def key(self, name: str, *flags: str) -> str:
        made = self.gateway.command("key", "create", name, *flags)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def caller(self, key: str | None, server: str = "one") -> Caller:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return Caller(self.gateway.address, server, headers)

    def opened(self, key: str, server: str = "one") -> Caller:
        """A caller whose key the gateway has noticed."""
        caller = self.caller(key, server)
        eventually(lambda: caller.initialize().status == 200, "the key to be known")
        return caller


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("keys")
    servers = [stdio_server(name, folder / f"{name}.journal") for name in ("one", "two")]
    auth = {"mode": "api_key", "required_scopes": ["mcp"], "max_failures_per_minute": 1000}
    with running_gateway(folder, servers, auth=auth) as gateway:
        yield Guarded(gateway)


def test_without_a_key_there_is_a_challenge_and_nothing_else(guarded: Guarded) -> None:
    said = guarded.caller(None).initialize()
    assert said.status == 401
    assert said.headers["www-authenticate"].startswith('Bearer realm="mooring"')
    assert 'scope="mcp"' in said.headers["www-authenticate"]
    assert "mcp-session-id" not in said.headers


@pytest.mark.parametrize("path", ["", "/sse", "/messages?session=x"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_every_address_of_a_server_is_behind_the_door(guarded: Guarded, method: str, path: str) -> None:
    caller = guarded.caller(None)
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    assert caller.send(method, caller.path + path, b"", headers).status == 401


def test_a_key_opens_and_names_its_caller(guarded: Guarded) -> None:
    caller = guarded.opened(guarded.key("alice", "--scope", "mcp"))
    assert caller.tool("echo", {"text": "hi"}).status == 200


def test_a_key_in_its_own_header_counts_too(guarded: Guarded) -> None:
    key = guarded.key("header-user", "--scope", "mcp")
    guarded.opened(key)
    assert Caller(guarded.gateway.address, "one", {"X-API-Key": key}).initialize().status == 200


def test_a_wrong_secret_is_refused_like_an_unknown_key(guarded: Guarded) -> None:
    key = guarded.key("bob", "--scope", "mcp")
    guarded.opened(key)
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    unknown = "mooring_" + "0" * 12 + key[20:]
    answers = {guarded.caller(candidate).initialize().body for candidate in (wrong, unknown)}
    assert len(answers) == 1
    assert b"unknown, expired or revoked" in answers.pop()


def test_two_credentials_at_once_are_none(guarded: Guarded) -> None:
    key = guarded.key("carol", "--scope", "mcp")
    caller = guarded.opened(key)
    headers = [("Authorization", f"Bearer {key}"), ("Authorization", "Bearer other")]
    assert caller.send("POST", caller.path, b"{}", headers).status == 401


def test_a_key_without_the_scope_is_told_which_it_needs(guarded: Guarded) -> None:
    key = guarded.key("dora")
    caller = guarded.caller(key)
    eventually(lambda: caller.initialize().status != 401, "the key to be known")
    said = caller.initialize()
    assert said.status == 403
    assert 'error="insufficient_scope"' in said.headers["www-authenticate"]
    assert 'scope="mcp"' in said.headers["www-authenticate"]


def test_a_key_for_one_server_opens_no_other(guarded: Guarded) -> None:
    key = guarded.key("erin", "--scope", "mcp", "--server", "one")
    guarded.opened(key)
    assert guarded.caller(key, "two").initialize().status == 401


def test_a_foreign_session_does_not_exist(guarded: Guarded) -> None:
    mine = guarded.opened(guarded.key("frank", "--scope", "mcp"))
    other = guarded.opened(guarded.key("grace", "--scope", "mcp"))
    other.session = mine.session
    stolen = other.request("tools/list")
    other.session = {"Mcp-Session-Id": "made-up", "MCP-Protocol-Version": "2025-11-25"}
    absent = other.request("tools/list")
    assert (
        (stolen.status, stolen.message["error"])
        == (absent.status, absent.message["error"])
        == (
            404,
            absent.message["error"],
        )
    )
    assert mine.request("tools/list").status == 200


def test_a_revoked_key_stops_working_in_its_open_session(guarded: Guarded) -> None:
    caller = guarded.opened(guarded.key("heidi", "--scope", "mcp"))
    assert guarded.gateway.command("key", "revoke", "heidi").returncode == 0
    eventually(lambda: caller.request("tools/list").status == 401, "the key to be gone")


def test_an_expired_key_is_no_key(guarded: Guarded) -> None:
    key = guarded.key("ivan", "--scope", "mcp", "--expires", "0s")
    listed = json.loads(guarded.gateway.command("key", "list", "--format", "json").stdout)
    assert any(entry["name"] == "ivan" for entry in listed)
    assert guarded.caller(key).initialize().status == 401


def test_keys_are_kept_as_hashes_in_a_private_file(guarded: Guarded) -> None:
    key = guarded.key("judy")
    file = guarded.gateway.folder / "data" / "keys.json"
    assert key.rpartition("_")[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_two_keys_of_one_name_are_refused(guarded: Guarded) -> None:
    guarded.key("mallory")
    again = guarded.gateway.command("key", "create", "mallory")
    assert (again.returncode, "already" in again.stderr) == (1, True)


def test_keys_are_kept_where_the_running_gateway_looks_for_them(tmp_path: Path) -> None:
    """Whoever names its socket need not know its file."""
    auth = {"mode": "api_key", "keys_file": str(tmp_path / "elsewhere" / "keys.json")}
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server], auth=auth) as gateway,
    ):
        made = gateway.command("key", "create", "anna", "--format", "json")
        text = json.loads(made.stdout)["key"]
        caller = Caller(gateway.address, "one", {"Authorization": f"Bearer {text}"})
        eventually(lambda: caller.initialize().status == 200, "the key to be known")
        assert [
            key["name"] for key in json.loads(gateway.command("key", "list", "--format", "json").stdout)
        ] == ["anna"]
        assert gateway.command("key", "create", "anna").stderr.count("already") == 1
        assert gateway.command("key", "revoke", "anna").returncode == 0
        assert "no key `anna`: see `mooring key list`" in gateway.command("key", "revoke", "anna").stderr
    assert not (tmp_path / "data" / "keys.json").exists()


def test_the_command_line_on_this_machine_needs_no_key(guarded: Guarded) -> None:
    listed = guarded.gateway.command("tool", "list", "one", "--format", "json")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)


def test_health_shows_servers_only_to_authenticated_callers(guarded: Guarded) -> None:
    assert "servers" not in guarded.gateway.get("/healthz")
    caller = guarded.opened(guarded.key("nina", "--scope", "mcp"))
    said = caller.send("GET", "/healthz", b"", caller.headers)
    assert "servers" in json.loads(said.body)


def test_too_many_failures_close_the_door_for_an_address(tmp_path: Path) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    auth = {"mode": "api_key", "max_failures_per_minute": 3}
    with running_gateway(tmp_path, servers, auth=auth) as gateway:
        caller = Caller(gateway.address, "one", {"Authorization": "Bearer wrong"})
        statuses = [caller.initialize().status for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert int(caller.initialize().headers["retry-after"]) >= 1
        assert "429 from 127.0.0.1" in gateway.log()


def test_open_streams_end_with_their_key(guarded: Guarded) -> None:
    key = guarded.key("listener", "--scope", "mcp")
    caller = guarded.opened(key)
    gateway = guarded.gateway
    stamp = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    params = {"notifications": {"toolsListChanged": True}, "_meta": stamp}
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    accept = {**caller.headers, "Accept": "application/json, text/event-stream"}
    modern = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    with ExitStack() as stack:
        streams: list[http.client.HTTPResponse] = []
        for method, path, body, headers in (
            ("GET", "/mcp/one", None, {**accept, **caller.session}),
            ("GET", "/mcp/one/sse", None, accept),
            (
                "POST",
                "/mcp/one",
                json.dumps(listen),
                {**accept, **modern, "Content-Type": "application/json"},
            ),
        ):
            connection = stack.enter_context(
                closing(http.client.HTTPConnection(gateway.host, gateway.port, timeout=20))
            )
            connection.request(method, path, body, headers)
            streams.append(stack.enter_context(connection.getresponse()))
        assert [stream.status for stream in streams] == [200, 200, 200]
        assert gateway.command("key", "revoke", "listener").returncode == 0
        for stream in streams:
            stream.read()  # to its end; a stream that stays open is a timeout


def test_an_older_stream_ends_with_its_server(tmp_path: Path) -> None:
    server = stdio_server("one", tmp_path / "journal")
    with (
        running_gateway(tmp_path, [server]) as gateway,
        closing(http.client.HTTPConnection(gateway.host, gateway.port, timeout=20)) as connection,
    ):
        connection.request("GET", "/mcp/one/sse")
        with connection.getresponse() as stream:
            rewrite(gateway, servers=[])
            assert stream.read().startswith(b"event: endpoint")
