"""A library over Streamable HTTP with sessions (2025-06-18 and 2025-11-25), from the standard library alone.

`index_books` streams progress, `borrow_book` asks the person how long (elicitation), and a client that
subscribed to a book hears when it is borrowed.

    python library_server.py --port 7442
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSIONS = ["2025-06-18", "2025-11-25"]
KEEP_ALIVE_SECONDS = 15
ANSWER_SECONDS = 300

Object = dict[str, Any]

BOOKS = {
    "1": {"title": "The Sea Around Us", "author": "Rachel Carson", "borrowed_days": 0},
    "2": {"title": "Moby-Dick", "author": "Herman Melville", "borrowed_days": 0},
    "3": {"title": "Sailing Alone Around the World", "author": "Joshua Slocum", "borrowed_days": 0},
}


class Session:
    """What one client said about itself, and what waits for it."""

    def __init__(self, capabilities: Object) -> None:
        self.capabilities = capabilities
        self.subscriptions: set[str] = set()
        self.unsolicited: queue.Queue[Object] = queue.Queue()
        self.answers: dict[str, queue.Queue[Object]] = {}
        self.cancelled: dict[Any, threading.Event] = {}


class Refused(Exception):
    """Becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def schema(required: list[str], **properties: Object) -> Object:
    return {"type": "object", "properties": properties, "required": required}


TOOLS = [
    {
        "name": "search_books",
        "description": "Find books by a word in title or author.",
        "inputSchema": schema(["query"], query={"type": "string"}),
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "index_books",
        "description": "Build the index anew, with progress.",
        "inputSchema": schema([], steps={"type": "integer", "minimum": 1, "maximum": 100}),
    },
    {
        "name": "borrow_book",
        "description": "Borrow a book. The person is asked for how many days.",
        "inputSchema": schema(["id"], id={"type": "string"}),
    },
]
DAYS = schema(["days"], days={"type": "integer", "title": "Days", "minimum": 1, "maximum": 30, "default": 14})


class Handler(BaseHTTPRequestHandler):
    """POST for messages, GET for what comes unasked, DELETE to end the session."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    sessions: dict[str, Session] = {}  # noqa: RUF012 - shared by all connections on purpose
    request_ids = itertools.count(1)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            message = json.loads(body)
        except ValueError:
            return self.reply(
                400, {"jsonrpc": "2.0", "error": {"code": -32700, "message": "that is not JSON"}}
            )
        if message.get("method") == "initialize":
            return self.initialize(message)
        if (session := self.session()) is None:
            return None
        if message.get("id") is not None and "method" in message:
            return self.answer(session, message["id"], message["method"], message.get("params") or {})
        self.accept(session, message)
        return self.reply(202)

    def do_GET(self) -> None:
        if (session := self.session()) is None:
            return
        with self.stream() as send:
            while True:
                try:
                    send(session.unsolicited.get(timeout=KEEP_ALIVE_SECONDS))
                except queue.Empty:
                    self.chunk(b": still here\n\n")

    def do_DELETE(self) -> None:
        if self.session() is not None:
            del self.sessions[self.headers["Mcp-Session-Id"]]
            self.reply(200)

    def session(self) -> Session | None:
        """The session of this request, or the refusal that the specification wants."""
        key = self.headers.get("Mcp-Session-Id")
        if key is None:
            self.reply(
                400, {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Mcp-Session-Id is missing"}}
            )
        elif key not in self.sessions:
            self.reply(404, {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no such session"}})
        return self.sessions.get(key or "")

    def initialize(self, message: Object) -> None:
        params = message.get("params") or {}
        key = secrets.token_urlsafe(24)
        self.sessions[key] = Session(params.get("capabilities") or {})
        wanted = params.get("protocolVersion")
        result = {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}, "resources": {"subscribe": True}},
            "serverInfo": {"name": "library", "title": "A small library", "version": "1.0"},
        }
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, {"Mcp-Session-Id": key})

    def accept(self, session: Session, message: Object) -> None:
        """A notification, or the client's answer to a request of ours."""
        if message.get("method") == "notifications/cancelled":
            if event := session.cancelled.get((message.get("params") or {}).get("requestId")):
                event.set()
        elif waiting := session.answers.get(str(message.get("id"))):
            waiting.put(message)

    def answer(self, session: Session, number: str | int, method: str, params: Object) -> None:
        if method == "tools/call" and params.get("name") in ("index_books", "borrow_book"):
            return self.call_in_stream(session, number, params)
        try:
            result = self.result(session, method, params)
        except Refused as error:
            return self.reply(
                200, {"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": str(error)}}
            )
        return self.reply(200, {"jsonrpc": "2.0", "id": number, "result": result})

    def result(self, session: Session, method: str, params: Object) -> Object:
        match method:
            case "ping":
                return {}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return search(params)
            case "resources/list":
                entries = [{"uri": f"book://{key}", "name": book["title"]} for key, book in BOOKS.items()]
                return {"resources": entries}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "book://{id}", "name": "A book by its number"}]}
            case "resources/read":
                book = json.dumps(find(str(params.get("uri")).removeprefix("book://")))
                return {"contents": [{"uri": params["uri"], "mimeType": "application/json", "text": book}]}
            case "resources/subscribe":
                session.subscriptions.add(str(params.get("uri")))
                return {}
            case "resources/unsubscribe":
                session.subscriptions.discard(str(params.get("uri")))
                return {}
            case _:
                raise Refused(-32601, f"there is no method `{method}`")

    def call_in_stream(self, session: Session, number: str | int, params: Object) -> None:
        """A tool that has something to say before its answer: the answer to the POST is a stream."""
        cancelled = session.cancelled[number] = threading.Event()
        with self.stream() as send:
            try:
                if params["name"] == "index_books":
                    result = index_books(params, cancelled, send)
                else:
                    result = self.borrow_book(session, params.get("arguments") or {}, send)
            except InterruptedError:
                return  # a cancelled call gets no answer
            except Refused as error:
                result = text(str(error), is_error=True)
            finally:
                del session.cancelled[number]
            send({"id": number, "result": result})

    def borrow_book(self, session: Session, arguments: Object, send: Any) -> Object:
        key = str(arguments.get("id"))
        book = find(key)
        days = DAYS["properties"]["days"]["default"]
        if "elicitation" in session.capabilities:
            answer = self.ask(session, f"For how many days do you borrow “{book['title']}”?", send)
            if answer.get("action") != "accept":
                return text("not borrowed")
            days = answer.get("content", {}).get("days", days)
        book["borrowed_days"] = days
        for other in list(self.sessions.values()):
            if f"book://{key}" in other.subscriptions:
                changed = {"method": "notifications/resources/updated", "params": {"uri": f"book://{key}"}}
                other.unsolicited.put(changed)
        return text(f"you have “{book['title']}” for {days} days")

    def ask(self, session: Session, question: str, send: Any) -> Object:
        number = f"ask-{next(self.request_ids)}"
        session.answers[number] = waiting = queue.Queue()
        try:
            params = {"message": question, "requestedSchema": DAYS}
            send({"id": number, "method": "elicitation/create", "params": params})
            return waiting.get(timeout=ANSWER_SECONDS).get("result") or {"action": "cancel"}
        except queue.Empty:
            return {"action": "cancel"}
        finally:
            del session.answers[number]

    @contextmanager
    def stream(self) -> Iterator[Any]:
        """An event stream as the answer; what is yielded sends one message."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            yield lambda message: self.chunk(
                b"event: message\ndata: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"
            )
            self.chunk(b"")
        except OSError:
            self.close_connection = True  # the client went away

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def reply(self, status: int, message: Object | None = None, headers: Object | None = None) -> None:
        body = b"" if message is None else json.dumps(message, ensure_ascii=False).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, str(value))
        if body:
            self.send_header("Content-Type", "application/json")
        self.end_headers()
        if body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Stay quiet: the gateway's trace shows more."""


def find(key: str) -> Object:
    if key not in BOOKS:
        raise Refused(-32002, f"there is no book `{key}`")
    return BOOKS[key]


def search(params: Object) -> Object:
    if params.get("name") != "search_books":
        raise Refused(-32602, f"there is no tool `{params.get('name')}`")
    wanted = str((params.get("arguments") or {}).get("query", "")).lower()
    found = [
        {"id": key, **book}
        for key, book in BOOKS.items()
        if wanted in f"{book['title']} {book['author']}".lower()
    ]
    return {
        "content": [{"type": "text", "text": json.dumps({"books": found})}],
        "structuredContent": {"books": found},
    }


def index_books(params: Object, cancelled: threading.Event, send: Any) -> Object:
    steps = int((params.get("arguments") or {}).get("steps", 5))
    token = (params.get("_meta") or {}).get("progressToken")
    for step in range(1, steps + 1):
        if cancelled.wait(0.1):
            raise InterruptedError
        if token is not None:
            progress = {"progressToken": token, "progress": step, "total": steps, "message": f"shelf {step}"}
            send({"method": "notifications/progress", "params": progress})
    return text(f"indexed {steps} shelves")


def text(words: str, *, is_error: bool = False) -> Object:
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def main() -> None:
    parser = argparse.ArgumentParser(description="A library over Streamable HTTP with sessions.")
    parser.add_argument("--port", type=int, default=7442, help="0 takes a free one")
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
