"""What a RunConfig says about who may call, what is allowed and what is written down holds for its server."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Journal, rewrite, running_gateway, scripted_command
from tests.workloads.daemon import Person, somebody
from tests.workloads.provider import Provider, token_provider

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
VERSION = "2026-07-28"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with somebody(tmp_path_factory.mktemp("guarded")) as found:
        yield found


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with token_provider() as found:
        yield found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def post(port: int, path: str, method: str, params: Json, **headers: str) -> tuple[int, Json, str]:
    """One request of a modern client: status, body, and the challenge if there is one."""
    about = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": about}}
    named = {"Mcp-Name": params["name"]} if "name" in params else {}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        given = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
            **named,
            **headers,
        }
        connection.request("POST", path, json.dumps(message), given)
        answer = connection.getresponse()
        body = answer.read()
        text = body.partition(b"data:")[2] if body.startswith((b"event:", b"data:")) else body
        return answer.status, json.loads(text or b"{}"), answer.getheader("WWW-Authenticate") or ""
    finally:
        connection.close()


def echo(port: int, path: str, **headers: str) -> tuple[int, Json, str]:
    return post(port, path, "tools/call", {"name": "echo", "arguments": {"text": "hello"}}, **headers)


def run(person: Person, name: str, *flags: str, document: Json | None = None) -> Json:
    journal = Journal(person.folder / f"{name}.journal")
    if document is None:
        return person.run_scripted(name, journal, *flags)
    command = scripted_command(journal.path, "stdio", "legacy")
    file = person.folder / f"{name}.json"
    file.write_text(json.dumps({**document, "name": name, "mooring": {"command": command, "sandbox": "off"}}))
    return json.loads(person("run", "--from-config", str(file), *flags, "--format", "json").stdout)


def test_a_server_with_a_provider_of_its_own_asks_for_its_tokens(person: Person, provider: Provider) -> None:
    run(person, "open")
    url = run(person, "closed", "--oidc-issuer", provider.url)["url"]
    status, _, challenge = echo(person.port, "/mcp/closed")
    assert status == 401
    described = f"http://127.0.0.1:{person.port}/.well-known/oauth-protected-resource/mcp/closed"
    assert described in challenge
    good = provider.token("alice", url)
    assert echo(person.port, "/mcp/closed", Authorization=f"Bearer {good}")[0] == 200
    other = provider.token("alice", url.replace("closed", "open"))
    assert echo(person.port, "/mcp/closed", Authorization=f"Bearer {other}")[0] == 401
    assert echo(person.port, "/mcp/open")[0] == 200, "the others are as they were"
    assert "echo" in person("tool", "list", "closed").stdout, "the socket belongs to the person"


def test_policies_of_a_server_decide_about_its_calls_only(person: Person, provider: Provider) -> None:
    policies = {
        "version": "1.0",
        "type": "cedarv1",
        "cedar": {
            "policies": ['permit(principal == Client::"alice", action, resource == Tool::"echo");'],
            "entities_json": "[]",
        },
    }
    document = {"oidc_config": {"Issuer": provider.url, "Audience": "ours"}, "authz_config": policies}
    run(person, "ruled", document=document)
    as_alice = {"Authorization": f"Bearer {provider.token('alice', 'ours')}"}
    as_bob = {"Authorization": f"Bearer {provider.token('bob', 'ours')}"}
    assert "hello" in json.dumps(echo(person.port, "/mcp/ruled", **as_alice)[1])
    assert "error" in echo(person.port, "/mcp/ruled", **as_bob)[1]
    listed = post(person.port, "/mcp/ruled", "tools/list", {}, **as_alice)[1]["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["echo"]
    assert post(person.port, "/mcp/ruled", "tools/list", {}, **as_bob)[1]["result"]["tools"] == []


def test_policies_in_a_file_are_named_by_a_flag(person: Person) -> None:
    file = person.folder / "nothing.json"
    file.write_text(
        json.dumps({"version": "1.0", "type": "cedarv1", "cedar": {"policies": [], "entities_json": "[]"}})
    )
    run(person, "mute", "--authz-config", str(file))
    assert post(person.port, "/mcp/mute", "tools/list", {})[1]["result"]["tools"] == []


def test_an_audit_of_its_own_is_written(person: Person) -> None:
    log = person.folder / "audit" / "noted.log"
    log.parent.mkdir()
    run(person, "noted", document={"audit_config": {"component": "mine", "logFile": str(log)}})
    run(person, "plainly", "--enable-audit")
    echo(person.port, "/mcp/noted")
    echo(person.port, "/mcp/plainly")
    [event] = [json.loads(line) for line in log.read_text().splitlines() if "mcp_tool_call" in line]
    assert (event["component"], event["target"]["name"]) == ("mine", "echo")
    assert "mcp_tool_call" in (person.data / "audit-plainly.log").read_text()


def test_rates_of_its_own_are_counted(person: Person) -> None:
    limits = {"tools": [{"name": "echo", "shared": {"maxTokens": 2, "refillPeriod": "1h0m0s"}}]}
    run(person, "rare", document={"rate_limit_config": limits})
    answers = [echo(person.port, "/mcp/rare")[1] for _ in range(3)]
    assert ["error" in answer for answer in answers] == [False, False, True]
    assert "error" not in post(person.port, "/mcp/rare", "tools/list", {})[1]


def test_numbers_of_its_own_are_shown(person: Person) -> None:
    run(person, "counted", "--otel-enable-prometheus-metrics-path")
    echo(person.port, "/mcp/counted")
    connection = http.client.HTTPConnection("127.0.0.1", person.port, timeout=30)
    connection.request("GET", "/metrics")
    shown = connection.getresponse().read().decode()
    connection.close()
    assert 'mooring_tool_calls_total{server="counted",tool="echo",outcome="success"} 1' in shown
    assert 'server="open"' not in shown


def test_a_port_of_its_own_is_a_second_address_until_it_is_removed(person: Person) -> None:
    port = free_port()
    told = run(person, "own", document={"host": "127.0.0.1", "port": port})
    assert told["own_url"] == f"http://127.0.0.1:{port}/mcp"
    assert "hello" in json.dumps(echo(port, "/mcp")[1])
    assert "hello" in json.dumps(echo(person.port, "/mcp/own")[1])
    assert echo(port, "/mcp/open")[0] == 404, "nothing of others is to be had there"
    assert echo(port, "/mcp", Host="evil.example")[0] == 403
    assert echo(port, "/mcp", Origin="https://app.example.com")[0] == 403
    person("stop", "own")
    assert "stopped" in json.dumps(echo(port, "/mcp")[1]), "its address stays while it is stopped"
    taken = person("run", "--name", "too", "--proxy-port", str(port), "--", "true", expect=1)
    assert f"`127.0.0.1:{port}`, which cannot be had" in taken.stderr
    assert "too" not in person("list").stdout
    person("rm", "own")
    with pytest.raises(ConnectionRefusedError):
        echo(port, "/mcp")


def test_an_address_of_its_own_is_found_again_after_a_crash(tmp_path: Path) -> None:
    port = free_port()
    with somebody(tmp_path) as person:
        run(person, "own", "--proxy-port", str(port))
        person.kill()
        person("start", "own", expect=None)
        assert "hello" in json.dumps(echo(port, "/mcp")[1])


def test_web_pages_that_it_names_may_call_it(person: Person) -> None:
    run(person, "paged", "--allowed-origins", "https://app.example.com")
    assert echo(person.port, "/mcp/paged", Origin="https://app.example.com")[0] == 200
    assert echo(person.port, "/mcp/paged", Origin="https://evil.example.com")[0] == 403
    assert echo(person.port, "/mcp/open", Origin="https://app.example.com")[0] == 403


def declared(folder: Path, name: str, **fields: Any) -> Json:
    """A server of the file, as a RunConfig."""
    ran = {"command": scripted_command(folder / "journal", "stdio", "legacy"), "sandbox": "off"}
    return {"id": name, "run_config": {"name": name, "host": "127.0.0.1", **fields, "mooring": ran}}


def test_web_pages_that_it_names_use_no_more_than_others_may(tmp_path: Path) -> None:
    port, page = free_port(), "https://app.example.com"
    command = scripted_command(tmp_path / "journal", "stdio", "legacy")
    document: Json = {"name": "paged", "host": "127.0.0.1", "port": port, "allowed_origins": [page]}
    document["mooring"] = {"command": command, "sandbox": "off"}
    cors = {"allowed_methods": ["GET"]}
    with running_gateway(tmp_path, [{"id": "paged", "run_config": document}], cors=cors) as gateway:
        for where, path in ((gateway.port, "/mcp/paged"), (port, "/mcp")):
            assert echo(where, path)[0] == 200
            assert echo(where, path, Origin=page)[0] == 403


def test_who_must_say_who_they_are_from_now_on_must_say_it_there_too(tmp_path: Path) -> None:
    """What it has of its own comes on top of the gateway's `auth`, whenever that changes."""
    audit = {"enable_audit": True, "audit_config": {"logFile": str(tmp_path / "own.log")}}
    document = declared(tmp_path, "logged", **audit, port=free_port())
    with running_gateway(tmp_path, [document]) as gateway:
        own = document["run_config"]["port"]
        assert (echo(gateway.port, "/mcp/logged")[0], echo(own, "/mcp")[0]) == (200, 200)
        rewrite(gateway, auth={"mode": "api_key"})
        assert (echo(gateway.port, "/mcp/logged")[0], echo(own, "/mcp")[0]) == (401, 401)


def test_what_web_pages_may_not_use_any_more_they_may_not_use_there(tmp_path: Path) -> None:
    page = "https://app.example.com"
    document = declared(tmp_path, "paged", allowed_origins=[page], port=free_port())
    with running_gateway(tmp_path, [document]) as gateway:
        places = ((gateway.port, "/mcp/paged"), (document["run_config"]["port"], "/mcp"))
        assert [echo(*place, Origin=page)[0] for place in places] == [200, 200]
        rewrite(gateway, cors={"allowed_methods": ["GET"]})
        assert [echo(*place, Origin=page)[0] for place in places] == [403, 403]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"oidc_config": {"Issuer": "https://id", "CACertPath": "/x"}}, "`oidc_config.ca_cert_path`: `/x`"),
        ({"oidc_config": {"Issuer": "https://id", "ClientSecret": "plain"}}, "`NAME,target=client_secret`"),
        ({"oidc_config": {"Issuer": "http://id.example.com"}}, "must be an `https://` address"),
        ({"authz_config": {"type": "httpv1", "pdp": {}}}, "only `cedarv1` is known"),
        ({"authz_config": {"type": "cedarv1", "cedar": {"policies": ["permit("]}}}, "`authz_config`"),
        ({"audit_config": {"logFile": "relative.log"}}, "must be an absolute path"),
        (
            {"telemetry_config": {"endpoint": "x:1", "customAttributes": {"a": "b"}}},
            "customAttributes` is not",
        ),
        ({"rate_limit_config": {"shared": {"maxTokens": 5}}}, "needs `maxTokens` and `refillPeriod`"),
        ({"validating_webhooks": [{"name": "x", "url": "http://a.example.com"}]}, "must be an `https://`"),
        ({"host": "0.0.0.0", "port": 1}, "other machines can reach"),
    ],
)
def test_what_its_guard_cannot_do_is_refused_by_name(person: Person, document: Json, message: str) -> None:
    status, answer = person.ask("POST", "/api/v1/workloads", {"name": "no", "image": "uvx://x", **document})
    assert (status, answer["error"]["code"]) == (422, "invalid_run_config")
    assert message in answer["error"]["message"]
    assert "no" not in [found["name"] for found in person.workloads()]
