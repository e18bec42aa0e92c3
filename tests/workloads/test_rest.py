"""The API keeps what its own description promises, whatever it is sent."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema_rs import validator_for
from requests import Request
from tests.support.gateway import Gateway, Journal, running_gateway, stdio_server
from tests.support.waiting import eventually

from mooring.interfaces.rest.openapi import openapi_of
from mooring.interfaces.rest.operations import Call, Operation

pytestmark = pytest.mark.e2e
Answer = tuple[int, dict[str, str], bytes]


def ask(
    path: Path, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> Answer:
    """One request over the socket, byte for byte as it is given."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += [f"Content-Length: {len(body)}"] if body or method in ("POST", "PUT", "PATCH") else []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        data = b""
        while chunk := connection.recv(65536):
            data += chunk
    head, _, content = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    if found.get("transfer-encoding") == "chunked":
        content = _unchunked(content)
    return int(first.split()[1]), found, content


def _unchunked(data: bytes) -> bytes:
    whole = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        whole, data = whole + data[:length], data[length + 2 :]
    return whole


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("rest")
    journal = Journal(folder / "journal")
    # Whatever command is made up below, it is not found: nothing of this machine runs.
    path, os.environ["PATH"] = os.environ["PATH"], str(folder / "empty")
    try:
        with running_gateway(folder, [stdio_server("s", journal.path)]) as found:
            os.environ["PATH"] = path
            yield found
    finally:
        os.environ["PATH"] = path


def test_the_description_is_served_and_every_operation_is_in_it(gateway: Gateway) -> None:
    status, _, body = ask(gateway.socket, "GET", "/api/openapi.json")
    document = json.loads(body)
    assert (status, document["openapi"]) == (200, "3.1.0")
    operations = {(method, path) for path, found in document["paths"].items() for method in found}
    for expected in (
        ("post", "/api/v1/workloads"),
        ("delete", "/api/v1/workloads/{name}"),
        ("get", "/api/v1/workloads/{name}/logs"),
        ("post", "/api/v1/workloads/restart"),
        ("delete", "/api/v1/groups/{name}"),
        ("get", "/api/v1/status"),
    ):
        assert expected in operations


def test_the_api_is_not_on_tcp_while_nobody_proves_who_they_are(gateway: Gateway) -> None:
    for path in ("/api/v1/workloads", "/api/openapi.json", "/api/v1/status"):
        assert "error" in gateway.get(path)


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "code"),
    [
        ("GET", "/api/v1/nothing", b"", 404, "no_such_operation"),
        ("GET", "/api/v1", b"", 404, "no_such_operation"),
        ("PUT", "/api/v1/workloads", b"{}", 405, "method_not_allowed"),
        ("GET", "/api/v1/workloads/none", b"", 404, "no_such_workload"),
        ("GET", "/api/v1/workloads?grop=x", b"", 400, "invalid_query"),
        ("GET", "/api/v1/workloads?group=none", b"", 404, "no_such_group"),
        ("POST", "/api/v1/workloads", b"{", 400, "invalid_json"),
        ("POST", "/api/v1/workloads", b"[]", 400, "invalid_body"),
        ("POST", "/api/v1/workloads", b"{}", 422, "invalid_run_config"),
        ("POST", "/api/v1/workloads", b'{"name":"s","image":"x"}', 409, "name_taken"),
        ("POST", "/api/v1/workloads/stop", b"{}", 422, "nothing_selected"),
        ("POST", "/api/v1/groups", b'{"name":"default"}', 409, "group_exists"),
        ("DELETE", "/api/v1/groups/default", b"", 422, "invalid_group"),
        ("DELETE", "/api/v1/workloads/s", b"", 409, "declared_in_file"),
    ],
)
def test_errors_have_a_code_a_message_and_a_next_step(
    gateway: Gateway, method: str, target: str, body: bytes, status: int, code: str
) -> None:
    found, headers, answer = ask(gateway.socket, method, target, body)
    error = json.loads(answer)["error"]
    assert (found, error["code"]) == (status, code)
    assert error["message"]
    assert "next_step" in error
    assert headers["content-type"] == "application/json"


def test_progress_is_told_to_whoever_asks_for_events(gateway: Gateway) -> None:
    accept = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    status, headers, body = ask(gateway.socket, "POST", "/api/v1/workloads/restart", b'{"all":true}', accept)
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    events = [block.split("\n", 1) for block in body.decode().strip().split("\n\n")]
    kinds = [kind.removeprefix("event: ") for kind, _ in events]
    assert kinds[-1] == "done"
    assert kinds.count("progress") >= 2
    results = json.loads(events[-1][1].removeprefix("data: "))["results"]
    assert results == [{"name": "s", "ok": True, "status": "running", "error": None}]


def test_what_may_be_repeated_may_be_given_once_or_twice(gateway: Gateway) -> None:
    for query in ("kind=events", "kind=events&kind=server"):
        status, headers, _ = ask(gateway.socket, "GET", f"/api/v1/workloads/s/logs?{query}")
        assert (status, headers["content-type"]) == (200, "application/x-ndjson")


def test_a_query_written_twice_is_refused_rather_than_guessed(gateway: Gateway) -> None:
    status, _, _ = ask(gateway.socket, "GET", "/api/v1/workloads/s/logs?lines=1&lines=2")
    assert status == 400


def test_a_workload_is_followed_until_it_is_gone(gateway: Gateway) -> None:
    config = {"name": "far", "remote_url": "http://127.0.0.1:9/mcp"}
    status, _, body = ask(gateway.socket, "POST", "/api/v1/workloads", json.dumps(config).encode())
    assert (status, json.loads(body)["error"]["code"]) == (422, "did_not_start")
    eventually(lambda: ask(gateway.socket, "GET", "/api/v1/workloads/far")[0] == 404, "it to be gone")


async def _nothing(_call: Call) -> None:
    return None


HEALTH: Any = list(HealthCheck)
SKIPPED = {"/api/v1/stdio/{id}", "/api/v1/shutdown", "/api/v1/trace/{id}", "/api/v1/workloads/{name}/logs"}
"""An upgrade, the end, and two streams that may be told to go on for ever."""


def test_a_table_of_somebody_else_is_described_too() -> None:
    row = Operation("POST", "/clients/{name}/setup", "Set a client up.", _nothing, takes=dict[str, str])
    document = openapi_of([row], "/api/v1", "1")
    [(path, found)] = document["paths"].items()
    assert path == "/api/v1/clients/{name}/setup"
    assert found["post"]["parameters"][0]["name"] == "name"


def test_every_answer_is_one_that_the_description_allows(gateway: Gateway) -> None:
    """schemathesis makes up requests of every kind, right ones and wrong ones."""
    _, _, body = ask(gateway.socket, "GET", "/api/openapi.json")
    document = json.loads(body)
    document["paths"] = {path: found for path, found in document["paths"].items() if path not in SKIPPED}
    schema = schemathesis.openapi.from_dict(document)
    tried = 0
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]

        @settings(max_examples=12, deadline=None, suppress_health_check=HEALTH, database=None)
        @given(case=operation.as_strategy())
        def once(case: Any) -> None:
            nonlocal tried
            tried += 1
            _check(gateway, case, document)

        once()
    assert tried >= 100


def _check(gateway: Gateway, case: Any, document: dict[str, Any]) -> None:
    arguments = case.as_transport_kwargs(base_url="http://localhost")
    prepared = Request(
        method=arguments["method"], url=arguments["url"], params=arguments.get("params"),
        headers=arguments.get("headers"), json=arguments.get("json"), data=arguments.get("data"),
    ).prepare()  # fmt: skip
    given_body: Any = prepared.body or b""
    content: bytes = given_body.encode() if isinstance(given_body, str) else given_body
    target = prepared.path_url
    status, headers, body = ask(gateway.socket, str(prepared.method), target, content)
    shown = f"{prepared.method} {target} {content[:300]!r} -> {status} {body[:300]!r}"
    assert status < 500, shown
    responses = case.operation.definition.raw["responses"]
    assert str(status) in responses or status in (404, 405), shown
    described = responses.get(str(status), {}).get("content", {}).get("application/json")
    if described is None:
        return
    assert headers["content-type"] == "application/json", shown
    rules = {**described["schema"], "components": document["components"]}
    validator_for(rules).validate(json.loads(body))


def over_tcp(gateway: Gateway, target: str, key: str | None) -> int:
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=10)
    try:
        connection.request("GET", target, headers={"Authorization": f"Bearer {key}"} if key else {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_over_tcp_only_an_administrator_uses_the_api(tmp_path: Path) -> None:
    """Whoever may call tools may not therefore run commands on this machine."""
    with running_gateway(tmp_path, [], auth={"mode": "api_key"}) as gateway:

        def key(name: str, *flags: str) -> str:
            config = str(tmp_path / "mooring.yaml")
            done = gateway.command("key", "create", name, "--config", config, *flags)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip().splitlines()[-1]

        caller, administrator = key("caller"), key("administrator", "--scope", "mooring:admin")
        for target in ("/api/v1/workloads", "/api/openapi.json"):
            assert over_tcp(gateway, target, None) == 401
            assert over_tcp(gateway, target, caller) == 403
            assert over_tcp(gateway, target, administrator) == 200
        assert ask(gateway.socket, "GET", "/api/v1/workloads")[0] == 200
