"""The benchmark's upstreams: what the compiled programs answer."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from bench.targets import Stage
from bench.wire import Connection, Endpoint, Session

from bench import load, programs, wire

# -- the HTTP upstream


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as opened:
        yield opened


@pytest.fixture
def connection(stage: Stage) -> Iterator[Connection]:
    with Connection(stage.upstream().endpoint.port, seconds=5) as opened:
        yield opened


@pytest.fixture
def legacy(stage: Stage) -> Endpoint:
    return Endpoint(stage.upstream().endpoint.port, "/legacy")


@pytest.fixture
def modern(stage: Stage) -> Endpoint:
    return Endpoint(stage.upstream().endpoint.port, "/modern", "modern")


def _post(endpoint: Endpoint, body: bytes, session: str | None = "any") -> bytes:
    return wire.http_request("POST", endpoint, session, body)


def test_initialize_gives_each_client_a_session_of_its_own(connection: Connection, legacy: Endpoint) -> None:
    first, second = wire.open_session(connection, legacy), wire.open_session(connection, legacy)
    assert first.identifier
    assert second.identifier
    assert first.identifier != second.identifier
    answer = connection.exchange(wire.initialize(legacy))
    assert wire.result_of(answer, 0)["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("body", "identifier"),
    [
        (
            b'{"id":5,"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}',
            5,
        ),
        (
            b'{"params":{"arguments":{"id":9,"text":"x"},"name":"echo"},"method":"tools/call","id":"a\\"b"}',
            'a"b',
        ),
        (
            b' {\n"params" : {"name":"echo", "arguments":{"text" : "x"}}, "method":"tools/call", "id" : 7 }',
            7,
        ),
        (
            b'{"params":{"_meta":{"id":1},"name":"echo","arguments":{"text":"x"}},"id":-3,"method":"tools/call"}',
            -3,
        ),
    ],
)
def test_the_answer_carries_the_requests_id_wherever_it_stands(
    connection: Connection, legacy: Endpoint, body: bytes, identifier: Any
) -> None:
    message = json.loads(connection.exchange(_post(legacy, body)).body)
    assert message["id"] == identifier
    assert message["result"]["content"] == [{"type": "text", "text": "x"}]


def test_echo_returns_escapes_as_they_came(connection: Connection, legacy: Endpoint) -> None:
    text = 'a "quoted" \\ line\nwith ünïcode and } braces ] {'
    session = Session(legacy, "any")
    answer = connection.exchange(wire.tool_call(session, "echo", {"text": text}, identifier=3))
    assert wire.result_of(answer, 3)["content"][0]["text"] == text


@pytest.mark.parametrize("id_last", [False, True])
@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_large_results_have_the_size_asked_for_and_are_valid_json(
    connection: Connection, legacy: Endpoint, size: int, id_last: bool
) -> None:
    arguments = {"size": size, "id_last": id_last}
    answer = connection.exchange(wire.tool_call(Session(legacy, "any"), "large", arguments, identifier=8))
    load.check_large(answer, size, 8)
    message = json.loads(answer.body)
    assert message["id"] == 8
    assert list(message)[-1] == ("id" if id_last else "result")
    text = message["result"]["content"][0]["text"]
    assert (
        len(text) == size - size // 80
    )  # every line of 80 bytes ends in an escape that stands for one character
    assert text.count("\n") == size // 80


def test_progress_comes_as_events_in_order_before_the_result(
    connection: Connection, legacy: Endpoint
) -> None:
    raw = wire.tool_call(Session(legacy, "any"), "progress", {"count": 100}, identifier=4, token=77)
    answer = connection.exchange(raw)
    assert answer.headers["content-type"] == "text/event-stream"
    *events, last = wire.messages(answer)
    assert [event["params"]["progress"] for event in events] == list(range(1, 101))
    assert {event["params"]["progressToken"] for event in events} == {77}
    assert last["id"] == 4


def test_notifications_are_accepted_and_streams_and_deletes_are_answered(
    connection: Connection, legacy: Endpoint
) -> None:
    session = Session(legacy, "any")
    assert connection.exchange(wire.initialized(session)).status == 202
    assert connection.exchange(wire.event_stream(session)).status == 405
    assert connection.exchange(wire.end_session(session)).status == 200


@pytest.mark.parametrize("count", [3, 10, 1_000])
def test_the_tool_list_is_as_long_as_the_path_says(
    connection: Connection, legacy: Endpoint, count: int
) -> None:
    endpoint = Endpoint(legacy.port, f"/legacy/{count}")
    tools = wire.result_of(connection.exchange(wire.rpc_request(endpoint, "any", "tools/list")), 1)["tools"]
    assert len({tool["name"] for tool in tools}) == count
    assert tools[-1]["name"] == "echo"


def test_a_legacy_request_without_a_session_is_refused(connection: Connection, legacy: Endpoint) -> None:
    answer = connection.exchange(wire.rpc_request(legacy, None, "tools/list"))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)


def test_each_era_refuses_the_other_where_only_one_is_spoken(
    connection: Connection, legacy: Endpoint, modern: Endpoint
) -> None:
    to_legacy = connection.exchange(
        wire.rpc_request(Endpoint(legacy.port, "/legacy", "modern"), None, "tools/list")
    )
    assert (to_legacy.status, json.loads(to_legacy.body)["error"]["code"]) == (400, -32600)
    to_modern = connection.exchange(wire.initialize(Endpoint(modern.port, "/modern")))
    error = json.loads(to_modern.body)["error"]
    assert (to_modern.status, error["code"], error["data"]["supported"]) == (400, -32022, ["2026-07-28"])


def test_modern_requests_are_answered_without_a_session(connection: Connection, modern: Endpoint) -> None:
    found = wire.result_of(connection.exchange(wire.rpc_request(modern, None, "server/discover")), 1)
    assert (found["resultType"], found["supportedVersions"]) == ("complete", ["2026-07-28"])
    listed = wire.result_of(connection.exchange(wire.rpc_request(modern, None, "tools/list")), 1)
    assert listed["cacheScope"] == "public"
    called = connection.exchange(wire.tool_call(Session(modern, None), "echo", {"text": "x"}))
    assert wire.result_of(called, 1)["resultType"] == "complete"
    assert "mcp-session-id" not in called.headers
    unknown = connection.exchange(wire.rpc_request(modern, None, "ping"))
    assert (unknown.status, json.loads(unknown.body)["error"]["code"]) == (404, -32601)


def test_one_endpoint_speaks_both_eras(connection: Connection, legacy: Endpoint) -> None:
    for era in ("legacy", "modern"):
        endpoint = Endpoint(legacy.port, "/mcp", era)
        session = wire.open_session(connection, endpoint)
        load.check_echo(connection, session)


def test_garbage_is_a_parse_error_and_unknown_paths_are_not_found(
    connection: Connection, legacy: Endpoint
) -> None:
    garbage = connection.exchange(_post(legacy, b"not json"))
    assert (garbage.status, json.loads(garbage.body)["error"]["code"]) == (400, -32700)
    assert connection.exchange(_post(Endpoint(legacy.port, "/elsewhere"), b"{}")).status == 404


def test_requests_cut_anywhere_sent_in_chunks_or_back_to_back_are_all_answered(legacy: Endpoint) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    whole = _post(legacy, body)
    head = whole.partition(b"\r\n\r\n")[0].replace(
        f"Content-Length: {len(body)}".encode(), b"Transfer-Encoding: chunked"
    )
    chunked = (
        head + b"\r\n\r\n" + b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    )
    with socket.create_connection(("127.0.0.1", legacy.port), timeout=5) as raw:
        for cut in (1, 20, len(whole) - 1):
            raw.sendall(whole[:cut])
            raw.sendall(whole[cut:])
            assert b'"id":1' in _one_answer(raw)
        for at in range(0, len(chunked), 7):
            raw.sendall(chunked[at : at + 7])
        assert b'"id":1' in _one_answer(raw)
        raw.sendall(whole * 3)
        seen = b""
        while seen.count(b"HTTP/1.1 200") < 3 or not seen.endswith(b"}}"):
            seen += raw.recv(65536)
        assert seen.count(b'"id":1') == 3


def _one_answer(raw: socket.socket) -> bytes:
    seen = b""
    while not seen.endswith(b"}}"):
        seen += raw.recv(65536)
    return seen


def test_the_upstream_counts_the_calls_it_answered(stage: Stage, legacy: Endpoint) -> None:
    before = stage.upstream_calls()
    burst = load.with_event_loop([Session(legacy, "any")], calls=50, seconds=5.0, connections=4)
    assert burst.calls == 50
    assert stage.upstream_calls() - before == 50


def test_sessions_are_opened_in_the_number_asked_for(legacy: Endpoint) -> None:
    burst, sessions = load.set_up_sessions(legacy, 40, 5.0)
    assert burst.calls == 40
    assert len({session.identifier for session in sessions}) == 40


# -- the stdio upstream


def test_the_stdio_upstream_answers_line_by_line_and_ends_with_its_input() -> None:
    asked = [
        {"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}, "id": 0},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": "e",
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "ü\n"}},
        },
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "progress", "arguments": {"count": 3}, "_meta": {"progressToken": "t"}},
        },
        {"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {}},
        {
            "jsonrpc": "2.0",
            "id": 4,
            "method": "tools/call",
            "params": {"name": "large", "arguments": {"size": 800}},
        },
    ]
    said = subprocess.run(
        [str(programs.compiled("stdio_upstream"))],
        input="\n".join(map(json.dumps, asked)) + "\n",
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    opened, echoed, *events, done, unknown, large = map(json.loads, said.stdout.splitlines())
    assert (opened["id"], opened["result"]["protocolVersion"]) == (0, "2025-06-18")
    assert (echoed["id"], echoed["result"]["content"][0]["text"]) == ("e", "ü\n")
    assert [event["params"] for event in events] == [
        {"progressToken": "t", "progress": n, "total": 3} for n in (1, 2, 3)
    ]
    assert (done["id"], done["result"]["content"][0]["text"]) == (2, "done")
    assert (unknown["id"], unknown["error"]["code"]) == (3, -32601)
    assert large["result"]["content"][0]["text"].count("\n") == 10
