"""A server for tests, of any era over any transport, that writes down what it hears. Standard library only.

    scripted_server.py --transport stdio|sse|http --era legacy|modern --record FILE [--version 2025-11-25]

Behind HTTP it prints its URL. Every message it receives, and what its tools do, becomes a JSON line in FILE.
What the tools mean is in `scripted_tools.py`; here is how they are reached.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import scripted_tools as tools
from scripted_tools import Call, Json, NeedsInput, Raw, Refused

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
KEEP_ALIVE_SECONDS = 5.0
Send = Callable[[Json], None]


class Journal:
    """What happened here, for the test to read."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **entry: Any) -> None:
        os.write(self._file, json.dumps({"pid": os.getpid(), **entry}).encode() + b"\n")


class Session:
    """One legacy session, or the whole of a modern server."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.version = server.version
        self.capabilities: Json = {}
        self.client: Json = {}
        self.level = "debug"
        self.subscriptions: set[str] = set()
        self.listeners: dict[Any, tuple[Json, Send, threading.Event]] = {}
        self.pushed: queue.Queue[Json] = queue.Queue()
        self.push: Send = lambda message: None
        self._answers: dict[str, queue.Queue[Json]] = {}
        self._running: dict[Any, threading.Event] = {}
        self._numbers = itertools.count(1)

    # Towards the client

    def ask(self, send: Send, method: str, params: Json) -> Json:
        """A request of ours, in the course of a call (legacy)."""
        number = f"server-{next(self._numbers)}"
        answer: queue.Queue[Json] = queue.Queue()
        self._answers[number] = answer
        send({"id": number, "method": method, "params": params})
        return answer.get(timeout=30)

    def changed(self, method: str, params: Json) -> None:
        """Tell whoever wants to know: this session (legacy), or the listen streams (modern)."""
        if self.server.era == "legacy":
            self.push({"method": method, "params": params} if params else {"method": method})
            return
        for number, (wish, send, _) in list(self.listeners.items()):
            if tools.wanted(wish, method, params):
                tagged = {**params, "_meta": {META + "subscriptionId": number}}
                send({"method": method, "params": tagged})

    # From the client

    def take(self, raw: bytes, send: Send) -> None:
        """One message; `send` is the way back for this message. Returns when it has been answered."""
        message = json.loads(raw)
        self.server.journal.write(session=self.name, message=message, raw=raw.decode("utf-8", "replace"))
        if "method" not in message:
            waiting = self._answers.pop(str(message.get("id")), None)
            if waiting is not None:
                waiting.put(message)
        elif "id" in message:
            self._request(message, send)
        elif message["method"] == "notifications/cancelled":
            event = self._running.get(message["params"].get("requestId"))
            if event is not None:
                event.set()
        elif message["method"] == "notifications/initialized" and self.server.curious:
            threading.Thread(target=self.ask, args=(self.push, "roots/list", {}), daemon=True).start()

    def _request(self, message: Json, send: Send) -> None:
        number = message["id"]
        stopped = self._running[number] = threading.Event()
        call = Call(self, number, message["method"], message.get("params") or {}, send, stopped)
        try:
            answer = self._answer(call)
            if not stopped.is_set():
                send({"id": number, **answer})
        except InterruptedError:
            self.server.journal.write(event="stopped", tool=call.params.get("name"), id=number)
        finally:
            del self._running[number]

    def _answer(self, call: Call) -> Json:
        try:
            result = self._result(call)
        except NeedsInput as needed:
            result = needed.result
        except Refused as refused:
            return {"error": refused.error}
        if isinstance(result, Raw):
            return {"result": result}
        if self.server.era == "modern":
            result = {"resultType": "complete", **result}
        return {"result": result}

    def _result(self, call: Call) -> Any:
        if self.server.era == "modern":
            meta = call.params.get("_meta") or {}
            self.capabilities = meta.get(META + "clientCapabilities", {})
            call.capabilities = self.capabilities
            if call.method == "server/discover":
                return self._introduction({"supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "public"})
            if call.method == "subscriptions/listen":
                return self._listen(call)
        else:
            if call.method == "initialize":
                return self._initialize(call)
            call.capabilities = self.capabilities
        return tools.answer(call)

    def _initialize(self, call: Call) -> Json:
        wanted = call.params["protocolVersion"]
        self.capabilities = call.params["capabilities"]
        self.client = call.params["clientInfo"]
        self.version = wanted if wanted in LEGACY and wanted <= self.server.version else self.server.version
        return self._introduction({"protocolVersion": self.version, "serverInfo": tools.INFO})

    def _introduction(self, rest: Json) -> Json:
        stamp = {"_meta": {META + "serverInfo": tools.INFO}} if self.server.era == "modern" else {}
        capabilities = dict(tools.CAPABILITIES)
        return {**rest, "capabilities": capabilities, "instructions": "be scripted", **stamp}

    def _listen(self, call: Call) -> Json:
        wish = call.params["notifications"]
        ended = call.stopped
        self.listeners[call.id] = (wish, call.send, ended)
        stamp = {META + "subscriptionId": call.id}
        call.send(
            {
                "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": stamp, "notifications": wish},
            }
        )
        try:
            ended.wait(120)
        finally:
            del self.listeners[call.id]
        return {"_meta": stamp}


class Server:
    def __init__(self, era: str, version: str, journal: Journal) -> None:
        self.era = era
        self.version = version
        self.journal = journal
        self.curious = False
        self.sessions: dict[str, Session] = {}
        self._numbers = itertools.count(1)

    def open(self) -> Session:
        session = Session(self, f"{os.getpid()}-{next(self._numbers)}")
        self.sessions[session.name] = session
        return session


def encoded(message: Json) -> bytes:
    """JSON, into which a prepared result is put byte by byte."""
    result = message.get("result")
    if isinstance(result, Raw):
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(message["id"]).encode(), result.data)
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def serve_stdio(server: Server) -> None:
    session = server.open()
    lock = threading.Lock()

    def send(message: Json) -> None:
        with lock:
            sys.stdout.buffer.write(encoded(message) + b"\n")
            sys.stdout.buffer.flush()

    session.push = send
    for line in sys.stdin.buffer:
        if b'"method"' in line and b'"id"' in line:
            threading.Thread(target=session.take, args=(line, send), daemon=True).start()
        else:
            session.take(line, send)
    server.journal.write(event="end of input")


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    scripted: Server
    modern: Session

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        message = json.loads(body)
        if self.scripted.era == "modern":
            self.scripted.journal.write(event="headers", headers=dict(self.headers.items()))
            return self.answer(self.modern, body, message, {})
        if message.get("method") == "initialize":
            session = self.scripted.open()
            session.push = session.pushed.put
            return self.answer(session, body, message, {"Mcp-Session-Id": session.name})
        session = self.session()
        return None if session is None else self.answer(session, body, message, {})

    def do_GET(self) -> None:
        if self.scripted.era == "modern":
            return self.reply(405)
        session = self.session()
        if session is None:
            return None
        self.scripted.journal.write(event="get", session=session.name, last=self.headers.get("Last-Event-ID"))
        self.begin_stream()
        self.pour(session.pushed)
        return None

    def do_DELETE(self) -> None:
        session = self.session()
        if session is not None:
            self.scripted.journal.write(event="deleted", session=session.name)
            self.scripted.sessions.pop(session.name, None)
            self.reply(200)

    def session(self) -> Session | None:
        name = self.headers.get("Mcp-Session-Id")
        session = self.scripted.sessions.get(name or "")
        if session is None:
            self.reply(404 if name else 400)
        return session

    def answer(self, session: Session, body: bytes, message: Json, headers: Json) -> None:
        """JSON while there is only the answer, an event stream as soon as there is more to say."""
        if "id" not in message or "method" not in message:
            session.take(body, lambda _: None)
            return self.reply(202)
        self.streaming = False
        lock = threading.Lock()
        answered = False

        def send(out: Json) -> None:
            nonlocal answered
            with lock:
                is_answer = "method" not in out
                answered = answered or is_answer
                if is_answer and not self.streaming:
                    self.json(200, encoded(out), headers)
                else:
                    if not self.streaming:
                        self.begin_stream()
                    self.event(out)

        gone = self.watch_for_the_end(session, message) if session is self.modern_session() else None
        try:
            session.take(body, send)
        except OSError:
            self.scripted.journal.write(event="client gone", id=message["id"])
        finally:
            if gone is not None:
                gone.set()
        if self.streaming:
            self.end_stream()
        elif not answered:
            self.begin_stream()
            self.end_stream()
        return None

    def modern_session(self) -> Session | None:
        return getattr(self, "modern", None)

    def watch_for_the_end(self, session: Session, message: Json) -> threading.Event:
        """2026-07-28: a client that closes the connection cancels its request."""
        finished = threading.Event()

        def watch() -> None:
            import select

            while not finished.is_set():
                ready, _, _ = select.select([self.connection], [], [], 0.02)
                if ready:
                    # What is there may as well be the next request, perhaps under the same id.
                    with contextlib.suppress(OSError):
                        if self.connection.recv(1, socket.MSG_PEEK):
                            return
                    stopped = session._running.get(message["id"])
                    if stopped is not None and not finished.is_set():
                        stopped.set()
                    return

        threading.Thread(target=watch, daemon=True).start()
        return finished

    def begin_stream(self) -> None:
        self.streaming = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, message: Json) -> None:
        self.chunk(b"event: message\ndata: " + encoded(message) + b"\n\n")

    def pour(self, messages: queue.Queue[Json]) -> None:
        """Send what comes until nobody takes it any more."""
        self.close_connection = True
        try:
            while True:
                try:
                    self.event(messages.get(timeout=KEEP_ALIVE_SECONDS))
                except queue.Empty:
                    self.chunk(b": here\n\n")
        except OSError:
            return

    def end_stream(self) -> None:
        try:
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def json(self, status: int, body: bytes, headers: Json) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """The journal says more."""


class Sse(Http):
    """HTTP+SSE (2024-11-05): the stream is the session."""

    def do_GET(self) -> None:
        session = self.scripted.open()
        out: queue.Queue[Json] = queue.Queue()
        session.push = out.put
        self.begin_stream()
        self.chunk(f"event: endpoint\ndata: /messages?session={session.name}\n\n".encode())
        self.pour(out)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = parse_qs(urlsplit(self.path).query).get("session", [""])[0]
        session = self.scripted.sessions.get(name)
        if session is None:
            return self.reply(404 if name else 405)
        refused = (json.loads(body).get("params") or {}).get("name") == "http_503"
        if refused:
            self.scripted.journal.write(event="refused")
            return self.reply(503)
        threading.Thread(target=session.take, args=(body, session.push), daemon=True).start()
        return self.reply(202)


class Listener(ThreadingHTTPServer):
    """With room for the connections of a whole batch: the system drops those that do not fit, for seconds."""

    request_queue_size = 256


def serve_http(server: Server, handler: type[Http]) -> None:
    handler.scripted = server
    if server.era == "modern":
        handler.modern = server.open()
    listener = Listener(("127.0.0.1", 0), handler)
    listener.daemon_threads = True
    path = "/sse" if handler is Sse else "/mcp"
    print(f"http://127.0.0.1:{listener.server_port}{path}", flush=True)
    listener.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=("stdio", "sse", "http"), required=True)
    parser.add_argument("--era", choices=("legacy", "modern"), default="legacy")
    parser.add_argument("--version", default="2025-11-25")
    parser.add_argument("--record", required=True)
    parser.add_argument("--curious", action="store_true", help="ask for the roots right after the handshake")
    given = parser.parse_args()
    journal = Journal(given.record)
    journal.write(event="started")
    server = Server(given.era, given.version if given.era == "legacy" else MODERN, journal)
    server.curious = given.curious
    if given.transport == "stdio":
        serve_stdio(server)
    else:
        serve_http(server, Sse if given.transport == "sse" else Http)


if __name__ == "__main__":
    main()
