"""Webhooks: other programs judge requests and change them, and nothing but them."""

from __future__ import annotations

import hmac
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import running_gateway, stdio_server
from tests.support.peers import SsePeer, StdioPeer, StreamablePeer

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
SECRET = "between us"


class Judge:
    """A webhook that answers as the test wants."""

    def __init__(self) -> None:
        self.asked: list[Json] = []
        self.signed: list[bool] = []
        self.answer: Callable[[Json], tuple[int, Any]] = lambda _: (200, {"allowed": True})
        judge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked = json.loads(body)
                stamp = self.headers.get("X-ToolHive-Timestamp", "")
                judge.asked.append(asked)
                right = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, "sha256").hexdigest()
                judge.signed.append(self.headers.get("X-ToolHive-Signature") == f"sha256={right}")
                status, verdict = judge.answer(asked)
                if isinstance(verdict, dict):
                    verdict = {"version": "v0.1.0", "uid": asked["uid"], **verdict}
                out = json.dumps(verdict).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/judge"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def hook(self, **more: Any) -> Json:
        return {"name": "judge", "url": self.url, "hmac_secret": SECRET, **more}


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge()
    yield made
    made.server.shutdown()
    made.server.server_close()


@contextmanager
def served(folder: Path, webhooks: Json, **entry: Any) -> Iterator[tuple[Caller, Shelf]]:
    shelf = Shelf(folder / "s", tool("say"), tool("other"))
    with (
        shelf.http("one", **entry) as server,
        running_gateway(folder, [server], webhooks=webhooks) as gateway,
    ):
        yield Caller(gateway.address, "one"), shelf


def test_a_judge_sees_who_asks_for_what_and_may_refuse(tmp_path: Path, judge: Judge) -> None:
    judge.answer = lambda asked: (
        200,
        {"allowed": "secret" not in json.dumps(asked["mcp_request"]), "message": "no secrets"},
    )
    with served(tmp_path, {"validating": [judge.hook()]}) as (caller, shelf):
        assert "result" in caller.modern_tool("say", {"text": "fine"}).message
        asked = judge.asked[-1]
        assert asked["version"] == "v0.1.0"
        assert asked["mcp_request"]["params"]["arguments"] == {"text": "fine"}
        assert asked["principal"]["sub"] == "anonymous"
        assert asked["context"]["server_name"] == "one"
        assert all(judge.signed)
        refused = caller.modern_tool("say", {"text": "a secret"})
        assert refused.status == 403
        assert refused.error["message"] == "the request was refused by `judge`: no secrets"
        assert len(shelf.calls()) == 1


def test_a_judge_is_told_how_and_for_whom_somebody_calls(tmp_path: Path, judge: Judge) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, webhooks={"validating": [judge.hook()]}) as gateway:
        for peer in (SsePeer, StdioPeer, StreamablePeer):
            with peer(gateway, "one") as client:
                client.tool("echo", {"text": "a"})
    calls = [asked for asked in judge.asked if asked["mcp_request"]["method"] == "tools/call"]
    assert [asked["context"]["transport"] for asked in calls] == ["sse", "stdio", "streamable-http"]
    assert [asked["context"]["source_ip"] for asked in calls] == ["127.0.0.1", "unix", "127.0.0.1"]
    assert "delegation" not in calls[0]["principal"]


def test_an_unprocessable_request_is_a_refused_one_whatever_the_policy(tmp_path: Path, judge: Judge) -> None:
    judge.answer = lambda _: (422, {})
    with served(tmp_path, {"validating": [judge.hook(failure_policy="ignore")]}) as (caller, shelf):
        assert caller.modern_tool("say").status == 403
        assert shelf.calls() == []


BROKEN: list[Any] = [(500, {}), (200, "nonsense"), (200, {"uid": "another", "allowed": True})]


def test_a_judge_that_fails_is_obeyed_or_ignored_as_configured(tmp_path: Path, judge: Judge) -> None:
    with served(tmp_path / "a", {"validating": [judge.hook()]}) as (caller, _):
        for answer in BROKEN:
            judge.answer = lambda _, answer=answer: answer
            assert "could not be asked" in caller.modern_tool("say").error["message"]
    with served(tmp_path / "b", {"validating": [judge.hook(failure_policy="ignore")]}) as (caller, _):
        for answer in BROKEN:
            judge.answer = lambda _, answer=answer: answer
            assert "result" in caller.modern_tool("say").message


def patch(*operations: Json) -> Callable[[Json], tuple[int, Any]]:
    return lambda _: (200, {"allowed": True, "patch_type": "json_patch", "patch": list(operations)})


def test_a_change_is_seen_by_everything_after_it(tmp_path: Path, judge: Judge) -> None:
    with served(tmp_path, {"mutating": [judge.hook()]}, tools={"deny": ["other"]}) as (caller, shelf):
        judge.answer = patch({"op": "add", "path": "/mcp_request/params/arguments/text", "value": "changed"})
        said = caller.modern_tool("say", {"text": "original"}).result["structuredContent"]
        assert said["arguments"] == {"text": "changed"}
        judge.answer = patch({"op": "replace", "path": "/mcp_request/params/name", "value": "other"})
        assert caller.modern_tool("say").error["message"] == "Unknown tool: other"
        assert [call["name"] for call in shelf.calls()] == ["say"]


OUTSIDE: list[Json] = [
    {"op": "replace", "path": "/principal/sub", "value": "root"},
    {"op": "replace", "path": "/mcp_request", "value": {}},
    {"op": "replace", "path": "/mcp_request/method", "value": "resources/read"},
    {"op": "replace", "path": "/mcp_request/id", "value": 99},
    {"op": "copy", "from": "/context/source_ip", "path": "/mcp_request/params/arguments/text"},
    {"op": "remove", "path": "/mcp_request/params/nothing"},
    {"op": "replace", "path": "/mcp_request/params", "value": 5},
]


def test_a_patch_stays_inside_the_params(tmp_path: Path, judge: Judge) -> None:
    with served(tmp_path, {"mutating": [judge.hook()]}) as (caller, shelf):
        for operation in OUTSIDE:
            judge.answer = patch(operation)
            assert "could not be asked" in caller.modern_tool("say").error["message"], operation
        assert shelf.calls() == []
