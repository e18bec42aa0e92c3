"""The small client of the command line against servers that make it work for its answer."""

from __future__ import annotations

import io
import json
import signal
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from mooring.interfaces.cli import patience
from mooring.interfaces.cli.client import Client
from mooring.interfaces.cli.failure import Failed

LIMIT_SECONDS = 20
Object = dict[str, Any]


class Scripted(BaseHTTPRequestHandler):
    """Answers `initialize`; the rest is the test's."""

    protocol_version = "HTTP/1.1"
    on_post: Callable[[Scripted, Object], None]
    on_get: Callable[[Scripted], None]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message.get("method") == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": {"name": "x", "version": "1"},
            }
            self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})
        elif "id" not in message:
            self.reply(202)
        else:
            type(self).on_post(self, message)

    def do_GET(self) -> None:
        type(self).on_get(self)

    def do_DELETE(self) -> None:
        self.reply(200)

    def reply(self, status: int, message: Object | None = None) -> None:
        body = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def stream(self, text: str) -> None:
        """An event stream that ends after this text."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def connected(
    folder: Path, on_post: Callable[[Any, Object], None], on_get: Callable[[Any], None] | None = None
) -> Iterator[Client]:
    handler = type("Handler", (Scripted,), {"on_post": on_post, "on_get": on_get})
    with Server(str(folder / "s"), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with Client(folder / "s", "x", {}, notify=lambda *_: None, answer=lambda *_: None) as client:
                yield client
        finally:
            server.shutdown()
            thread.join(LIMIT_SECONDS)


def result(message: Object, value: Object) -> Object:
    return {"jsonrpc": "2.0", "id": message["id"], "result": value}


def test_all_pages_of_a_list_are_fetched(tmp_path: Path) -> None:
    pages = {None: ([1], ""), "": ([2], "b"), "b": ([3], None)}

    def on_post(handler: Any, message: Object) -> None:
        items, cursor = pages[message["params"].get("cursor")]
        handler.reply(
            200, result(message, {"tools": items} | ({} if cursor is None else {"nextCursor": cursor}))
        )

    with connected(tmp_path, on_post) as client:
        assert client.list_all("tools/list", "tools") == [1, 2, 3]


def test_a_server_that_repeats_its_cursor_does_not_hold_the_client_for_ever(tmp_path: Path) -> None:
    def on_post(handler: Any, message: Object) -> None:
        handler.reply(200, result(message, {"tools": [1], "nextCursor": "again"}))

    with connected(tmp_path, on_post) as client:
        assert client.list_all("tools/list", "tools") == [1, 1]


class Watched(io.StringIO):
    """A terminal on which somebody sees when something appears."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.seen.set()


def test_whoever_waits_for_a_server_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Watched()

    def on_post(handler: Any, message: Object) -> None:
        assert terminal.seen.wait(LIMIT_SECONDS)
        handler.reply(200, result(message, {"tools": []}))

    with connected(tmp_path, on_post) as client:
        monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.0)
        monkeypatch.setattr("sys.stderr", terminal)
        client.list_all("tools/list", "tools")
    assert terminal.getvalue() == "waiting for `x`; Ctrl-C gives up\n"


@pytest.mark.parametrize(
    ("kind", "hint"), [("process", ": see `mooring logs x`"), ("remote", "")], ids=["process", "remote"]
)
def test_a_server_that_failed_is_told_without_our_number(tmp_path: Path, kind: str, hint: str) -> None:
    def on_post(handler: Any, message: Object) -> None:
        error = {"code": -31001, "message": "it ended with exit code 3"}
        handler.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    def on_get(handler: Any) -> None:
        handler.stream(json.dumps({"servers": [{"id": "x", "kind": kind}]}))  # ends, as the API's answers do

    with connected(tmp_path, on_post, on_get) as client, pytest.raises(Failed) as raised:
        client.list_all("tools/list", "tools")
    assert str(raised.value) == f"it ended with exit code 3{hint}"


def test_a_stream_that_ends_early_is_resumed_where_it_ended(tmp_path: Path) -> None:
    asked: list[str] = []
    waiting: list[Object] = []

    def on_post(handler: Any, message: Object) -> None:
        waiting.append(message)
        handler.stream("id: 7\nretry: 10\ndata:\n\n")

    def on_get(handler: Any) -> None:
        asked.append(handler.headers["Last-Event-ID"])
        handler.stream(f"id: 8\ndata: {json.dumps(result(waiting[0], {'ok': 1}))}\n\n")

    with connected(tmp_path, on_post, on_get) as client:
        assert client.request("tools/call", {}) == {"ok": 1}
    assert asked == ["7"]


def test_a_stream_that_ends_without_an_answer_is_an_error(tmp_path: Path) -> None:
    with (
        connected(tmp_path, lambda handler, _message: handler.stream(": nothing\n\n")) as client,
        pytest.raises(Failed, match="ended the stream without an answer"),
    ):
        client.request("tools/call", {})


def test_a_stream_that_always_ends_early_is_given_up(tmp_path: Path) -> None:
    early = "id: 1\ndata:\n\n"
    with (
        connected(
            tmp_path, lambda handler, _message: handler.stream(early), lambda handler: handler.stream(early)
        ) as client,
        pytest.raises(Failed, match="ended the stream without an answer"),
    ):
        client.request("tools/call", {})


def test_a_server_s_request_that_cannot_be_answered_here_gets_an_error(tmp_path: Path) -> None:
    heard: list[Object] = []

    def on_post(handler: Any, message: Object) -> None:
        if "method" not in message:
            heard.append(message)
            handler.reply(202)
            return
        question = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {}}
        handler.stream(f"data: {json.dumps(question)}\n\ndata: {json.dumps(result(message, {}))}\n\n")

    with connected(tmp_path, on_post) as client:
        client.request("tools/call", {})
    assert [(message["id"], message["error"]["code"]) for message in heard] == [("q", -32601)]


def test_ctrl_c_cancels_the_call_on_the_server_too(mooring: Any, gateway: Any) -> None:
    with subprocess.Popen(
        mooring.arguments("tool", "call", "library", "index_books", "steps=100"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=mooring.environment,
        cwd=mooring.folder,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("progress 1/100")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, out) == (1, "")
    assert "Traceback" not in err
    cancels = [message for message in gateway.accepted if message["method"] == "notifications/cancelled"]
    assert [cancel["params"]["requestId"] for cancel in cancels] == [3]
