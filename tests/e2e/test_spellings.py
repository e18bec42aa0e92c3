"""JSON has many spellings of one text: none of them changes whose message it is, or what it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.channels import http_request
from tests.support.gateway import Gateway, running_gateway
from tests.support.peers import META, MODERN, StdioPeer, StreamablePeer

Json = dict[str, Any]
TASKS = META + "tasks"
AUTH = {"mode": "shared_token", "shared_token": "the-token-of-this-test-and-of-no-other"}
STATE = "what only the server may read"


def modern(method: str, params: Json, capabilities: Json) -> bytes:
    own = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": own}}
    return json.dumps(message).encode()


def with_slashes(text: bytes) -> bytes:
    """As PHP's encoder writes it."""
    return text.replace(b"/", b"\\/")


def with_numbers(text: bytes) -> bytes:
    return text.replace(b"/", b"\\u002f")


SPELLINGS = pytest.mark.parametrize("spelled", [with_slashes, with_numbers], ids=lambda how: how.__name__)


@SPELLINGS
@pytest.mark.parametrize("server", SERVERS)
def test_a_modern_client_is_one_however_it_spells_its_metadata(
    harbour: Harbour, server: str, spelled: Any
) -> None:
    line = spelled(modern("tools/call", {"name": "echo", "arguments": {"text": "x"}}, {}))
    done = harbour.gateway.command("proxy", "stdio", server, stdin=line.decode() + "\n")
    answer = json.loads(done.stdout)
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["content"][0]["text"] == "x"


def test_a_text_about_metadata_makes_nobody_modern(harbour: Harbour) -> None:
    words = f"put {META}protocolVersion into _meta, escaped: \u2028"
    with StdioPeer(harbour.gateway, "stdio-legacy") as peer:
        assert peer.tool("echo", {"text": words})["content"][0]["text"] == words


@pytest.mark.parametrize("server", SERVERS)
def test_metadata_of_null_is_none(harbour: Harbour, server: str) -> None:
    """So some encoders write what is not there."""
    with StreamablePeer(harbour.gateway, server) as peer:
        params = {"name": "echo", "arguments": {"text": "x"}, "_meta": None}
        assert peer.request("tools/call", params)["content"][0]["text"] == "x"


class Plain:
    """A modern server that says what it is told to, byte by byte."""

    def __init__(self) -> None:
        self.results: dict[str, bytes] = {}
        own = {"tools": {}, "extensions": {TASKS: {}}}
        self.results["server/discover"] = json.dumps(
            {
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "capabilities": own,
                "serverInfo": {"name": "plain", "version": "1"},
            }
        ).encode()
        self.results["tools/list"] = b'{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}'

    @contextmanager
    def running(self) -> Iterator[str]:
        with ThreadingHTTPServer(("127.0.0.1", 0), self.handler()) as server:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/mcp"
            server.shutdown()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        results = self.results

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one piece, as the short way wants it

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                number = json.dumps(message["id"]).encode()
                found = results[message["method"]]
                body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, found)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
                """Nothing on stderr."""

        return Handler


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[tuple[Plain, Gateway]]:
    """With a key, because only then does it matter whose a task is."""
    server = Plain()
    with (
        server.running() as url,
        running_gateway(tmp_path, [{"id": "one", "upstream": {"url": url}}], auth=AUTH) as gateway,
    ):
        yield server, gateway


def post(gateway: Gateway, method: str, name: str, body: bytes) -> Json:
    routing = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": name}
    headers = {**routing, "Authorization": f"Bearer {AUTH['shared_token']}"}
    return http_request(gateway.url("one"), "POST", body, headers).json()


QUESTION = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("kind", ["input_required", "input\\u005frequired", "\\u0069nput_required"])
def test_a_question_is_one_however_it_is_spelled(plain: tuple[Plain, Gateway], kind: str) -> None:
    server, gateway = plain
    asked = json.dumps({"name": {"method": "elicitation/create", "params": QUESTION}})
    text = f'{{"resultType":"{kind}","inputRequests":{asked},"requestState":"{STATE}"}}'
    server.results["tools/call"] = text.encode()
    call = {"name": "ask", "arguments": {}}
    for _ in range(3):  # the first opens the way, the others may take a shorter one
        able = post(gateway, "tools/call", "ask", modern("tools/call", call, {"elicitation": {}}))
        assert able["result"]["resultType"] == "input_required"
        assert STATE not in json.dumps(able)
        unable = post(gateway, "tools/call", "ask", modern("tools/call", call, {}))
        assert unable["error"]["code"] == -32021


@SPELLINGS
def test_a_task_belongs_to_its_client_however_that_declares_tasks(
    plain: tuple[Plain, Gateway], spelled: Any
) -> None:
    server, gateway = plain
    times = {"createdAt": "2026-11-16T00:00:00Z", "lastUpdatedAt": "2026-11-16T00:00:00Z", "ttlMs": None}
    declared = {"extensions": {TASKS: {}}}
    for number in range(3):
        task = {"taskId": f"job-{number}", "status": "working", **times}
        server.results["tools/call"] = json.dumps({"resultType": "task", **task}).encode()
        server.results["tasks/get"] = json.dumps({"resultType": "complete", **task}).encode()
        call = modern("tools/call", {"name": "work", "arguments": {}}, declared)
        created = post(gateway, "tools/call", "work", spelled(call))["result"]
        look = modern("tasks/get", {"taskId": created["taskId"]}, declared)
        found = post(gateway, "tasks/get", created["taskId"], spelled(look))
        assert found["result"]["status"] == "working", found
