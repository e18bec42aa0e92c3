"""One connection to an upstream: requests out, responses in, one at a time."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools

from mooring.transports.compression import stream_decoder
from mooring.transports.http_errors import ConnectionLost, HeadTimeout, ResponseTooLarge, TransportError
from mooring.transports.http_flow import BodyFlow
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_response import Response
from mooring.transports.http_sweep import NEVER, Sweep
from mooring.transports.http_template import MISSES_IN_VAIN, HeadTemplate

_MAX_INFORMATIONAL = 16
_BODILESS = frozenset((204, 304))
_PACKING = frozenset((b"content-encoding", b"content-length"))


class Waiter(Protocol):
    """Who waits for a response: a future, or something that takes it as one would."""

    def done(self) -> bool: ...
    def set_result(self, result: Response, /) -> None: ...
    def set_exception(self, exception: TransportError, /) -> None: ...


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
    """The protocol object of one socket.

    A response that arrives in one read never gets a `BodyFlow`: it is handed over complete. Any other is
    handed over with its flow as soon as its head is known.
    """

    __slots__ = (
        "_busy",
        "_chunks",
        "_fed",
        "_finished",
        "_first",
        "_flow",
        "_head",
        "_head_known",
        "_headers",
        "_informational",
        "_is_head_request",
        "_keep_alive",
        "_limits",
        "_misses",
        "_model",
        "_parser",
        "_reading",
        "_status",
        "_sweep",
        "_template",
        "_until_close",
        "_waiter",
        "dead",
        "deadline",
        "owner",
        "transport",
    )

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._limits = owner.limits
        self._sweep = owner.sweep
        self.dead = False
        self.deadline = NEVER
        self.transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._busy = False
        self._waiter: Waiter | None = None
        self._flow: BodyFlow | None = None
        self._status = 0
        self._head: list[tuple[bytes, bytes]] = []
        self._headers: list[tuple[bytes, bytes]] = []
        self._first: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []
        self._template: HeadTemplate | None = None
        self._model: tuple[int, list[tuple[bytes, bytes]], dict[bytes, bytes]]
        self._misses = 0
        self._fed = 0
        self._informational = 0
        self._finished = False
        self._head_known = False
        self._keep_alive = False
        self._until_close = False
        self._is_head_request = False
        self._reading = True

    def change_owner(self, owner: Owner) -> None:
        """Somebody else uses it from now on, by their own limits; nothing is under way."""
        self.owner = owner
        self._limits = owner.limits

    def send(self, head: bytes, body: bytes, waiter: Waiter) -> None:
        """Send a request; `waiter` gets the response as soon as its head (or all of it) is here."""
        self._busy = True
        self._waiter = waiter
        self._finished = self._head_known = False
        seconds = self._limits.head_seconds
        self.deadline = NEVER if seconds is None else self._sweep.clock + seconds
        self.transport.write(head)
        if body:
            self.transport.write(body)

    def expect_no_body(self) -> None:
        """The request is a HEAD: its response has no body, whatever its headers say."""
        self._is_head_request = True

    def answer_to(self, waiter: Waiter, instead_of: Waiter) -> None:
        """Somebody else waits for the response from now on."""
        if self._waiter is instead_of:
            self._waiter = waiter

    def forget(self, waiter: Waiter) -> None:
        """Nobody waits for this response any more."""
        if self._waiter is waiter:
            self.abandon()

    def close(self) -> None:
        """The pool is closing."""
        self._fail(self._lost("the connection pool was closed"))

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._sweep.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # Nothing was asked: a late or a smuggled second response. It must not answer the next request.
            self._drop()
            return
        template = self._template
        if template is not None and not self._fed and not self._is_head_request:
            known = template.known.get(len(data))
            if known is not None and data.startswith(known[0]):
                self._answered_again(data[known[1] :], known[2])
                return
            start = template.body_start(data)
            if start >= 0:
                self._answered_again(data[start:], template.digits)
                return
        self._fed += len(data)
        trouble: TransportError | None = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            trouble = self._trouble(error)
        if self._finished:
            if self._fed == len(data) and trouble is None:
                self._learn(data)
            self._answered(reusable=trouble is None)
        elif trouble is not None:
            self._fail(trouble)
        else:
            self._progressed()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._busy and self._until_close and self._head_known and exc is None:
            self._finished = True
            self._keep_alive = False
            self._answered(reusable=False)
        else:
            self._fail(self._lost("the upstream closed the connection"))

    # The side of the body that is arriving.

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
        self._busy = False
        self._waiter = self._flow = None
        self._drop()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._finished:
            raise ValueError("bytes follow the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        status = self._status = self._parser.get_status_code()
        headers = self._head = self._headers
        self._headers = []  # trailers land in the new list, which nobody reads
        first = self._first = dict(headers)
        if status < 200:
            self._skip_informational(status)
            return
        if len(first) != len(headers):
            first = self._first = dict(reversed(headers))
        if b"content-length" not in first:
            coding = first.get(b"transfer-encoding")
            if coding is not None and coding.lower() != b"chunked":
                raise ValueError("the transfer-encoding is not chunked")
            self._until_close = coding is None and status not in _BODILESS
        self._head_known = True
        if b"content-encoding" in first:
            self._expect_packed(first[b"content-encoding"])
        if self._is_head_request:
            self._finished = True  # the parser would wait for the body that the headers describe
            self._keep_alive = False

    def _skip_informational(self, status: int) -> None:
        self._informational += 1
        if status == 101 or self._informational > _MAX_INFORMATIONAL:
            raise ValueError("unexpected informational response")

    def _expect_packed(self, coding: bytes) -> None:
        decoder = stream_decoder(coding)
        if decoder is not None:
            self._flow = BodyFlow(self, self._limits, decoder)
            self._head = [header for header in self._head if header[0] not in _PACKING]
            self._first = {name: value for name, value in self._first.items() if name not in _PACKING}

    def on_body(self, data: bytes) -> None:
        if self._flow is not None:
            self._flow.receive(data)
        elif self._is_head_request:
            raise ValueError("a response to HEAD has a body")
        else:
            self._chunks.append(data)

    def on_message_complete(self) -> None:
        if self._head_known and not self._finished:
            self._finished = True
            self._keep_alive = self._parser.should_keep_alive()

    # Outcomes.

    def _progressed(self) -> None:
        """Something came, but not the end."""
        if not self._head_known:
            if self._fed > self._limits.max_header_bytes:
                self._fail(self._lost("the response headers are too large"))
            return
        self._renew_stall_deadline()
        flow = self._flow
        if flow is None:
            flow = self._flow = BodyFlow(self, self._limits)
            if not self._take_chunks(flow):
                return
        self._hand_over()
        flow.deliver()

    def _take_chunks(self, flow: BodyFlow) -> bool:
        """What came with the head goes through the flow like the rest."""
        try:
            for chunk in self._chunks:
                flow.receive(chunk)
        except ResponseTooLarge as error:
            self._fail(error)
            return False
        self._chunks = []
        return True

    def _learn(self, data: bytes) -> None:
        """Remember the head of an ordinary response that came in one piece."""
        self._misses += 1
        if self._misses > MISSES_IN_VAIN and self._misses % MISSES_IN_VAIN:
            return
        ordinary = self._flow is None and self._keep_alive and not self._informational
        if ordinary and b"content-length" in self._first and self._status not in _BODILESS:
            self._template = HeadTemplate.of(data)
            self._model = (self._status, self._head, self._first)

    def _answered_again(self, body: bytes, digits: bytes) -> None:
        """A complete response like the one before it, with another body."""
        limits, waiter = self._limits, self._waiter
        self._misses = 0
        if limits.max_body_bytes is not None and len(body) > limits.max_body_bytes:
            self._fail(_too_large(limits.max_body_bytes))
            return
        status, headers, first = self._model
        self._busy = False
        self._waiter = None
        self.deadline = self._sweep.clock + limits.idle_seconds
        self.owner.released(self)
        if waiter is not None and not waiter.done():
            waiter.set_result(Response(status, headers, first, [body], None, digits))

    def _answered(self, *, reusable: bool) -> None:
        """The response is complete: hand it over, and the connection to whoever is next."""
        flow = self._flow
        limit = self._limits.max_body_bytes
        if flow is not None:
            flow.finish()
        elif limit is not None and sum(map(len, self._chunks)) > limit:
            self._fail(_too_large(limit))
            return
        self._hand_over()
        self._busy = False
        self._flow = None
        if self._headers:
            self._headers = []
        self._chunks = []
        self._fed = self._informational = 0
        if reusable and self._keep_alive and not self.dead:
            if not self._reading:
                self.resume()
            self.deadline = self._sweep.clock + self._limits.idle_seconds
            self.owner.released(self)
        else:
            self._drop()
        if flow is not None:
            flow.deliver()

    def _hand_over(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(Response(self._status, self._head, self._first, self._chunks, self._flow))

    def _renew_stall_deadline(self) -> None:
        seconds = self._limits.body_stall_seconds
        self.deadline = NEVER if seconds is None else self._sweep.clock + seconds

    def _fail(self, error: TransportError) -> None:
        flow, waiter = self._flow, self._waiter
        self._busy = False
        self._flow = self._waiter = None
        self._drop()
        if waiter is not None:
            if not waiter.done():
                waiter.set_exception(error)
        elif flow is not None:
            flow.fail(error)

    def _drop(self) -> None:
        if not self.dead:
            self.dead = True
            self._sweep.discard(self)
            self.transport.abort()
            self.owner.lost(self)

    def _trouble(self, error: Exception) -> TransportError:
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
        if isinstance(cause, ResponseTooLarge):
            return cause
        if isinstance(cause, httptools.HttpParserUpgrade):
            return self._lost("malformed response: it switches to another protocol")
        return self._lost(f"malformed response: {cause}")

    def _lost(self, message: str) -> ConnectionLost:
        return ConnectionLost(message, sent=True, response_started=self._fed > 0)

    # Time.

    def deadline_passed(self) -> None:
        if not self._busy:
            self._drop()
        elif not self._head_known:
            self._fail(HeadTimeout(f"no answer within {self._limits.head_seconds:g} seconds"))
        else:
            self._fail(self._lost("the upstream stalled in the middle of its response"))


def _too_large(limit: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"the response is larger than {limit} bytes")
