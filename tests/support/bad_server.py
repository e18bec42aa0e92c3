"""A server that behaves until one of its tools is called; the tool's name is the fault.

bad_server.py --transport stdio|http [--record FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
LONG_LINE_BYTES = 100 * 1024 * 1024
TALK_SECONDS = 20.0


def introduction() -> Json:
    return {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "bad", "version": "1"},
    }


def ordinary(message: Json) -> Json | None:
    """The answer of a server that behaves, if this is not one of the faults."""
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            return introduction()
        case "tools/list":
            return listed(params.get("cursor"))
        case "tools/call" if params["name"] == "good":
            return text(f"good {os.getpid()}")
        case "tools/call":
            return None
        case _:
            return {}


def listed(cursor: str | None) -> Json:
    """Tools that die, and what they are declared to be; each on a page of its own."""
    tools: list[Json] = [
        {"name": "die_once", "inputSchema": {}},
        {"name": "die_once_destructive", "annotations": {"idempotentHint": False, "readOnlyHint": False}},
        {"name": "die_once_idempotent", "annotations": {"idempotentHint": True, "title": "x"}},
        {"name": "die_once_read_only", "annotations": {"readOnlyHint": True}},
        {"name": "die_always", "annotations": {"idempotentHint": True}},
        {"name": "talk_and_die", "annotations": {"idempotentHint": True}},
    ]
    page = int(cursor or 0)
    more = {"nextCursor": str(page + 1)} if page + 1 < len(tools) else {}
    return {"tools": [{"inputSchema": {"type": "object"}, **tools[page]}], **more}


def runs_again(params: Json) -> bool:
    """Counts how often a tool ran; whether this time it lives to tell."""
    with open(params["arguments"]["count"], "a+b") as file:
        file.write(b"x")
        return file.tell() > 1 and params["name"].startswith("die_once")


def text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def encoded(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def chatter(token: Any, number: int) -> bytes:
    if token is None:
        data = {"level": "info", "data": "x" * 1000, "number": number}
        return encoded({"method": "notifications/message", "params": data})
    return encoded(
        {"method": "notifications/progress", "params": {"progressToken": token, "progress": number}}
    )


class Stdio:
    def __init__(self) -> None:
        self._waiting: list[Any] = []

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def line(self, message: Json) -> None:
        self.write(encoded(message) + b"\n")

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" not in message or "method" not in message:
                continue
            result = ordinary(message)
            if message["method"] == "server/discover":
                self.line({"id": message["id"], "error": {"code": -32601, "message": "what?"}})
            elif result is not None:
                self.line({"id": message["id"], "result": result})
            else:
                self.misbehave(message["id"], message["params"])

    def misbehave(self, number: Any, params: Json) -> None:
        match params["name"]:
            case "silent":
                self._waiting.append(number)
            case "twice":
                self.line({"id": number, "result": text("first")})
                self.line({"id": number, "result": text("second")})
            case "foreign":
                for other in [*self._waiting, 424242, "nobody's", number + 1000]:
                    self.line({"id": other, "result": text("not yours")})
                self.line({"id": number, "result": text("mine")})
            case "noise":
                self.write(
                    b'Starting up...\nTraceback (most recent call last):\n  File x\n{"\xff": 1}\n[1, 2\n{}\n'
                )
                self.line({"id": number, "result": text("after the noise")})
            case "invalid_json":
                self.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[}\n' % number)
            case "invalid_utf8":
                self.write(b'{"jsonrpc":"2.0","id":%d,"result":{"x":"\xff"}}\n' % number)
            case "long_line":
                self.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":"' % number)
                for _ in range(LONG_LINE_BYTES // 1_000_000):
                    self.write(b"x" * 1_000_000)
                self.write(b'"}}\n')
            case "die":
                os._exit(7)
            case name if name.startswith(("die_", "talk_")) and "count" in params["arguments"]:
                if runs_again(params):
                    self.line({"id": number, "result": text("second time")})
                    return
                if name == "talk_and_die":
                    self.write(chatter(params["_meta"]["progressToken"], 1) + b"\n")
                os._exit(7)
            case "die_in_a_line":
                self.write(b'{"jsonrpc":"2.0","id":%d,"resu' % number)
                os._exit(7)
            case "answer_and_die":
                self.line({"id": number, "result": text("last words")})
                os._exit(0)
            case "endless":
                threading.Thread(target=self.talk, args=(params,), daemon=True).start()
            case "deaf":
                self.line(
                    {"method": "notifications/message", "params": {"level": "info", "data": "deaf now"}}
                )
                time.sleep(TALK_SECONDS)
            case "pester":
                end = time.monotonic() + TALK_SECONDS
                pings = b"".join(encoded({"id": each, "method": "ping"}) + b"\n" for each in range(500))
                while time.monotonic() < end:
                    self.write(pings)

    def talk(self, params: Json) -> None:
        token = (params.get("_meta") or {}).get("progressToken")
        number = 0
        end = time.monotonic() + TALK_SECONDS
        while time.monotonic() < end:
            number += 1
            self.write(chatter(token, number) + b"\n")
            time.sleep(0.001)


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    sessions: set[str] = set()  # noqa: RUF012 - shared by all connections on purpose
    record: str | None = None
    forgetful = False
    polls = 0
    closing = False

    def do_POST(self) -> None:
        self.closing = False
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.note(message)
        if "id" not in message or "method" not in message:
            return self.reply(202, b"")
        if message["method"] == "initialize":
            name = f"session-{len(self.sessions) + 1}"
            self.sessions.add(name)
            return self.json({"id": message["id"], "result": introduction()}, {"Mcp-Session-Id": name})
        if self.headers.get("Mcp-Session-Id") not in self.sessions:
            return self.reply(404 if self.headers.get("Mcp-Session-Id") else 400, b"")
        result = ordinary(message)
        if result is not None:
            return self.json({"id": message["id"], "result": result})
        return self.misbehave(message["id"], message["params"])

    def do_GET(self) -> None:
        """The rest of a stream that was closed on purpose; its id says what is missing."""
        last = self.headers.get("Last-Event-ID")
        if last is None:
            return self.reply(405, b"")
        kind, number, size = last.split("/")
        if kind == "gone":
            self.note({"method": "GET"})
            return self.reply(int(size), b"")
        if kind == "slow" and self.polls < 3:
            Http.polls += 1
            return self.stream()
        return self.stream(encoded({"id": json.loads(number), "result": text("y" * int(size))}))

    def do_DELETE(self) -> None:
        self.note({"method": "DELETE"})
        self.reply(200, b"")

    def misbehave(self, number: Any, params: Json) -> None:
        answer = encoded({"id": number, "result": text("first")})
        # The fault is in the answer: that the connection ends with it is said, as a server has to.
        self.closing = params["name"] != "http_400" and "count" not in params["arguments"]
        match params["name"]:
            case "silent":
                time.sleep(TALK_SECONDS)
            case "twice":
                self.stream(answer, encoded({"id": number, "result": text("second")}))
            case "foreign":
                self.reply(200, encoded({"id": "somebody-else", "result": text("not yours")}))
            case "late":
                token = (params.get("_meta") or {}).get("progressToken")
                self.stream(answer, chatter(None, 1), chatter(token, 2))
            case "no_end":
                self.begin()
                self.event(answer)
                self.wait_for_the_end()
            case "endless":
                self.begin()
                self.talk(params)
            case "die":
                self.begin()
                self.event(chatter(None, 1))
                self.connection.close()
            case name if name.startswith(("die_", "talk_")) and "count" in params["arguments"]:
                if runs_again(params):
                    return self.json({"id": number, "result": text("second time")})
                if name == "talk_and_die":
                    self.begin()
                    self.event(chatter(params["_meta"]["progressToken"], 1))
                self.connection.close()
            case "half":
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"jsonrpc":"2.0",')
                self.connection.close()
            case "invalid_json":
                self.reply(200, b'{"jsonrpc":"2.0","id":1,"result":{')
            case "invalid_utf8":
                self.reply(
                    200, b'{"jsonrpc":"2.0","id":%b,"result":{"x":"\xff"}}' % json.dumps(number).encode()
                )
            case "html":
                self.reply(200, b"<html>It works!</html>", "text/html")
            case "http_500":
                self.reply(500, b"oops")
            case "http_202":
                self.reply(202, b"")
            case "poll":
                size = params["arguments"]["bytes"]
                self.begin()
                self.chunk(f"id: poll/{json.dumps(number)}/{size}\nretry: 300\ndata:\n\n".encode())
                self.wfile.write(b"0\r\n\r\n")
            case "poll_slowly":
                Http.polls = 0
                self.begin()
                self.chunk(f"id: slow/{json.dumps(number)}/10\nretry: 10\ndata:\n\n".encode())
                self.wfile.write(b"0\r\n\r\n")
            case "poll_in_vain":
                status = params["arguments"]["status"]
                self.begin()
                self.chunk(f"id: gone/{json.dumps(number)}/{status}\nretry: 10\ndata:\n\n".encode())
                self.wfile.write(b"0\r\n\r\n")
            case "http_400":
                return self.reply(400, b"your mistake", "text/plain")
            case "forget":
                self.sessions.clear()
                self.reply(404, b"")
            case "lost_text":
                self.json({"id": number, "error": {"code": -32000, "message": "Session not found"}})
            case "big":
                self.reply(
                    200, encoded({"id": number, "result": text("y" * int(params["arguments"]["bytes"]))})
                )
        self.close_connection = True
        return None

    def talk(self, params: Json) -> None:
        token = (params.get("_meta") or {}).get("progressToken")
        end = time.monotonic() + TALK_SECONDS
        number = 0
        try:
            while time.monotonic() < end:
                number += 1
                self.event(chatter(token, number))
                if number % 50 == 0:
                    time.sleep(0.01)
        except OSError:
            self.note({"method": "hung up on"})

    def wait_for_the_end(self) -> None:
        self.connection.settimeout(TALK_SECONDS)
        with suppress(OSError):
            if not self.connection.recv(1):
                self.note({"method": "hung up on"})

    def note(self, message: Json) -> None:
        if self.record is not None:
            with open(self.record, "ab") as file:
                file.write(json.dumps({"pid": os.getpid(), "message": message}).encode() + b"\n")

    def stream(self, *messages: bytes) -> None:
        self.begin()
        for message in messages:
            self.event(message)
        self.wfile.write(b"0\r\n\r\n")

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.say_goodbye()
        self.end_headers()

    def event(self, message: bytes) -> None:
        self.chunk(b"data: " + message + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def json(self, message: Json, headers: Json | None = None) -> None:
        self.reply(200, encoded(message), headers=headers)

    def reply(
        self, status: int, body: bytes, kind: str = "application/json", headers: Json | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.say_goodbye()
        self.end_headers()
        self.wfile.write(body)

    def say_goodbye(self) -> None:
        if self.closing:
            self.send_header("Connection", "close")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Quiet."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=("stdio", "http"), required=True)
    parser.add_argument("--record")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    if given.transport == "stdio":
        Stdio().serve()
        return
    Http.record = given.record
    listener = ThreadingHTTPServer(("127.0.0.1", given.port), Http)
    listener.daemon_threads = True
    print(f"http://127.0.0.1:{listener.server_port}/mcp", flush=True)
    listener.serve_forever()


if __name__ == "__main__":
    main()
