"""The client's side of the wire: MCP requests as bytes, and connections that send them and read the answer.

Raw sockets and one parser for every target, so that what the client costs is the same everywhere.
"""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

import httptools

Era = Literal["legacy", "modern"]
VERSIONS: dict[Era, str] = {"legacy": "2025-11-25", "modern": "2026-07-28"}
CLIENT = {"name": "bench", "version": "1"}
WAIT_SECONDS = 30.0
_RECEIVE = 1 << 18


class WireError(RuntimeError):
    """The target answered something a client could not use."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one server is reached, and in which era the client speaks to it."""

    port: int
    path: str
    era: Era = "legacy"
    headers: tuple[tuple[str, str], ...] = ()
    """What the client sends with every request, such as its credential."""


@dataclass(frozen=True, slots=True)
class Session:
    endpoint: Endpoint
    identifier: str | None


@dataclass(slots=True)
class Answer:
    """One HTTP response while and after it is read; httptools calls the `on_` methods."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)

    def on_message_complete(self) -> None:
        self.complete = True

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


class Connection:
    """A blocking keep-alive connection: the shortest way to time one exchange."""

    def __init__(self, port: int, seconds: float = WAIT_SECONDS, source: str | None = None) -> None:
        origin = None if source is None else (source, 0)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds, source_address=origin)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, raw: bytes) -> Answer:
        self.send(raw)
        return self.receive()

    def send(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def receive(self) -> Answer:
        answer = Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.complete:
            data = self._socket.recv(_RECEIVE)
            if not data:
                raise WireError("the target closed the connection before its answer was complete")
            parser.feed_data(data)
        answer.status = parser.get_status_code()
        return answer

    def head(self, raw: bytes) -> bytes:
        """Sends a request whose answer does not end and returns what came first."""
        self._socket.sendall(raw)
        seen = b""
        while b"\r\n\r\n" not in seen:
            data = self._socket.recv(_RECEIVE)
            if not data:
                raise WireError("the target closed the connection before the head of its answer")
            seen += data
        return seen

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StreamingConnection(asyncio.Protocol):
    """The same on an event loop, for many connections at once."""

    def __init__(self) -> None:
        self._answer = Answer()
        self._waiter: asyncio.Future[Answer] | None = None
        self._parser: Any = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._waiter.set_exception(WireError(f"not HTTP: {error}"))
            return
        if self._answer.complete:
            self._answer.status = self._parser.get_status_code()
            self._waiter.set_result(self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(WireError("the target closed the connection"))

    async def exchange(self, raw: bytes, seconds: float = WAIT_SECONDS) -> Answer:
        assert self.transport is not None
        self._answer = Answer()
        self._parser = httptools.HttpResponseParser(self._answer)
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(raw)
        return await asyncio.wait_for(self._waiter, seconds)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


async def connect(port: int) -> StreamingConnection:
    _, protocol = await asyncio.get_running_loop().create_connection(StreamingConnection, "127.0.0.1", port)
    return protocol


# -- requests as bytes


def http_request(
    method: str,
    endpoint: Endpoint,
    session: str | None,
    body: bytes = b"",
    more: tuple[tuple[str, str], ...] = (),
) -> bytes:
    accept = "text/event-stream" if method == "GET" else "application/json, text/event-stream"
    lines = [
        f"{method} {endpoint.path} HTTP/1.1",
        f"Host: 127.0.0.1:{endpoint.port}",
        f"Accept: {accept}",
        f"MCP-Protocol-Version: {VERSIONS[endpoint.era]}",
        *(f"{name}: {value}" for name, value in (*endpoint.headers, *more)),
    ]
    if session is not None:
        lines.append(f"Mcp-Session-Id: {session}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def rpc_request(
    endpoint: Endpoint,
    session: str | None,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    identifier: int = 1,
) -> bytes:
    """A JSON-RPC request as its era sends it: the modern one carries metadata and routing headers."""
    params = dict(params or {})
    more: tuple[tuple[str, str], ...] = ()
    if endpoint.era == "modern":
        params["_meta"] = {
            **params.get("_meta", {}),
            "io.modelcontextprotocol/protocolVersion": VERSIONS["modern"],
            "io.modelcontextprotocol/clientInfo": CLIENT,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        more = (("Mcp-Method", method),)
        if "name" in params:
            more += (("Mcp-Name", params["name"]),)
    body = _json({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
    return http_request("POST", endpoint, session, body, more)


def tool_call(
    session: Session, tool: str, arguments: dict[str, Any], *, identifier: int = 1, token: int | None = None
) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return rpc_request(session.endpoint, session.identifier, "tools/call", params, identifier=identifier)


def initialize(endpoint: Endpoint) -> bytes:
    params = {"protocolVersion": VERSIONS["legacy"], "capabilities": {}, "clientInfo": CLIENT}
    body = _json({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    return http_request("POST", endpoint, None, body)


def initialized(session: Session) -> bytes:
    body = _json({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return http_request("POST", session.endpoint, session.identifier, body)


def event_stream(session: Session) -> bytes:
    return http_request("GET", session.endpoint, session.identifier)


def end_session(session: Session) -> bytes:
    return http_request("DELETE", session.endpoint, session.identifier)


# -- answers as values


def messages(answer: Answer) -> list[dict[str, Any]]:
    """The JSON-RPC messages of an answer, whether it came as JSON or as events."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = answer.body.replace(b"\r\n", b"\n").split(b"\n")
        data = [line[5:].strip() for line in lines if line.startswith(b"data:")]
        return [json.loads(each) for each in data if each]
    return [json.loads(answer.body)]


def result_of(answer: Answer, identifier: int) -> dict[str, Any]:
    """The result answering this id; anything else is an error that shows what came."""
    if answer.status != 200:
        raise WireError(f"HTTP {answer.status}: {answer.body[:300]!r}")
    for message in messages(answer):
        if message.get("id") == identifier and "result" in message:
            return message["result"]
    raise WireError(f"no result for id {identifier}: {answer.body[:300]!r}")


def session_of(answer: Answer, endpoint: Endpoint) -> Session:
    result_of(answer, 0)
    return Session(endpoint, answer.headers.get("mcp-session-id"))


def accepted(answer: Answer) -> None:
    if answer.status not in {200, 202}:
        raise WireError(f"HTTP {answer.status} for a notification: {answer.body[:300]!r}")


def open_session(connection: Connection, endpoint: Endpoint) -> Session:
    """What a client of this era does before its first call."""
    if endpoint.era == "modern":
        return Session(endpoint, None)
    session = session_of(connection.exchange(initialize(endpoint)), endpoint)
    accepted(connection.exchange(initialized(session)))
    return session


async def open_session_streaming(connection: StreamingConnection, endpoint: Endpoint) -> Session:
    if endpoint.era == "modern":
        return Session(endpoint, None)
    session = session_of(await connection.exchange(initialize(endpoint)), endpoint)
    accepted(await connection.exchange(initialized(session)))
    return session


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
