"""How raw clients reach the gateway: POSTs, HTTP+SSE, or the lines of `mooring proxy stdio`."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from tests.support.gateway import Gateway, program
from tests.support.waiting import LIMIT_SECONDS, eventually

Json = dict[str, Any]
Receive = Callable[[Any], None]
ACCEPT = "application/json, text/event-stream"


@dataclass
class Event:
    """One server-sent event."""

    data: str
    id: str | None = None
    retry: int | None = None


@dataclass
class Response:
    """A whole HTTP response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    events: list[Event] = field(default_factory=list)

    def json(self) -> Any:
        return json.loads(self.body)


def events_of(response: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a stream, as they arrive."""
    event = Event("")
    seen = False
    while line := response.readline():
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if not name and not value:
            if seen:
                yield event
            event, seen = Event(""), False
        elif name == "data":
            event.data += value
            seen = True
        elif name == "id":
            event.id = value
        elif name == "retry":
            event.retry = int(value)


def http_request(
    url: str,
    method: str = "POST",
    body: bytes | str | Json | list[Any] | None = None,
    headers: Json | None = None,
    timeout: float = LIMIT_SECONDS,
    source: str = "",
) -> Response:
    """One request from beginning to end, on a connection of its own (from the address `source`); a stream is
    read to its end."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout, (source, 0))
    if isinstance(body, dict | list):
        body = json.dumps(body)
    given = {"Content-Type": "application/json", "Accept": ACCEPT, **(headers or {})}
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request(method, target, body, {k: v for k, v in given.items() if v is not None})
        with connection.getresponse() as response:
            if (response.getheader("Content-Type") or "").startswith("text/event-stream"):
                return Response(response.status, response.headers, b"", list(events_of(response)))
            return Response(response.status, response.headers, response.read())
    finally:
        connection.close()


class Channel(Protocol):
    """Sends messages; what comes back goes to the `receive` it was made with."""

    def send(self, message: Json) -> None: ...
    def cancel(self, number: Any) -> bool:
        """Close the request's own stream, if it has one: that is how 2026-07-28 cancels over HTTP."""
        ...

    def close(self) -> None: ...


class Stream:
    """An open HTTP response that is read in a thread of its own."""

    def __init__(
        self, url: str, method: str, headers: Json, body: bytes | None, on_event: Callable[[Event], None]
    ) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        self._connection.request(method, target, body, headers)
        self._socket = self._connection.sock
        self._on_event = on_event
        self.response: http.client.HTTPResponse | None = None
        self.ended = threading.Event()
        self.events: list[Event] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        # Whatever ends it, a closed socket included, the stream is over: `ended` says so.
        with suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            response = self._connection.getresponse()
            self.response = response
            if (response.getheader("Content-Type") or "").startswith("text/event-stream"):
                for event in events_of(response):
                    self.events.append(event)
                    self._on_event(event)
            elif body := response.read():
                self._on_event(Event(body.decode()))
            response.close()
            self._connection.close()
        self.ended.set()

    @property
    def status(self) -> int:
        return eventually(lambda: self.response, "a response").status

    def close(self) -> None:
        with suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.ended.wait(5)
        if self.response is not None:
            self.response.close()
        self._connection.close()


class HttpChannel:
    """Streamable HTTP: each message is a POST; `headers_for` says what its headers are."""

    def __init__(self, url: str, headers_for: Callable[[Json], Json], receive: Receive) -> None:
        self.url = url
        self.session: str | None = None
        self._headers_for = headers_for
        self._receive = receive
        self.streams: dict[Any, Stream] = {}
        self.standalone: Stream | None = None

    def send(self, message: Json) -> None:
        headers = {"Content-Type": "application/json", "Accept": ACCEPT, **self._headers_for(message)}
        body = json.dumps(message).encode()
        if "id" in message and "method" in message:
            self.streams[message["id"]] = Stream(self.url, "POST", headers, body, self._on_event)
        else:
            answer = http_request(self.url, "POST", message, headers)
            assert answer.status == 202, (answer.status, answer.body)

    def _on_event(self, event: Event) -> None:
        if event.data:
            self._receive(json.loads(event.data))

    def listen(self, last: str | None = None) -> Stream:
        """The standalone stream (legacy)."""
        headers = {"Accept": "text/event-stream", **self._headers_for({})}
        if last is not None:
            headers["Last-Event-ID"] = last
        stream = Stream(self.url, "GET", headers, None, self._on_event)
        assert stream.status == 200
        self.standalone = stream
        return stream

    def cancel(self, number: Any) -> bool:
        self.streams[number].close()
        return True

    def close(self) -> None:
        if self.session is not None:
            http_request(self.url, "DELETE", None, self._headers_for({}))
        for stream in [*self.streams.values(), self.standalone]:
            if stream is not None:
                stream.close()


class SseChannel:
    """HTTP+SSE: one stream to hear, an address to POST to."""

    def __init__(self, url: str, receive: Receive) -> None:
        self._receive = receive
        self._endpoint: str | None = None
        self._base = url
        self.stream = Stream(url + "/sse", "GET", {"Accept": "text/event-stream"}, None, self._on_event)
        eventually(lambda: self._endpoint, "the endpoint event")

    def _on_event(self, event: Event) -> None:
        if self._endpoint is None:
            parts = urlsplit(self._base)
            self._endpoint = f"{parts.scheme}://{parts.netloc}{event.data}"
        else:
            self._receive(json.loads(event.data))

    @property
    def endpoint(self) -> str:
        assert self._endpoint is not None
        return self._endpoint

    def send(self, message: Json | list[Json]) -> None:
        answer = http_request(self.endpoint, "POST", message)
        assert answer.status == 202, (answer.status, answer.body)

    def cancel(self, number: Any) -> bool:
        return False

    def close(self) -> None:
        self.stream.close()


class StdioChannel:
    """A client that started `mooring proxy stdio <id>` and speaks to it in lines."""

    def __init__(self, gateway: Gateway, server: str, receive: Receive) -> None:
        self._receive = receive
        self._lock = threading.Lock()
        self.lines: list[bytes] = []
        self.process = subprocess.Popen(
            [program(), "proxy", "stdio", server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "MOORING_SOCKET": str(gateway.socket)},
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._receive(json.loads(line))

    def send(self, message: Json | list[Json]) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with self._lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def cancel(self, number: Any) -> bool:
        return False

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self._thread.join(5)
            self.process.stdout.close()
