"""A server whose answers are as large as asked for, made on the way out. Standard library only.

    large_server.py --transport stdio|sse|http

Its one tool takes `kind` (what the result is full of), `bytes`, `order` (`id` before or after the result) and
`form` (over HTTP: `json` or `stream`). With `cut` it dies after so many bytes; with `wait` it answers when
the file of that name appears.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = "2025-11-25"
STEP = 100_000
Json = dict[str, Any]

FILLINGS = {
    "text": b"all work and no play \xc3\xa9 ",
    "escapes": rb"{\"a\":\"b\\\\\",\"c\":[]}\\",
    "lists": b'"},{"type":"text","text":"]}',
}


def result(kind: str, size: int) -> Iterator[bytes]:
    """A legal tool result of about this size."""
    filling = FILLINGS[kind]
    yield b'{"content":[{"type":"text","text":"'
    step = filling * (STEP // len(filling))
    for _ in range(max(1, size // len(step))):
        yield step
    yield b'"}],"vendorField":[1.0,null]}'


def answer(number: Any, arguments: Json) -> Iterator[bytes]:
    encoded = json.dumps(number).encode()
    pieces = result(arguments.get("kind", "text"), int(arguments.get("bytes", 10)))
    if arguments.get("order", "before") == "before":
        yield b'{"jsonrpc":"2.0","id":%b,"result":' % encoded
        yield from pieces
        yield b"}"
    else:
        yield b'{"result":'
        yield from pieces
        yield b',"jsonrpc":"2.0", "id" : %b }' % encoded


def pieces_for(message: Json) -> Iterator[bytes]:
    """The answer to a request, in pieces; nothing for a notification."""
    if "id" not in message:
        return
    if message["method"] == "initialize":
        hello = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "large", "version": "1"},
        }
        yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": hello}).encode()
    elif message["method"] != "tools/call":
        error = {"code": -32601, "message": "I cannot do that"}
        yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
    else:
        arguments = message["params"].get("arguments") or {}
        while "wait" in arguments and not Path(arguments["wait"]).exists():
            time.sleep(0.01)
        left = int(arguments.get("cut", sys.maxsize))
        for piece in answer(message["id"], arguments):
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                sys.stdout.flush()
                os._exit(3)


def serve_stdio() -> None:
    lock = threading.Lock()
    output = sys.stdout.buffer

    def reply(message: Json) -> None:
        pieces = pieces_for(message)
        first = next(pieces, None)  # may wait
        if first is None:
            return
        with lock:
            output.write(first)
            output.writelines(pieces)
            output.write(b"\n")
            output.flush()

    for line in sys.stdin.buffer:
        threading.Thread(target=reply, args=(json.loads(line),), daemon=True).start()


class Http(BaseHTTPRequestHandler):
    """Streamable HTTP at `/mcp`, HTTP+SSE at `/sse`."""

    protocol_version = "HTTP/1.1"
    events: queue.Queue[Iterator[bytes]] = queue.Queue()
    offers_sse = False

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/messages":
            self.head(202, {"Content-Length": "0"})
            if "id" in message:
                self.events.put(pieces_for(message))
        elif self.offers_sse:
            self.head(405, {"Content-Length": "0"})
        elif "id" not in message:
            self.head(202, {"Content-Length": "0"})
        else:
            self.answer(message)

    def do_GET(self) -> None:
        if not (self.path == "/sse" and self.offers_sse):
            self.head(405, {"Content-Length": "0"})
            return
        self.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        self.chunk(b"event: endpoint\ndata: /messages\n\n")
        while True:
            self.event(self.events.get())

    def do_DELETE(self) -> None:
        self.head(200, {"Content-Length": "0"})

    def answer(self, message: Json) -> None:
        arguments = (message.get("params") or {}).get("arguments") or {}
        streams = arguments.get("form") == "stream"
        kind = "text/event-stream" if streams else "application/json"
        self.head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked", "Mcp-Session-Id": "one"})
        if streams:
            self.event(pieces_for(message))
        else:
            for piece in pieces_for(message):
                self.chunk(piece)
        self.wfile.write(b"0\r\n\r\n")

    def event(self, pieces: Iterator[bytes]) -> None:
        self.chunk(b"event: message\ndata: ")
        for piece in pieces:
            self.chunk(piece)
        self.chunk(b"\n\n")

    def head(self, status: int, headers: Json) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Quiet."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=("stdio", "sse", "http"), required=True)
    given = parser.parse_args()
    if given.transport == "stdio":
        serve_stdio()
        return
    Http.offers_sse = given.transport == "sse"
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Http)
    listener.daemon_threads = True
    path = "sse" if Http.offers_sse else "mcp"
    print(f"http://127.0.0.1:{listener.server_port}/{path}", flush=True)
    listener.serve_forever()


if __name__ == "__main__":
    main()
