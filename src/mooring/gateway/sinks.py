"""Where answers go: a POST that becomes JSON or an event stream, or the one channel of an older or local
client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import ClassVar, Final, Protocol

import msgspec

from mooring.gateway import kept_answers
from mooring.gateway.exchange import Exchange
from mooring.gateway.tracing import Tracer
from mooring.protocol.sse import encode_event
from mooring.transports.event_streams import STREAM_HEADERS, EventOutlet, StreamLog, encode_kept
from mooring.transports.http_reply import JSON_HEADERS, Reply
from mooring.transports.http_request import Request
from mooring.transports.spool import Kept, spilled
from mooring.transports.wire import Leg, Relay

log = logging.getLogger(__name__)

LEGACY_STREAM_AFTER_SECONDS: Final = 0.5
"""A call that takes longer gets an event stream, which a legacy client can lose and pick up again."""
RETRY_MILLISECONDS: Final = 1000
"""When a client that lost its stream should come back for the rest of it."""
MODERN_STREAM_AFTER_SECONDS: Final = 10.0
"""A modern one gets it only to keep the connection alive; until then an error can still have its HTTP
status."""


class StreamOwner(Protocol):
    """A legacy session, seen from one of its streams."""

    primes: bool

    def new_stream(self) -> StreamLog: ...
    def number_stream(self) -> int: ...


def accepts_streams(request: Request) -> bool:
    accepted = request.header(b"accept")
    return accepted is not None and (b"text/event-stream" in accepted or b"*/*" in accepted)


class PostSink(msgspec.Struct, eq=False):
    """The response to one POST. It stays undecided until there is something to say before the answer."""

    flows: ClassVar[bool] = True
    _reply: Reply
    _tracer: Tracer
    _peer: str
    _owner: StreamOwner | None = None
    _headers: tuple[tuple[bytes, bytes], ...] = ()
    _leg: Leg | None = None
    _log: StreamLog | None = None
    _outlet: EventOutlet | None = None
    _is_event: bool = False

    def bind(self, exchange: Exchange) -> None:
        """From now on a client that closes the connection cancels this exchange (2026-07-28)."""
        self._reply.on_closed = exchange.cancel

    def throttle(self, leg: Leg) -> None:
        """While the client cannot keep up, this leg is not read."""
        self._leg = leg

    def _on_congested(self, congested: bool) -> None:
        flow = self._leg.flow if self._leg is not None else None
        if flow is not None:
            if congested:
                flow.pause()
            else:
                flow.resume()

    def emit(self, message: bytes) -> None:
        if self._outlet is None and not self._open():
            return
        if self._tracer.active:
            self._tracer.message("client", "out", self._peer, message)
        self._write(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        if self._tracer.active:
            self._tracer.message("client", "out", self._peer, message)
        if self._outlet is None:
            if self._is_event:
                self._answer_as_event(message)
            elif status == 200 and not self._headers:
                self._reply.send_json(message)
            else:
                headers = self._headers if status != 429 else (*self._headers, *_retry_after(message))
                self._reply.send(status, JSON_HEADERS + headers, message)
            return
        self._write(message)
        self._end()

    def _answer_as_event(self, message: bytes) -> None:
        """The whole stream in one piece: the event that opens it, and the answer."""
        assert self._owner is not None
        number = self._owner.number_stream()
        opening = encode_event(b"", None, b"%d-1" % number, RETRY_MILLISECONDS)
        body = opening + encode_event(message, b"message", b"%d-2" % number)
        self._reply.send(200, STREAM_HEADERS + self._headers, body)

    def relay(self, relay: Relay) -> None:
        if self._tracer.active:
            self._tracer.noted("client", self._peer, "a large answer flows through")
        reply = self._reply
        if self._must_collect():
            kept_answers.keep(relay, self._collected)
            return
        if reply.closed:
            relay.abort()
            return
        reply.on_closed = partial(self._cut, relay)
        reply.on_writable_changed = partial(_throttle, relay)
        if self._outlet is None:
            reply.start(200, JSON_HEADERS + self._headers, length=relay.length)
            relay.attach(reply.write, partial(_end_body, reply))
        else:
            self._outlet.flush()
            reply.write(b"event: message\ndata: ")
            relay.attach(partial(_write_data, reply), self._relayed)

    def _must_collect(self) -> bool:
        """Whether an answer cannot flow through: its reader is away, back elsewhere, or has to catch up."""
        if self._outlet is None:
            return False
        return self._outlet.is_behind or (self._log is not None and self._log.live is not self._outlet)

    def _collected(self, kept: Kept | None, error: Exception | None) -> None:
        if kept is not None:
            self._write(kept)
        else:
            log.info("a large answer was lost: %s", error)
        self._end()

    def keep(self, kept: Kept) -> None:
        """An answer that waits on disk."""
        if self._tracer.active:
            self._tracer.noted("client", self._peer, f"an answer of {kept.length} bytes")
        if self._outlet is None:
            self._reply.send_kept(200, JSON_HEADERS + self._headers, kept)
            return
        self._write(kept)
        self._end()

    def _relayed(self, error: Exception | None) -> None:
        _end_event(self._reply, error)
        self._end()

    def _cut(self, relay: Relay) -> None:
        """The client left in the middle of a large answer: it is not kept, so there is no coming back."""
        relay.abort()
        self._end()

    def drop(self) -> None:
        """No answer will come: the call was cancelled. An empty stream says so in HTTP."""
        if self._reply.closed:
            return
        if self._outlet is None and not self._open():
            self._reply.send(202, (), b"")
            return
        self._end()

    def stream(self, *, at_once: bool) -> None:
        """Answer with an event stream rather than JSON: a client that loses it can come back for the rest.

        Not at once: only when there is something to send, so that a quick answer is one write.
        """
        if self._outlet is None and self._owner is not None and self._owner.primes:
            if at_once:
                self._open()
            else:
                self._is_event = accepts_streams(self._reply.request)

    def polled(self, retry_milliseconds: int | None) -> None:
        """The server wants to be polled; so we let our client do the same, if it knows how to."""
        if self._owner is None or not self._owner.primes:
            return
        if self._outlet is None and not self._open():
            return
        assert self._log is not None
        assert self._outlet is not None
        if retry_milliseconds is not None:
            self._log.send(b"", retry=retry_milliseconds)
        self._log.live = None
        self._outlet.end()

    def tick(self, age_seconds: float) -> None:
        if self._outlet is None:
            after = LEGACY_STREAM_AFTER_SECONDS if self._owner is not None else MODERN_STREAM_AFTER_SECONDS
            if age_seconds >= after and not self._reply.closed:
                self._open()
        else:  # a client that lost the stream and is back reads it elsewhere
            live = self._outlet if self._log is None else self._log.live
            if live is not None:
                live.tick(monotonic())

    def _open(self) -> bool:
        if self._reply.closed or not accepts_streams(self._reply.request):
            return False
        self._outlet = EventOutlet(self._reply, self._headers)
        self._outlet.last_write = monotonic()
        self._outlet.on_congested = self._on_congested
        if self._owner is not None:
            self._log = self._owner.new_stream()
            self._log.live = self._outlet
            if self._owner.primes:
                self._log.send(b"", retry=RETRY_MILLISECONDS)
        return True

    def _write(self, message: bytes | Kept) -> None:
        if self._log is not None:
            self._log.send(message)
        elif self._outlet is not None:
            self._outlet.write(encode_kept(message))

    def _end(self) -> None:
        if self._log is not None:
            self._log.finish(monotonic())
        elif self._outlet is not None:
            self._outlet.end()


class ChannelSink:
    """A client with one channel for everything: HTTP+SSE or stdio."""

    __slots__ = ("_peer", "_send", "_tracer")
    flows: ClassVar[bool] = False

    def __init__(self, send: Callable[[bytes | Kept], None], tracer: Tracer, peer: str) -> None:
        self._send = send
        self._tracer = tracer
        self._peer = peer

    def bind(self, exchange: Exchange) -> None:
        """Requests on a channel are cancelled by a notification."""

    def throttle(self, leg: Leg) -> None:
        """One slow call must not hold up the others on the channel; the channel has a limit of its own."""

    def emit(self, message: bytes) -> None:
        if self._tracer.active:
            self._tracer.message("client", "out", self._peer, message)
        self._send(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        del status  # there is no HTTP response to put it on
        self.emit(message)

    def relay(self, relay: Relay) -> None:
        del relay
        raise AssertionError("one slow answer would hold up everything else on the channel")

    def keep(self, kept: Kept) -> None:
        if self._tracer.active:
            self._tracer.noted("client", self._peer, f"an answer of {kept.length} bytes")
        self._send(kept)

    def drop(self) -> None:
        """A cancelled call gets no answer."""

    def stream(self, *, at_once: bool) -> None:
        """It is one already."""

    def polled(self, retry_milliseconds: int | None) -> None:
        """There is no stream of its own to poll."""

    def tick(self, age_seconds: float) -> None:
        """The channel is kept alive by whoever owns it."""


class BatchSink:
    """Collects the answers of a batch (2025-03-26) and sends them as one."""

    __slots__ = ("_answers", "_inner", "_missing")
    flows: ClassVar[bool] = False

    def __init__(self, inner: PostSink | ChannelSink, requests: int) -> None:
        self._inner = inner
        self._missing = requests
        self._answers: list[bytes | Kept] = []

    def bind(self, exchange: Exchange) -> None:
        """Batches are older than cancelling by closing."""

    def throttle(self, leg: Leg) -> None:
        """Several legs share the response."""

    def emit(self, message: bytes) -> None:
        self._inner.emit(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        del status
        self._answers.append(spilled(message))  # the others may take long, and be as large
        self._one_less()

    def relay(self, relay: Relay) -> None:
        del relay
        raise AssertionError("answers in a batch are whole messages")

    def keep(self, kept: Kept) -> None:
        self._answers.append(kept)
        self._one_less()

    def drop(self) -> None:
        self._one_less()

    def stream(self, *, at_once: bool) -> None:
        """The answers come as one."""

    def polled(self, retry_milliseconds: int | None) -> None:
        """Batches are older than polling."""

    def tick(self, age_seconds: float) -> None:
        self._inner.tick(age_seconds)

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing > 0:
            return
        if not self._answers:
            self._inner.drop()
            return
        small = [answer for answer in self._answers if isinstance(answer, bytes)]
        if len(small) == len(self._answers):
            self._inner.answer(b"[" + b",".join(small) + b"]")
        else:
            self._inner.keep(Kept.array(self._answers))


class _Data(msgspec.Struct):
    seconds: int = msgspec.field(name="retryAfterSeconds")


class _Error(msgspec.Struct):
    data: _Data


class _Refusal(msgspec.Struct):
    error: _Error


def _retry_after(message: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """When to come back, for those who read only the head of a 429."""
    try:
        seconds = msgspec.json.decode(message, type=_Refusal).error.data.seconds
    except msgspec.DecodeError:  # a server's own refusal, which need not say
        return ()
    return ((b"retry-after", b"%d" % seconds),)


def _throttle(relay: Relay, writable: bool) -> None:
    if writable:
        relay.resume()
    else:
        relay.pause()


def _end_body(reply: Reply, error: Exception | None) -> None:
    reply.on_closed = None
    if reply.closed:
        return
    if error is not None:
        reply.abort()
    else:
        reply.end()


def _write_data(reply: Reply, data: bytes) -> None:
    """JSON may be broken into lines anywhere but in a string, where they cannot be; an event's data may
    not."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    reply.write(data)


def _end_event(reply: Reply, error: Exception | None) -> None:
    if error is None and not reply.closed:
        reply.write(b"\n\n")
    _end_body(reply, error)
