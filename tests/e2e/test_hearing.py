"""What legacy clients hear of, whatever happens to the session that tells them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.e2e.conftest import Harbour
from tests.support.gateway import running_gateway
from tests.support.peers import RpcRefused, StreamablePeer
from tests.support.waiting import eventually


def test_a_subscription_made_before_there_was_a_stream_survives_the_server(harbour: Harbour) -> None:
    updated = "notifications/resources/updated"
    with StreamablePeer(harbour.gateway, "stdio-legacy") as peer:
        peer.subscribe("item://1")
        peer.watch()
        peer.tool("touch", {"uri": "item://1"})
        peer.wait_for(updated)
        with pytest.raises(RpcRefused):
            peer.tool("crash")

        def told_again() -> bool:
            peer.tool("touch", {"uri": "item://1"})
            return len(peer.of(updated)) > 1

        eventually(told_again, "an update from the server that is back")


class Brief(BaseHTTPRequestHandler):
    """A server whose stream for what belongs to no request says `SAYS`, and ends."""

    protocol_version = "HTTP/1.1"
    SAYS = b""
    times: ClassVar[list[float]] = []

    def do_GET(self) -> None:
        self.times.append(time.monotonic())
        self._answer(self.SAYS, "text/event-stream")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message["method"] == "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            result = {**said, "serverInfo": {"name": "brief", "version": "1"}}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            self._answer(body, "application/json")
        elif "id" in message:
            self.send_error(400)
        else:
            self._answer(b"", "application/json", 202)

    def do_DELETE(self) -> None:
        self._answer(b"", "application/json")

    def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Mcp-Session-Id", "1"), ("Content-Length", len(body))):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quietly."""


@contextmanager
def listening_to(folder: Path, says: bytes) -> Iterator[list[float]]:
    """When such a server was asked for its stream, on behalf of a client that listens."""
    kind = type("Own", (Brief,), {"SAYS": says, "times": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        entry = {
            "id": "brief",
            "upstream": {"url": f"http://127.0.0.1:{server.server_port}/mcp", "era": "legacy"},
        }
        with running_gateway(folder, [entry]) as gateway, StreamablePeer(gateway, "brief") as peer:
            peer.watch()
            yield kind.times
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("says", [b"", b": hello\n\n", b"id: 1\ndata:\n\n"])
def test_a_stream_that_ends_at_once_is_asked_for_less_and_less(tmp_path: Path, says: bytes) -> None:
    with listening_to(tmp_path, says) as times:
        eventually(lambda: len(times) > 3, "the stream to be opened again and again")
        assert times[3] - times[2] > 1.5


@pytest.mark.parametrize(
    "says",
    [
        b"retry: 200\nid: 1\ndata:\n\n",
        b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n',
    ],
)
def test_a_server_that_wants_to_be_polled_or_has_news_is_not_kept_waiting(
    tmp_path: Path, says: bytes
) -> None:
    with listening_to(tmp_path, says) as times:
        eventually(lambda: len(times) > 8, "the stream to be opened again and again")
