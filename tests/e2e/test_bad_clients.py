"""Clients that misbehave: each fault has its answer, and the gateway stays small and serves the others."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from tests.support.channels import Response, http_request
from tests.support.gateway import Gateway, http_server, running_gateway, stdio_server
from tests.support.peers import META, ModernHttpPeer, SsePeer, StdioPeer, StreamablePeer, tool_params
from tests.support.waiting import eventually

MAX_BODY_BYTES = 200_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("clients")
    with ExitStack() as stack:
        servers = [
            stdio_server("s", folder / "stdio.journal", share="global"),
            stack.enter_context(http_server("h", folder / "http.journal")),
            stack.enter_context(http_server("m", folder / "modern.journal", "modern")),
            {
                "id": "silent",
                "workload": {"run": [sys.executable, "-c", "import sys; sys.stdin.read()"], "era": "legacy"},
            },
        ]
        limits = {"max_body_bytes": MAX_BODY_BYTES}
        yield stack.enter_context(running_gateway(folder, servers, limits=limits))


def initialize(version: str = "2025-11-25") -> dict[str, Any]:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "bad", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def post(gateway: Gateway, body: Any, server: str = "s", **headers: Any) -> Response:
    return http_request(
        gateway.url(server), "POST", body, {k.replace("_", "-"): v for k, v in headers.items()}
    )


def error_of(response: Response) -> dict[str, Any]:
    return response.json()["error"]


def test_a_legacy_request_without_a_session_is_refused(gateway: Gateway) -> None:
    answer = post(gateway, PING)
    assert answer.status == 400
    assert "Mcp-Session-Id" in error_of(answer)["message"]
    assert answer.json()["id"] == 1


@pytest.mark.parametrize("session", ["forged", "A" * 200, "", "..%00"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_forged_session_does_not_exist(gateway: Gateway, session: str, method: str) -> None:
    body = json.dumps(PING) if method == "POST" else None
    answer = http_request(gateway.url("s"), method, body, {"Mcp-Session-Id": session})
    assert answer.status == 404


def test_a_session_of_another_server_or_one_that_ended_does_not_exist(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "s") as peer:
        session = peer.channel.session
        assert post(gateway, PING, "h", Mcp_Session_Id=session).status == 404
        assert post(gateway, PING, "s", Mcp_Session_Id=session).status == 200
    assert post(gateway, PING, "s", Mcp_Session_Id=session).status == 404


def test_a_session_without_a_stream_of_its_own_takes_no_messages_over_sse(gateway: Gateway) -> None:
    """Its answer would have nowhere to go."""
    with StreamablePeer(gateway, "s") as peer:
        address = f"{gateway.url('s')}/messages?session={peer.channel.session}"
        assert http_request(address, "POST", PING).status == 404


def test_an_idle_session_expires(tmp_path: Path) -> None:
    servers = [stdio_server("s", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, sessions={"idle_ttl_seconds": 0.5}) as gateway:
        answer = post(gateway, initialize())
        session = answer.headers["Mcp-Session-Id"]
        eventually(lambda: gateway.status("s")["sessions"] == 0, "the session to expire", limit=20)
        assert post(gateway, PING, Mcp_Session_Id=session).status == 404


def test_a_session_does_not_expire_while_its_server_starts(tmp_path: Path) -> None:
    server = stdio_server("s", tmp_path / "journal")
    run = server["workload"]["run"]
    server["workload"]["run"] = ["sh", "-c", 'sleep 2; exec "$@"', "sh", *run]
    with running_gateway(tmp_path, [server], sessions={"idle_ttl_seconds": 0.5}) as gateway:
        assert post(gateway, initialize()).headers["Mcp-Session-Id"] is not None


def test_an_id_that_is_in_use_is_refused_and_the_first_call_goes_on(gateway: Gateway) -> None:
    with StdioPeer(gateway, "s") as peer:
        message = {"jsonrpc": "2.0", "id": "twin", "method": "tools/call"}
        peer.channel.send({**message, "params": tool_params("nap", {"seconds": 0.5})})
        peer.channel.send({**message, "params": tool_params("echo", {"text": "twin"})})
        eventually(lambda: len(peer.strays) == 2, "two answers")
        assert peer.strays[0]["error"]["code"] == -32600
        assert peer.strays[1]["result"]["content"][0]["text"] == "woke up"
        peer.channel.send({**message, "params": tool_params("echo", {"text": "free again"})})
        eventually(lambda: len(peer.strays) == 3, "a third")
        assert peer.strays[2]["result"]["content"][0]["text"] == "free again"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"hello", -32700),
        (b'{"jsonrpc":"2.0"', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}', -32700),
        (b"1", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 2000 + b'","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 90_000 + b"]" * 90_000 + b"}", -32600),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}}",
            None,
        ),
    ],
)
def test_what_is_not_a_message_is_refused_with_its_error(
    gateway: Gateway, body: bytes, code: int | None
) -> None:
    with StreamablePeer(gateway, "s") as peer:
        answer = http_request(peer.channel.url, "POST", body, peer.headers_for({}))
        if code is not None:
            assert answer.status == 400
            assert error_of(answer)["code"] == code
        else:
            assert answer.status in (200, 400)
        assert peer.request("ping") == {}
    assert "\nTraceback" not in gateway.log()


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", None, "application/x-www-form-urlencoded", "multipart/form-data"),
        *("application/json5", "application/json-patch+json", "text/plain; application/json", ""),
    ],
)
def test_only_json_is_taken(gateway: Gateway, kind: str | None) -> None:
    assert post(gateway, json.dumps(PING).encode(), Content_Type=kind).status == 415
    with SsePeer(gateway, "s") as peer:
        answer = http_request(peer.channel.endpoint, "POST", json.dumps(PING), {"Content-Type": kind})
        assert answer.status == 415
        assert peer.request("ping") == {}


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json;"])
def test_json_is_taken_however_its_type_is_written(gateway: Gateway, kind: str) -> None:
    with StreamablePeer(gateway, "s") as peer:
        headers = {**peer.headers_for({}), "Content-Type": kind}
        assert http_request(peer.channel.url, "POST", PING, headers).status == 200


@pytest.mark.parametrize(
    "name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID", "Origin", "Content-Type", "Host"]
)
def test_a_header_that_decides_something_is_given_once(gateway: Gateway, name: str) -> None:
    """Another reader of the request might take the other one."""
    with StreamablePeer(gateway, "s") as one, StreamablePeer(gateway, "s") as another:
        given = {
            "Mcp-Session-Id": (one.channel.session, another.channel.session),
            "MCP-Protocol-Version": ("2025-11-25", "2026-07-28"),
            "Last-Event-ID": ("1-1", "1-2"),
            "Origin": (gateway.address, "http://evil.example"),
            "Content-Type": ("application/json", "text/plain"),
            "Host": (f"{gateway.host}:{gateway.port}", "evil.example"),
        }
        body = json.dumps(PING)
        ordinary = {"Host": given["Host"][0], "Content-Type": "application/json", **one.headers_for({})}
        lines = [f"{key}: {value}" for key, value in ordinary.items() if key != name]
        lines += [f"{name}: {value}" for value in given[name]]
        head = "\r\n".join(["POST /mcp/s HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
        with socket.create_connection((gateway.host, gateway.port), timeout=10) as connection:
            connection.sendall((head + body).encode())
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert response.status == 400
            assert "more than o" in response.read().decode()


def test_a_get_that_does_not_accept_streams_is_refused(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "s") as peer:
        headers = {**peer.headers_for({}), "Accept": "application/json"}
        assert http_request(peer.channel.url, "GET", None, headers).status == 406


def test_a_client_that_accepts_no_streams_gets_json(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "h") as peer:
        headers = {**peer.headers_for({}), "Accept": "application/json"}
        params = tool_params("count", {"steps": 3}, progressToken=1)
        body = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
        answer = http_request(peer.channel.url, "POST", body, headers)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json()["result"]["content"][0]["text"] == "counted to 3"


def test_a_body_over_the_limit_is_refused(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "s") as peer:
        body = {**PING, "params": {"padding": "x" * MAX_BODY_BYTES}}
        assert http_request(peer.channel.url, "POST", body, peer.headers_for({})).status == 413
        assert peer.request("ping") == {}


@pytest.mark.parametrize("path", ["/mcp/s", "/mcp/s/sse", "/mcp/s/messages", "/healthz"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}]
)
def test_foreign_origins_and_hosts_are_refused(gateway: Gateway, path: str, headers: dict[str, str]) -> None:
    answer = http_request(gateway.address + path, "POST", initialize(), headers)
    assert answer.status == 403
    assert "error" in answer.json()


def test_our_own_origin_is_welcome(gateway: Gateway) -> None:
    answer = post(gateway, initialize(), Origin=gateway.address)
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == gateway.address


@pytest.mark.parametrize("path", ["/mcp/nobody", "/mcp", "/mcp/", "/", "/api/v1/status", "/mcp/s/other"])
def test_unknown_addresses_and_the_control_api_are_not_found_over_tcp(gateway: Gateway, path: str) -> None:
    assert http_request(gateway.address + path, "POST", PING).status == 404


def test_unknown_methods_are_404_to_modern_and_200_to_legacy_clients(gateway: Gateway) -> None:
    unknown = {"jsonrpc": "2.0", "id": 1, "method": "no/such"}
    for server in ("s", "h", "m"):
        with StreamablePeer(gateway, server) as peer:
            legacy = http_request(peer.channel.url, "POST", unknown, peer.headers_for({}))
            data = legacy.body or legacy.events[-1].data.encode()
            assert (legacy.status, json.loads(data)["error"]["code"]) == (200, -32601)
        modern = http_request(
            gateway.url(server), "POST", modern_message("no/such"), modern_headers("no/such")
        )
        assert (modern.status, error_of(modern)["code"]) == (404, -32601)


def modern_message(method: str, **params: Any) -> dict[str, Any]:
    own = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": own}}


def modern_headers(method: str, **more: Any) -> dict[str, Any]:
    return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **more}


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Mcp-Method": "tools/list", "Mcp-Name": "echo"}, 400, -32020),
        ({"Mcp-Method": "tools/call", "Mcp-Name": "other"}, 400, -32020),
        ({"Mcp-Method": "tools/call"}, 400, -32020),
        ({"Mcp-Name": "echo"}, 400, -32020),
        ({"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?ZWNobw==?="}, 200, None),
        ({"Mcp-Method": "tools/call", "Mcp-Name": "echo", "MCP-Protocol-Version": "2099-01-01"}, 400, -32020),
    ],
)
@pytest.mark.parametrize("server", ["s", "h", "m"])
def test_headers_of_a_modern_request_must_say_what_its_body_says(
    gateway: Gateway, server: str, headers: dict[str, str], status: int, code: int | None
) -> None:
    body = modern_message("tools/call", name="echo", arguments={"text": "x"})
    given = {"MCP-Protocol-Version": "2026-07-28", **headers}
    answer = http_request(gateway.url(server), "POST", body, given)
    assert answer.status == status
    if code is not None:
        assert error_of(answer)["code"] == code


def test_modern_requests_need_their_metadata_and_a_revision_that_we_speak(gateway: Gateway) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = http_request(gateway.url("m"), "POST", body, modern_headers("tools/list"))
    assert (answer.status, error_of(answer)["code"]) == (400, -32602)
    later = modern_message("tools/list")
    later["params"]["_meta"][META + "protocolVersion"] = "2027-01-01"
    headers = modern_headers("tools/list", **{"MCP-Protocol-Version": "2027-01-01"})
    answer = http_request(gateway.url("m"), "POST", later, headers)
    assert (answer.status, error_of(answer)["code"]) == (400, -32022)
    assert error_of(answer)["data"]["supported"] == ["2026-07-28"]


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe"])
def test_what_modern_clients_no_longer_have_is_not_found(gateway: Gateway, method: str) -> None:
    answer = http_request(gateway.url("h"), "POST", modern_message(method), modern_headers(method))
    assert answer.status == 404


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_modern_clients_only_post(gateway: Gateway, method: str) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28"}
    assert http_request(gateway.url("m"), method, None, headers).status == 405


def test_requests_before_initialize_are_refused_over_stdio_and_change_nothing(gateway: Gateway) -> None:
    with Unmannered(gateway, "s") as peer:
        peer.say({"id": 1, "method": "tools/list"})
        assert peer.answer()["error"]["code"] == -32600
        peer.say({"id": 2, "method": "ping"})
        assert peer.answer()["result"] == {}
        peer.say({"method": "notifications/initialized"})
        peer.say({"id": 3, "method": "tools/list"})
        assert peer.answer()["error"]["code"] == -32600
        peer.write(b"this is not json\n")
        assert "error" in peer.answer()
        peer.say({**initialize(), "id": 4})
        assert peer.answer()["result"]["protocolVersion"] == "2025-11-25"
        peer.say({"id": 5, "method": "initialize", "params": initialize()["params"]})
        assert peer.answer()["error"]["code"] == -32600
        peer.say({"method": "notifications/initialized"})
        peer.say({"id": 6, "method": "tools/list"})
        assert len(peer.answer()["result"]["tools"]) == 5


def test_what_a_client_pipes_in_at_once_is_taken_in_its_order(gateway: Gateway) -> None:
    """As `printf ... | mooring proxy stdio ID` does."""
    lines = [
        {**initialize(), "id": 1},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "ping"},
        {"id": 3, "method": "initialize", "params": initialize()["params"]},
        {"id": 4, "method": "tools/list"},
    ]
    with Unmannered(gateway, "s") as peer:
        peer.write(b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines))
        answers = [peer.answer() for _ in range(4)]
        order = [answer["id"] for answer in answers]
        by_id = {answer["id"]: answer for answer in answers}
        assert by_id[2]["result"] == {}
        assert by_id[3]["error"]["code"] == -32600
        assert len(by_id[4]["result"]["tools"]) == 5
        assert order.index(1) < order.index(4)


def test_what_is_piped_in_at_once_is_bounded(gateway: Gateway) -> None:
    with Unmannered(gateway, "silent") as peer:
        peer.say({**initialize(), "id": 1})
        for number in range(2, 200):
            peer.say({"id": number, "method": "tools/list", "params": {"x": "x" * 9000}})
        assert "wait for its answer" in peer.answer()["error"]["message"]


class Unmannered:
    """The lines of `mooring proxy stdio`, with no manners at all."""

    def __init__(self, gateway: Gateway, server: str) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(15)
        self._connection.connect(str(gateway.socket))
        lines = [
            f"GET /api/v1/stdio/{server} HTTP/1.1",
            "Host: x",
            "Connection: Upgrade",
            "Upgrade: mcp-stdio",
        ]
        self._connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self._file = self._connection.makefile("rb")
        while self._file.readline() != b"\r\n":
            pass

    def say(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self._connection.sendall(data)

    def answer(self) -> dict[str, Any]:
        return json.loads(self._file.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._connection.close()


@pytest.mark.parametrize("server", ["s", "h", "m"])
def test_clients_that_never_read_cost_bounded_memory(gateway: Gateway, server: str) -> None:
    """Ten clients are sent 40 MB of progress each, and read none of it."""
    arguments = {"steps": 400, "padding": 100_000}
    body = modern_message("tools/call", name="count", arguments=arguments)
    body["params"]["_meta"]["progressToken"] = 1
    content = json.dumps(body).encode()
    lines = [
        "POST /mcp/" + server + " HTTP/1.1",
        f"Host: {gateway.host}:{gateway.port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        *(
            f"{name}: {value}"
            for name, value in modern_headers("tools/call", **{"Mcp-Name": "count"}).items()
        ),
        f"Content-Length: {len(content)}",
    ]
    with ExitStack() as stack:
        witness = stack.enter_context(SsePeer(gateway, "s"))
        before = gateway.memory_bytes
        for _ in range(10):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((gateway.host, gateway.port))
            deaf.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        most = 0
        for _ in range(20):
            assert witness.tool("echo", {"text": "here"})["content"][0]["text"] == "here"
            most = max(most, gateway.memory_bytes - before)
            time.sleep(0.1)
        assert most < 120 * 1024 * 1024
    eventually(lambda: gateway.in_flight(server) == 0, "their calls to be over")


def test_a_flood_of_sessions_is_served_and_forgotten(gateway: Gateway) -> None:
    before = gateway.memory_bytes
    known = gateway.status("h")["sessions"]
    for _ in range(300):
        assert post(gateway, initialize(), "h").status == 200
    assert gateway.status("h")["sessions"] == known + 300
    assert gateway.memory_bytes - before < 30 * 1024 * 1024
    with ModernHttpPeer(gateway, "h") as peer:
        assert peer.tool("echo", {"text": "still"})["content"][0]["text"] == "still"


def test_half_a_request_and_a_hang_up_leave_nothing(gateway: Gateway) -> None:
    for _ in range(20):
        with socket.create_connection((gateway.host, gateway.port)) as connection:
            connection.sendall(b"POST /mcp/s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    with StreamablePeer(gateway, "s") as peer:
        assert peer.request("ping") == {}
    assert gateway.in_flight("s") == 0


def test_an_answer_to_a_question_that_nobody_asked_is_ignored(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "s") as peer:
        for number in (1, "1", 99):
            stray = {"jsonrpc": "2.0", "id": number, "result": {}}
            assert http_request(peer.channel.url, "POST", stray, peer.headers_for({})).status == 202
        assert peer.request("ping") == {}


def test_a_legacy_session_with_an_unknown_revision_header_is_refused(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "s") as peer:
        headers = {**peer.headers_for({}), "MCP-Protocol-Version": "1999-01-01"}
        assert http_request(peer.channel.url, "POST", PING, headers).status == 400


def test_a_request_state_is_good_for_one_call_only(gateway: Gateway) -> None:
    """Forged, used twice, or sent with another call: refused, and nothing runs again."""
    handlers = {"elicitation/create": lambda _: {"action": "accept", "content": {"colour": "x"}}}
    with ModernHttpPeer(gateway, "h", handlers=handlers) as peer:
        params = tool_params("ask", {"kind": "elicitation"})
        asked = peer.start("tools/call", params).result()
        name = next(iter(asked["inputRequests"]))
        answers = {"inputResponses": {name: handlers["elicitation/create"]({})}}
        retry = {**params, **answers, "requestState": asked["requestState"]}
        forged = peer.start(
            "tools/call", {**retry, "requestState": asked["requestState"][:-4] + "AAAA"}
        ).answer()
        assert forged["error"]["code"] == -32602
        other = peer.start("tools/call", {**retry, "arguments": {"kind": "sampling"}}).answer()
        assert other["error"]["code"] == -32602
        assert peer.start("tools/call", retry).result()["resultType"] == "complete"
        again = peer.start("tools/call", retry).result()
        assert again["isError"] is True
        assert "expired" in again["content"][0]["text"]
