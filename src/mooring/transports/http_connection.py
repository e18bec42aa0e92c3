"""One client's connection: requests answered one after the other.

What happens to bytes that arrive is the connection's `_mode`:

    PARSE     between requests, and while a body arrives     -> the reader
    HOLD      a request is being answered                    -> kept, up to a limit, then reading pauses
    RAW       upgraded                                       -> the upgraded protocol
    DISCARD   refused or closing                             -> thrown away, up to a limit

Reading goes on while a request is answered because the end of the client's stream means that it has gone, and
for a stateless protocol that is its way to cancel.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Protocol, cast

from mooring.transports.http_bounded import BoundedConnection
from mooring.transports.http_endpoint import App, Buffered, Streaming
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_peer import identify, reset
from mooring.transports.http_reader import Arrival, RequestReader
from mooring.transports.http_reply import Reply, ReplyHeads
from mooring.transports.http_request import BodyStream, Client, Request
from mooring.transports.http_rules import Refusal
from mooring.transports.http_sweep import NEVER, Sweep
from mooring.transports.http_upgrade import Upgraded

_log = logging.getLogger("mooring.http")
_PARSE, _HOLD, _RAW, _DISCARD = range(4)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_JSON = ((b"content-type", b"application/json"),)


class Edge(Protocol):
    """The listener, as its connections see it."""

    app: App
    limits: ListenerLimits
    sweep: Sweep
    heads: ReplyHeads
    closing: bool

    def opened(self, connection: ServerConnection, client: Client) -> Refusal | None:
        """Count a new connection; a refusal if there are too many."""
        ...

    def lost(self, connection: ServerConnection, client: Client) -> None: ...


class ServerConnection(BoundedConnection):
    """The protocol object of one accepted socket; also what its reply and its streamed body talk to."""

    def __init__(self, edge: Edge) -> None:
        super().__init__(edge.sweep, edge.limits)
        self.heads = edge.heads
        self.compression = edge.limits.compression
        self.reply: Reply | None = None
        self.keep_alive = True
        self.speaks_1_0 = False
        self._edge = edge
        self._client: Client
        self._reader: RequestReader
        self._mode = _PARSE
        self._held: bytearray | None = None
        self._upload: BodyStream | None = None  # the body that the request in progress still waits for
        self._upgraded: Upgraded | None = None
        self._upgradable = False
        self._advancing = False
        self._discarded = 0
        self._body_deadline = NEVER

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        client = self._client = identify(self.transport)
        self._reader = RequestReader(self._edge.app.accept, self.limits, self, client)
        self.deadline = self.sweep.clock + self.limits.header_seconds
        refusal = self._edge.opened(self, client)
        if refusal is not None:
            self._send_refusal(refusal)

    def data_received(self, data: bytes) -> None:
        mode = self._mode
        if mode == _PARSE:
            reader = self._reader
            if self.reply is None and (request := reader.again(data)) is not None:
                self._serve_again(request, reader.repeated)
            elif len(data) > self.limits.max_header_bytes and not self._reader.in_body:
                self._feed_in_steps(data)
            else:
                self._feed(data)
        elif mode == _HOLD:
            self._hold(data)
        elif mode == _RAW:
            self._deliver(data)
        else:
            self._discarded += len(data)
            if self._discarded > self.limits.linger_bytes:
                self.abort()

    def eof_received(self) -> bool:
        upgraded = self._upgraded
        if upgraded is not None and upgraded.on_end is not None:
            upgraded.on_end()
            return True  # it may still read what we have to say
        self._client_gone("the client closed the connection")
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._mode = _DISCARD
        self.closing = True  # from here on the transport must not be touched: uvloop raises
        self._edge.lost(self, self._client)
        self._client_gone("the client closed the connection")
        upgraded = self._upgraded
        if upgraded is not None:
            self._upgraded = None
            upgraded.closed = True
            if upgraded.on_closed is not None:
                upgraded.on_closed()

    def writable_changed(self) -> None:
        upgraded, reply = self._upgraded, self.reply
        if upgraded is not None:
            upgraded.writable = self.writable
            if upgraded.on_writable_changed is not None:
                upgraded.on_writable_changed(self.writable)
        elif reply is not None and reply.on_writable_changed is not None:
            reply.on_writable_changed(self.writable)

    # Requests in, one at a time.

    def _feed(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        if self._upload is not None and self._upload.finished:
            self._finish_upload()
        if reader.unread:
            self._keep(reader.unread)
            reader.unread = b""
        if reader.refusal is not None:
            self._advance()
        elif reader.arrived:
            if self.reply is None:
                self._serve(reader.arrived.pop(0))
                if reader.arrived:
                    self._advance()
        elif self.reply is None or reader.in_body:
            self._await_more()

    def _feed_in_steps(self, data: bytes) -> None:
        """A read can bring more than a head may have: look at the bounds, and at the mode, in between."""
        step = self.limits.max_header_bytes
        self._feed(data[:step])
        for start in range(step, len(data), step):
            self.data_received(data[start : start + step])

    def _await_more(self) -> None:
        """The request is not complete: set the time limit of its next bytes."""
        reader = self._reader
        if reader.in_body:
            buffered = self.reply is None and reader.stream is None
            if buffered and self._body_deadline == NEVER:
                self._body_deadline = self.sweep.clock + self.limits.body_seconds
            self.rearm()
            if buffered and reader.continue_due:
                reader.continue_due = False
                self.transport.write(_CONTINUE)
        elif self.writable and self.reading:
            # The head's own time starts with its first byte and is not renewed.
            self.deadline = min(self.deadline, self.sweep.clock + self.limits.header_seconds)

    def _advance(self) -> None:
        """Serve what has arrived until something has to be waited for."""
        if self._advancing:
            return
        self._advancing = True
        reader = self._reader
        try:
            while self.reply is None and self._mode <= _HOLD:
                if reader.arrived:
                    self._serve(reader.arrived.pop(0))
                elif reader.refusal is not None:
                    self._send_refusal(reader.refusal)
                elif self._held is not None:
                    held = bytes(self._held)
                    self._held = None
                    self._mode = _PARSE
                    self.resume_reading()
                    self.data_received(held)
                else:
                    self._mode = _PARSE
                    break
            if reader.refusal is not None and reader.stream is not None:
                self._break_off(reader.refusal)
        finally:
            self._advancing = False

    def _serve(self, arrival: Arrival) -> None:
        request, endpoint, stream, self.keep_alive, self.speaks_1_0, self._upgradable = arrival
        reply = self.reply = Reply(request, self)
        self._mode = _HOLD
        self._body_deadline = NEVER
        if self.writable and self.reading:
            self.deadline = NEVER
        try:
            if stream is None:
                cast("Buffered", endpoint).handler(request, reply)
            else:
                self._begin_upload(stream)
                cast("Streaming", endpoint).handler(request, reply, stream)
        except Exception:  # noqa: BLE001  the top of a request: whatever its handler raises ends here
            _log.exception("the handler of %s failed", request.path.decode("latin-1"))
            self._fail(reply)

    def _serve_again(self, request: Request, endpoint: Buffered) -> None:
        """As above, for a request that is known to be as ordinary as the one before it."""
        reply = self.reply = Reply(request, self)
        self._mode = _HOLD
        self._upgradable = False
        if self.writable and self.reading:
            self.deadline = NEVER
        try:
            endpoint.handler(request, reply)
        except Exception:  # noqa: BLE001  as above
            _log.exception("the handler of %s failed", request.path.decode("latin-1"))
            self._fail(reply)

    def _fail(self, reply: Reply) -> None:
        if reply.started:
            reply.abort()
        else:
            reply.send(500, _JSON, b'{"error":"internal error"}')

    # Bytes that come too early.

    def _hold(self, data: bytes) -> None:
        if self._reader.refusal is None:
            self._keep(data)
            if self._held is not None and len(self._held) > self.limits.max_held_bytes:
                self.pause_reading()

    def _keep(self, data: bytes) -> None:
        if self._held is None:
            self._held = bytearray(data)
        else:
            self._held += data

    # Streamed bodies.

    def _begin_upload(self, stream: BodyStream) -> None:
        if not stream.finished:
            self._upload = stream
            self._mode = _PARSE
            # An answer before the end of the body is the last one: what follows might not be a request.
            self.keep_alive = False
            self.rearm()

    def _finish_upload(self) -> None:
        assert self._upload is not None
        self.keep_alive = self._upload.keep_alive
        self._upload = None
        self._mode = _HOLD
        self.rearm()

    def body_wanted(self) -> None:
        reader = self._reader
        if reader.continue_due and not self.closing:
            reader.continue_due = False
            self.transport.write(_CONTINUE)
        self.resume_reading()

    def body_full(self) -> None:
        self.pause_reading()

    # The reply's side.

    def reply_ended(self) -> None:
        self.reply = None
        if self._upload is not None:
            self._upload = None
            self._discard()
            self.linger()
        elif not self.keep_alive or self._edge.closing:
            self._discard()
            self.close()
        else:
            if self.writable:
                self.deadline = self.sweep.clock + self.limits.keep_alive_seconds
            self._mode = _PARSE
            reader = self._reader
            if self._held is not None or reader.arrived or reader.refusal is not None:
                self._advance()
            elif reader.midway:
                self._await_more()

    def reply_aborted(self, *, must_reset: bool) -> None:
        self.reply = None
        self._discard()
        if must_reset:
            reset(self.transport)
        self.close()

    def reply_upgraded(self) -> Upgraded:
        if not self._upgradable:
            raise RuntimeError("the client did not offer to upgrade this connection")
        self.reply = None
        self._mode = _RAW
        upgraded = self._upgraded = Upgraded(self)
        if self._held is None:
            self._held = bytearray()
        asyncio.get_running_loop().call_soon(self._deliver_held)
        return upgraded

    def _deliver_held(self) -> None:
        held, self._held = self._held, None
        if held:
            self._deliver(bytes(held))

    def _deliver(self, data: bytes) -> None:
        if self._held is not None:  # not delivered yet: keep the order
            self._held += data
        elif self._upgraded is not None and self._upgraded.on_data is not None:
            self._upgraded.on_data(data)

    # Endings.

    def _discard(self) -> None:
        self._mode = _DISCARD
        self._held = None

    def _client_gone(self, message: str) -> None:
        stream = self._reader.stream
        if stream is not None:
            stream.fail(message)
        reply = self.reply
        if reply is not None:
            self.reply = self._upload = None
            self._discard()
            hook = reply.client_gone()
            self.wake_writers()
            if hook is not None:
                hook()

    def _break_off(self, refusal: Refusal) -> None:
        """The streamed body of the request in progress is broken: nobody can finish it."""
        started = self.reply is not None and self.reply.started
        self._client_gone(refusal.reason)
        if started:
            self.abort()
        else:
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: Refusal) -> None:
        if refusal.status and not self.closing:
            body = json.dumps({"error": refusal.reason}).encode()
            self.transport.write(
                b"%bcontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
                % (self.heads[refusal.status], len(body), body)
            )
        self._discard()
        self.linger()

    def close_when_idle(self) -> None:
        """The listener is closing: finish what is in progress, nothing more."""
        self.keep_alive = False
        busy = self.reply is not None or self._upgraded is not None or self._reader.in_body
        if not busy and not self.closing:
            self._discard()
            self.close()

    # Time.

    def own_deadline(self) -> float:
        clock, limits = self.sweep.clock, self.limits
        if self._reader.in_body:
            return min(clock + limits.body_gap_seconds, self._body_deadline)
        if self.reply is not None or self._upgraded is not None:
            return NEVER
        if self._reader.begun:
            return clock + limits.header_seconds
        return clock + limits.keep_alive_seconds

    def time_is_up(self) -> None:
        reader = self._reader
        if reader.in_body or reader.begun:
            refusal = Refusal(408, "the request took too long to arrive")
            if reader.stream is None:
                self._send_refusal(refusal)
            else:
                self._break_off(refusal)
        elif self.transport.get_write_buffer_size():
            self.abort()  # it has not even taken its last answer
        else:
            self._discard()
            self.close()
