"""A clock over HTTP+SSE, the first HTTP transport of MCP (2024-11-05), from the standard library alone.

`GET /sse` opens the stream and names the address for messages; answers come back on the stream.

    python clock_sse_server.py --port 7441
"""

from __future__ import annotations

import argparse
import json
import queue
import secrets
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

VERSION = "2024-11-05"
KEEP_ALIVE_SECONDS = 15

Object = dict[str, Any]


class Session:
    """One open stream: what is put into its queue goes to its client."""

    def __init__(self) -> None:
        self.outgoing: queue.Queue[Object] = queue.Queue()
        self.cancelled: dict[Any, threading.Event] = {}

    def send(self, message: Object) -> None:
        self.outgoing.put({"jsonrpc": "2.0", **message})

    def receive(self, message: Object) -> None:
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "notifications/cancelled":
            if event := self.cancelled.get(params.get("requestId")):
                event.set()
        elif method == "tools/call" and number is not None:
            cancelled = self.cancelled[number] = threading.Event()
            threading.Thread(target=self.call_tool, args=(number, params, cancelled), daemon=True).start()
        elif method in METHODS and number is not None:
            self.send({"id": number, "result": METHODS[method]})
        elif number is not None:
            self.send({"id": number, "error": {"code": -32601, "message": f"there is no method `{method}`"}})

    def call_tool(self, number: str | int, params: Object, cancelled: threading.Event) -> None:
        arguments = params.get("arguments") or {}
        match params.get("name"):
            case "now":
                self.send({"id": number, "result": now(arguments)})
            case "countdown":
                self.countdown(number, params, cancelled)
            case name:
                self.send({"id": number, "error": {"code": -32602, "message": f"there is no tool `{name}`"}})
        self.cancelled.pop(number, None)

    def countdown(self, number: str | int, params: Object, cancelled: threading.Event) -> None:
        steps = int((params.get("arguments") or {}).get("steps", 5))
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(1, steps + 1):
            if cancelled.wait(0.1):
                return  # a cancelled call gets no answer
            if token is not None:
                progress = {"progressToken": token, "progress": step, "total": steps}
                self.send({"method": "notifications/progress", "params": progress})
        self.send({"id": number, "result": text(f"counted down {steps} steps")})


def text(words: str, *, is_error: bool = False) -> Object:
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def now(arguments: Object) -> Object:
    hours = arguments.get("utc_offset_hours", 0)
    if not isinstance(hours, (int, float)) or not -14 <= hours <= 14:
        return text("`utc_offset_hours` must be a number from -14 to 14", is_error=True)
    return text(datetime.now(timezone(timedelta(hours=hours))).isoformat(timespec="seconds"))


METHODS: dict[str, Object] = {
    "initialize": {
        "protocolVersion": VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "clock", "version": "1.0"},
    },
    "ping": {},
    "tools/list": {
        "tools": [
            {
                "name": "now",
                "description": "Tell the time.",
                "inputSchema": {"type": "object", "properties": {"utc_offset_hours": {"type": "number"}}},
            },
            {
                "name": "countdown",
                "description": "Count down, ten steps a second, with progress.",
                "inputSchema": {"type": "object", "properties": {"steps": {"type": "integer", "minimum": 1}}},
            },
        ]
    },
}


class Handler(BaseHTTPRequestHandler):
    """Two routes: the stream, and the address for messages."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    sessions: dict[str, Session] = {}  # noqa: RUF012 - shared by all connections on purpose

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/sse":
            return self.reply(404)
        key, session = secrets.token_urlsafe(16), Session()
        self.sessions[key] = session
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.event("endpoint", f"/messages?session={key}")
            while True:
                self.next_event(session)
        except OSError:
            pass  # the client went away
        finally:
            del self.sessions[key]
            for event in session.cancelled.values():
                event.set()

    def next_event(self, session: Session) -> None:
        try:
            message = session.outgoing.get(timeout=KEEP_ALIVE_SECONDS)
        except queue.Empty:
            self.wfile.write(b": still here\n\n")
        else:
            self.event("message", json.dumps(message, separators=(",", ":")))

    def event(self, name: str, data: str) -> None:
        self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        session = self.sessions.get(parse_qs(address.query).get("session", [""])[0])
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if address.path != "/messages" or session is None:
            return self.reply(404)
        try:
            message = json.loads(body)
        except ValueError:
            return self.reply(400)
        self.reply(202)
        return session.receive(message)

    def reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Stay quiet: the gateway's trace shows more."""


def main() -> None:
    parser = argparse.ArgumentParser(description="A clock over HTTP+SSE.")
    parser.add_argument("--port", type=int, default=7441, help="0 takes a free one")
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/sse", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
