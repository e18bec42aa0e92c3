"""One connection to an upstream: requests out, responses in, one at a time."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools

from mooring.transports.http_errors import ConnectionLost, HeadTimeout, ResponseTooLarge, TransportError
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_response import Response
from mooring.transports.http_sweep import NEVER, Sweep

_MAX_INFORMATIONAL = 16


class Owner(Protocol):
    """The pool, as its connections see it."""

    limits: ClientLimits
    sweep: Sweep

    def released(self, connection: UpstreamConnection) -> None:
        """The connection is ready for another request."""
        ...

    def lost(self, connection: UpstreamConnection) -> None:
        """The connection cannot be used any more; called once."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """Idle while `response` is None."""

    __slots__ = (
        "_fed",
        "_finished",
        "_head_known",
        "_headers",
        "_informational",
        "_is_head_request",
        "_keep_alive",
        "_limits",
        "_owner",
        "_parser",
        "_reading",
        "_sweep",
        "_until_close",
        "_waiter",
        "dead",
        "deadline",
        "response",
        "transport",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._limits = owner.limits
        self._sweep = owner.sweep
        self.dead = False
        self.deadline = NEVER
        self.response: Response | None = None
        self.transport: asyncio.Transport
        self._waiter: asyncio.Future[Response] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._fed = 0
        self._finished = False
        self._head_known = False
        self._keep_alive = False
        self._until_close = False
        self._is_head_request = False
        self._informational = 0
        self._reading = True

    def send(
        self, head: bytes, body: bytes, waiter: asyncio.Future[Response], *, is_head_request: bool
    ) -> Response:
        """Send a request; `waiter` gets the response as soon as its head (or all of it) is here."""
        response = self.response = Response(self, self._limits)
        self._waiter = waiter
        self._finished = self._head_known = False
        self._is_head_request = is_head_request
        seconds = self._limits.head_seconds
        self.deadline = NEVER if seconds is None else self._sweep.clock + seconds
        self.transport.write(head)
        if body:
            self.transport.write(body)
        return response

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._sweep.add(self)

    def data_received(self, data: bytes) -> None:
        response = self.response
        if response is None:
            # Nothing was asked: a late or a smuggled second response. It must not answer the next request.
            self._drop()
            return
        self._fed += len(data)
        trouble: TransportError | None = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            trouble = self._trouble(error)
        if self._finished:
            self._answered(response, reusable=trouble is None)
        elif trouble is not None:
            self._fail(trouble)
        else:
            self._progressed(response)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        response = self.response
        if response is not None and self._until_close and exc is None:
            response.finish()
            self._answered(response, reusable=False)
        elif response is not None:
            self._fail(self._lost("the upstream closed the connection"))
        else:
            self._drop()

    def close(self) -> None:
        """The pool is closing."""
        self._fail(self._lost("the connection pool was closed"))

    # The response's side.

    def pause(self) -> None:
        if self._reading and not self.dead:
            self._reading = False
            self.deadline = NEVER
            self.transport.pause_reading()

    def resume(self) -> None:
        if not self._reading and not self.dead:
            self._reading = True
            self._renew_stall_deadline()
            self.transport.resume_reading()

    def abandon(self) -> None:
        self.response = None
        self._drop()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._finished:
            raise ValueError("bytes follow the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, []
        status = self._parser.get_status_code()
        if status < 200:
            self._informational += 1
            if status == 101 or self._informational > _MAX_INFORMATIONAL:
                raise ValueError("unexpected informational response")
            return
        first = dict(headers)
        if len(first) != len(headers):
            first = dict(reversed(headers))
        coding = first.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise ValueError("the transfer-encoding is not chunked")
        self._until_close = coding is None and b"content-length" not in first and status not in (204, 304)
        response = self.response
        assert response is not None
        response.begin(status, headers, first)
        self._head_known = True
        if self._is_head_request:
            # The parser would wait for the body that the headers describe.
            self._finished = True
            self._keep_alive = False
            response.finish()

    def on_body(self, data: bytes) -> None:
        if self._is_head_request:
            raise ValueError("a response to HEAD has a body")
        response = self.response
        assert response is not None
        response.receive(data)

    def on_message_complete(self) -> None:
        if self._head_known and not self._finished:
            self._finished = True
            self._keep_alive = self._parser.should_keep_alive()
            response = self.response
            assert response is not None
            response.finish()

    # Outcomes.

    def _progressed(self, response: Response) -> None:
        """Something came, but not the end."""
        if not self._head_known:
            if self._fed > self._limits.max_header_bytes:
                self._fail(self._lost("the response headers are too large"))
            return
        self._renew_stall_deadline()
        self._hand_over(response)
        response.deliver()

    def _answered(self, response: Response, *, reusable: bool) -> None:
        """The response is complete."""
        self.response = None
        self._fed = self._informational = 0
        if reusable and self._keep_alive and not self.dead:
            if not self._reading:
                self.resume()
            self.deadline = self._sweep.clock + self._limits.idle_seconds
            self._owner.released(self)
        else:
            self._drop()
        self._hand_over(response)
        response.deliver()

    def _hand_over(self, response: Response) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(response)

    def _renew_stall_deadline(self) -> None:
        seconds = self._limits.body_stall_seconds
        self.deadline = NEVER if seconds is None else self._sweep.clock + seconds

    def _fail(self, error: TransportError) -> None:
        response, waiter = self.response, self._waiter
        self.response = self._waiter = None
        self._drop()
        if waiter is not None:
            if not waiter.done():
                waiter.set_exception(error)
        elif response is not None:
            response.fail(error)

    def _drop(self) -> None:
        if not self.dead:
            self.dead = True
            self._sweep.discard(self)
            self.transport.abort()
            self._owner.lost(self)

    def _trouble(self, error: Exception) -> TransportError:
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
        if isinstance(cause, ResponseTooLarge):
            return cause
        return self._lost(f"malformed response: {cause}")

    def _lost(self, message: str) -> ConnectionLost:
        return ConnectionLost(message, sent=True, response_started=self._fed > 0)

    # Time.

    def deadline_passed(self) -> None:
        if self.response is None:
            self._drop()
        elif not self._head_known:
            self._fail(HeadTimeout(f"no answer within {self._limits.head_seconds:g} seconds"))
        else:
            self._fail(self._lost("the upstream stalled in the middle of its response"))
