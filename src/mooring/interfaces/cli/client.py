"""A small synchronous MCP client over the gateway's Unix socket, enough for one command at a terminal.

It speaks the legacy handshake of 2025-11-25 over Streamable HTTP: the gateway translates for servers of
every other kind.
"""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

from mooring.errors import (
    FORBIDDEN,
    RATE_LIMITED,
    UNAUTHENTICATED,
    UPSTREAM_FAILED,
    UPSTREAM_TIMED_OUT,
)
from mooring.interfaces.cli.control_api import UnixConnection, get_json
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import CONNECT_SECONDS, message_in, refusal, says_next_step
from mooring.interfaces.cli.patience import told_to_wait
from mooring.protocol.sse import Event, EventReader, EventTooLarge

OWN_CODES = (UPSTREAM_FAILED, UPSTREAM_TIMED_OUT, UNAUTHENTICATED, FORBIDDEN, RATE_LIMITED)
PROTOCOL_VERSION = "2025-11-25"
# More than the gateway lets through from a server by default; the terminal is no place for more.
METHOD_NOT_FOUND = -32601
MAX_EVENT_BYTES = 256 * 1024**2
CHUNK_BYTES = 1 << 16
# A stream that ends before its answer is resumed; a server that never gets further is left.
MAX_RESUMPTIONS = 20

Message = dict[str, Any]
# Answers a request of the server with a result, or with nothing if it cannot be answered.
Answer = Callable[[str, Message], Message | None]
Notify = Callable[[str, Message], None]


class RpcFailed(Failed):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: Message, hint: str = "") -> None:
        self.code = error.get("code")
        text = message_in(error) or "the server gave no reason"
        # Our own codes are for programs: what they mean stands in the message.
        number = "" if self.code in OWN_CODES else f" (code {self.code})"
        super().__init__(f"{text}{number}{hint}")


class Client:
    """One session with one server; use it as a context manager."""

    def __init__(
        self, socket_path: Path, server: str, capabilities: Message, *, notify: Notify, answer: Answer
    ) -> None:
        self._socket_path = socket_path
        self._server = server
        self._target = f"/mcp/{quote(server, safe='')}"
        self._capabilities = capabilities
        self._notify = notify
        self._answer = answer
        self._ids = itertools.count(1)
        self._heard: Callable[[], object] = lambda: None
        self._session_headers: dict[str, str] = {}
        self.server_capabilities: Message = {}

    def __enter__(self) -> Self:
        result = self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": self._capabilities,
                "clientInfo": {"name": "mooring-cli", "version": "1"},
            },
        )
        self.server_capabilities = result.get("capabilities", {})
        self._session_headers["MCP-Protocol-Version"] = result.get("protocolVersion", PROTOCOL_VERSION)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The session ends by itself some day; a gateway that is gone needs no goodbye.
        with suppress(Failed), self._opened("DELETE", None, {}, CONNECT_SECONDS) as response:
            response.read(CHUNK_BYTES)

    @property
    def session(self) -> str:
        """What the gateway calls the session."""
        return self._session_headers["Mcp-Session-Id"]

    def request(self, method: str, params: Message) -> Message:
        """Send a request and wait for its result; Ctrl-C cancels it on the server too."""
        number = next(self._ids)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            with told_to_wait(self._server) as self._heard:
                reply = self._reply_to(message, number)
        except KeyboardInterrupt:
            cancel = {"requestId": number, "reason": "the person at the terminal pressed Ctrl-C"}
            with suppress(Failed):
                self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
            raise
        if (error := reply.get("error")) is not None:
            raise RpcFailed(error, self._hint(error))
        return reply["result"]

    def _hint(self, error: Message) -> str:
        """Where a process fails, its own words say more than its end; clients must not see them."""
        if error.get("code") != UPSTREAM_FAILED or says_next_step(str(error.get("message"))):
            return ""
        with suppress(Failed):
            servers: list[Message] = get_json(self._socket_path, "/api/v1/status")["servers"]
            if any(one["id"] == self._server and one["kind"] == "process" for one in servers):
                return f": see `mooring logs {self._server}`"
        return ""

    def list_all(self, method: str, key: str) -> list[Message]:
        """All pages of a list; a server that does not know the method has none."""
        try:
            return self._pages(method, key)
        except RpcFailed as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            return []

    def _pages(self, method: str, key: str) -> list[Message]:
        items: list[Message] = []
        params: Message = {}
        while True:
            page = self.request(method, params)
            items += page.get(key, [])
            cursor = page.get("nextCursor")
            if cursor is None or {"cursor": cursor} == params:
                return items
            params = {"cursor": cursor}

    def _reply_to(self, message: Message, number: int) -> Message:
        with self._posted(message) as response:
            if response.status == 404 and not self._session_headers:
                raise Failed(f"no server is called `{self._server}`; `mooring status` shows those there are")
            if response.status != 200 or _content_type(response) != "text/event-stream":
                return _single_reply(response)
            reply, last_event = self._read_stream(response, number)
        for _ in range(MAX_RESUMPTIONS):
            if reply is not None or last_event is None:
                break
            headers = {"Accept": "text/event-stream", "Last-Event-ID": last_event}
            with self._opened("GET", None, headers) as response:
                reply, newer = self._read_stream(response, number)
                last_event = newer or last_event
        if reply is None:
            raise Failed("the gateway ended the stream without an answer: look at its log, or try again")
        return reply

    def _read_stream(
        self, response: http.client.HTTPResponse, number: int
    ) -> tuple[Message | None, str | None]:
        """Deal with a stream until our answer comes or it ends; the answer, and the last event's id."""
        last_event: str | None = None
        for event in _events(response):
            last_event = event.id or last_event
            if (reply := self._handle(_message(event.data), number)) is not None:
                return reply, last_event
        return None, last_event

    def _handle(self, message: Message, number: int) -> Message | None:
        """Deal with one message of the stream; the answer we wait for is returned."""
        self._heard()
        method = message.get("method")
        if method is None:
            return message if message.get("id") == number else None
        params: Message = message.get("params", {})
        if "id" not in message:
            self._notify(method, params)
            return None
        result = {} if method == "ping" else self._answer(method, params)
        outcome = {"error": {"code": -32601, "message": "not available at this terminal"}}
        self._send(
            {"jsonrpc": "2.0", "id": message["id"], **(outcome if result is None else {"result": result})}
        )
        return None

    def _send(self, message: Message) -> None:
        with self._posted(message) as response:
            body = response.read(CHUNK_BYTES)
            if response.status >= 400:
                raise Failed(refusal(response.status, body))

    @contextmanager
    def _posted(self, message: Message) -> Generator[http.client.HTTPResponse]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        with self._opened("POST", json.dumps(message).encode(), headers) as response:
            if session := response.headers.get("Mcp-Session-Id"):
                self._session_headers["Mcp-Session-Id"] = session
            yield response

    @contextmanager
    def _opened(
        self, verb: str, body: bytes | None, headers: dict[str, str], timeout: float | None = None
    ) -> Generator[http.client.HTTPResponse]:
        """A request on a connection of its own; other requests may be needed before it has been answered."""
        connection = UnixConnection(self._socket_path, timeout)
        try:
            connection.request(verb, self._target, body, {**self._session_headers, **headers})
            with connection.getresponse() as response:
                yield response
        except (OSError, http.client.HTTPException) as error:
            raise Failed(
                f"the gateway broke off: {error or type(error).__name__}; is it still running?"
            ) from error
        finally:
            connection.close()


def _single_reply(response: http.client.HTTPResponse) -> Message:
    body = response.read()
    reply = _message(body)
    if "result" in reply or isinstance(reply.get("error"), dict):
        return reply
    raise Failed(refusal(response.status, body))


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    reader = EventReader(MAX_EVENT_BYTES)
    try:
        while data := response.read1(CHUNK_BYTES):
            for event in reader.feed(data):
                if isinstance(event, Event):
                    yield event
    except EventTooLarge as error:
        raise Failed(str(error)) from error
    except (OSError, http.client.HTTPException):
        # As good as an end: the caller resumes if it can.
        return


def _content_type(response: http.client.HTTPResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _message(body: bytes) -> Message:
    """The message in these bytes; what is none is empty."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return cast("Message", found) if isinstance(found, dict) else {}
