"""Bytes of one connection in, requests out: the parser's callbacks, without any I/O.

A request arrives in `arrived` when its handler can be called: at the end of its body if the endpoint wants it
buffered, at the end of its headers if it is streamed. The first thing that is wrong ends up in `refusal`, and
nothing is read after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import httptools
import msgspec

from mooring.transports import http_rules as rules
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_request import BodySource, BodyStream, Client, Request
from mooring.transports.http_rules import Refusal
from mooring.transports.http_template import MISSES_IN_VAIN, HeadTemplate

_log = logging.getLogger("mooring.http")
_FAIR_CHUNK_BYTES = 16  # size line and line breaks of one chunk, generously
# With these there is more to a request than its head and its body.
_SPECIAL = frozenset((b"expect", b"upgrade", b"transfer-encoding"))
_SMALL_PART_BYTES = 4_096  # parts below this are merged, or tiny chunks would cost 20 times their size

# Request, endpoint, body if streamed, whether the connection may be kept, whether it speaks HTTP/1.0,
# and whether the client offered to upgrade. A plain tuple: one is made per request.
Arrival: TypeAlias = tuple[Request, Endpoint, BodyStream | None, bool, bool, bool]


class RequestReader:
    """Parses the requests of one connection one after the other."""

    __slots__ = (
        "_accept",
        "_body_follows",
        "_chunks",
        "_client",
        "_endpoint",
        "_fed",
        "_first",
        "_headers",
        "_keep_alive",
        "_known_host",
        "_known_target",
        "_length",
        "_limits",
        "_max_body",
        "_misses",
        "_model",
        "_model_endpoint",
        "_parser",
        "_parts",
        "_request",
        "_size",
        "_source",
        "_speaks_1_0",
        "_target",
        "_template",
        "_upgrade",
        "arrived",
        "continue_due",
        "in_body",
        "midway",
        "refusal",
        "repeated",
        "stream",
        "unread",
    )

    def __init__(
        self,
        accept: Callable[[Request], Endpoint],
        limits: ListenerLimits,
        source: BodySource,
        client: Client,
    ) -> None:
        self._accept = accept
        self._limits = limits
        self._source = source
        self._client = client
        self._known_host: bytes | None = None
        self._known_target = b""
        self._first: dict[bytes, bytes] = {}
        self._template: HeadTemplate | None = None
        self._misses = 0
        self._model: Request
        self._model_endpoint: Endpoint
        self.repeated: Buffered
        self.arrived: list[Arrival] = []
        self.refusal: Refusal | None = None
        self.unread = b""
        """Bytes behind an offered upgrade: they belong to whatever protocol follows."""
        self.stream: BodyStream | None = None
        """The streamed body that is still arriving."""
        self.in_body = False
        self.continue_due = False
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self.midway = False
        """Some but not all bytes of a request have been read."""
        self._fed = 0
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self._chunks = 0
        self._length = 0
        self._max_body = 0
        self._keep_alive = True
        self._speaks_1_0 = False
        self._upgrade = False
        self._body_follows = False
        self._request: Request
        self._endpoint: Endpoint

    @property
    def begun(self) -> bool:
        """Whether some bytes of the next request's head have been read."""
        return self.midway and not self.in_body

    def feed(self, data: bytes) -> None:
        """Parse; look at `arrived`, `refusal` and `unread` afterwards."""
        if self._template is not None and not self.midway:
            start = self._template.body_start(data)
            if start >= 0:
                self._arrive_again(data, start)
                return
        whole = not self.midway
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._continue_after_offer(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self.refusal is None:
                self.refusal = Refusal(400, f"malformed request: {error}")
        if self.refusal is None:
            if self.midway:
                self._check_unfinished()
            elif whole and len(self.arrived) == 1:
                self._learn(data)

    def _learn(self, data: bytes) -> None:
        """Remember the head of an ordinary request."""
        self._misses += 1
        if self._misses > MISSES_IN_VAIN and self._misses % MISSES_IN_VAIN:
            return
        request, endpoint, stream, keep_alive, speaks_1_0, _ = self.arrived[0]
        if keep_alive and not speaks_1_0 and stream is None and _SPECIAL.isdisjoint(self._first):
            self._template = HeadTemplate.of(data)
            self._model = request
            self._model_endpoint = endpoint

    def again(self, data: bytes) -> Request | None:
        """A whole request with the head of the one before, for the same endpoint (which is in `repeated`).

        It is the same object with another body: the one before has been answered. None: it has to be looked
        at more closely.
        """
        template = self._template
        if template is None or self.midway:
            return None
        endpoint = self._model_endpoint
        if type(endpoint) is not Buffered or not endpoint.repeats:
            return None
        known = template.known.get(len(data))
        if known is not None and data.startswith(known[0]):
            _, start, digits = known
        else:
            start, digits = template.body_start(data), template.digits
            if start < 0 or len(data) - start > endpoint.max_body_bytes:
                return None
            self._misses = 0
        self.repeated = endpoint
        request = self._model
        request.body = data[start:]
        request.length = digits
        return request

    def _arrive_again(self, data: bytes, start: int) -> None:
        """A request like the one before it, with another body."""
        assert self._template is not None
        self._misses = 0
        request = msgspec.structs.replace(self._model, body=b"", length=self._template.digits)
        try:
            endpoint = self._choose(request)
        except Refusal as refusal:
            self.refusal = refusal
            return
        length = len(data) - start
        if type(endpoint) is not Buffered:
            stream = BodyStream(self._source, length, self._limits.body_buffer_bytes, keep_alive=True)
            if length:
                stream.feed(data[start:])
            stream.finish()
            self.arrived.append((request, endpoint, stream, True, False, False))
        elif length > endpoint.max_body_bytes:
            self.refusal = Refusal(413, "the request body is too large")
        else:
            if length:
                request.body = data[start:]
            self.arrived.append((request, endpoint, None, True, False, False))

    def _check_unfinished(self) -> None:
        """Bounds for what is still incomplete after a read."""
        limits = self._limits
        if not self.in_body:
            if len(self._target) > limits.max_target_bytes:
                self.refusal = Refusal(414, "the request target is too long")
            elif self._fed > limits.max_header_bytes:
                self.refusal = Refusal(431, "request headers are too large")
        elif self._length == rules.CHUNKED:
            allowed = limits.max_header_bytes + limits.max_chunk_overhead_bytes
            if self._fed - self._size > allowed + _FAIR_CHUNK_BYTES * self._chunks:
                self.refusal = Refusal(400, "too many chunk extensions or trailers")

    def _continue_after_offer(self, rest: bytes) -> None:
        """The parser stops at a request that offers an upgrade, and skips its body if it has one.

        Java's HTTP client offers h2c with ordinary requests, so the body must not be lost: a new parser takes
        over in the middle of a message that is framed like this one.
        """
        if not self._body_follows:
            self._begin()
            self.unread = rest
            return
        self._body_follows = False
        length, headers = self._length, self._headers
        self._parser = httptools.HttpRequestParser(_BodyOnly(self))
        self._template = None
        framing = b"transfer-encoding: chunked" if length == rules.CHUNKED else b"content-length: %d" % length
        self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
        self._headers = headers
        if rest:
            self._fed -= len(rest)
            self.feed(rest)

    def _refuse(self, refusal: Refusal) -> Refusal:
        # Raised through the parser to stop it, and kept here because the parser wraps what it catches.
        self.refusal = refusal
        return refusal

    # Callbacks of the parser, in the order in which they come.

    def on_message_begin(self) -> None:
        self.midway = True

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        headers = self._headers
        self._headers = []  # trailers land in the new list, which nobody reads
        try:
            first = self._first = dict(headers)
            if len(first) != len(headers):
                first = self._first = rules.first_values(headers)
            self._check_head(headers, first)
            request = self._request = Request.of(
                self._parser.get_method(), self._target, headers, first, self._client
            )
            if self._target != self._known_target:
                self._known_target = rules.checked_target(request.method, request.target, self._limits)
            endpoint = self._endpoint = self._choose(request)
            self.in_body = True
            if type(endpoint) is Buffered:
                self._max_body = endpoint.max_body_bytes
                if self._length > self._max_body:
                    raise Refusal(413, "the request body is too large")
            else:
                self._open_stream(request, endpoint)
        except Refusal as refusal:
            raise self._refuse(refusal) from None

    def _check_head(self, headers: list[tuple[bytes, bytes]], first: dict[bytes, bytes]) -> None:
        """Most requests of a connection look like the one before: what was checked then is only compared."""
        limits = self._limits
        # Only 1.1 keeps connections without being asked; whatever else this might be is looked at closely.
        self._keep_alive = self._parser.should_keep_alive()
        if not self._keep_alive or b"connection" in first or b"proxy-connection" in first:
            self._check_version()
        if len(headers) > limits.max_header_count:
            raise Refusal(431, "too many request headers")
        if self._fed > limits.max_header_bytes:
            rules.check_sizes(self._target, headers, limits)
        host = first.get(b"host")
        if host is None or host != self._known_host:
            rules.check_host(host, required=not self._speaks_1_0)
            self._known_host = host
        length = first.get(b"content-length")
        if length is not None and b"transfer-encoding" not in first:
            self._length = int(length)  # digits only: llhttp has counted with it already
        else:
            self._length = rules.body_length(first, speaks_1_0=self._speaks_1_0)
        if b"expect" in first:
            rules.check_expectation(first[b"expect"])
            self.continue_due = not self._speaks_1_0
        if b"upgrade" in first:
            self._upgrade = self._parser.should_upgrade()
            self._body_follows = self._upgrade and self._length != 0
        if len(self.arrived) >= limits.max_pipelined:
            raise Refusal(0, "too many requests ahead of their answers")

    def _check_version(self) -> None:
        version = self._parser.get_http_version()
        rules.check_version(version)
        if version == "1.0":
            self._speaks_1_0 = True
            self._keep_alive = False

    def _choose(self, request: Request) -> Endpoint:
        try:
            return self._accept(request)
        except Refusal:
            raise
        except Exception as error:  # the top of a request: whatever the application raises ends here
            _log.exception("choosing an endpoint for %s failed", request.path.decode("latin-1"))
            raise Refusal(500, "internal error") from error

    def _open_stream(self, request: Request, endpoint: Endpoint) -> None:
        length = None if self._length == rules.CHUNKED else self._length
        limit = self._limits.body_buffer_bytes
        self.stream = BodyStream(self._source, length, limit, keep_alive=self._keep_alive)
        self.arrived.append((request, endpoint, self.stream, self._keep_alive, self._speaks_1_0, False))

    def on_chunk_header(self) -> None:
        self._chunks += 1

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self.stream is not None:
            self.stream.feed(data)
            return
        if self._size > self._max_body:
            raise self._refuse(Refusal(413, "the request body is too large"))
        parts = self._parts
        if len(data) >= _SMALL_PART_BYTES or not parts:
            parts.append(data)
        elif type(last := parts[-1]) is bytearray:
            last += data
        else:
            parts.append(bytearray(data))

    def on_message_complete(self) -> None:
        if self._body_follows:
            return
        if self.stream is not None:
            self.stream.finish()
            self.stream = None
        else:
            request = self._request
            parts = self._parts
            if parts:
                first = parts[0]
                request.body = first if len(parts) == 1 and type(first) is bytes else b"".join(parts)
                self._parts = []
            self.arrived.append(
                (request, self._endpoint, None, self._keep_alive, self._speaks_1_0, self._upgrade)
            )
        self.midway = self.in_body = self.continue_due = self._upgrade = self._speaks_1_0 = False
        self._target = b""
        self._fed = self._size = self._chunks = 0
        if self._headers:
            self._headers = []


class _BodyOnly:
    """Callbacks for a parser that was given a made-up head: passes on what comes after it."""

    def __init__(self, reader: RequestReader) -> None:
        self._reader = reader
        self._head_seen = False
        self.on_body = reader.on_body
        self.on_chunk_header = reader.on_chunk_header
        self.on_message_complete = reader.on_message_complete

    def on_message_begin(self) -> None:
        self.midway = True

    def on_url(self, part: bytes) -> None:
        if self._head_seen:
            self._reader.on_url(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_seen:
            self._reader.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._head_seen:
            self._reader.on_headers_complete()
        self._head_seen = True
