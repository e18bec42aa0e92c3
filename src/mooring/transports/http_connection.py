"""One client's connection: requests answered one after the other, every wait bounded.

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
import select
import socket
from typing import Protocol, cast

from mooring.transports.http_endpoint import App, Buffered, Streaming
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_reader import Arrival, RequestReader
from mooring.transports.http_reply import Reply, ReplyHeads
from mooring.transports.http_request import BodyStream, Client
from mooring.transports.http_rules import Refusal
from mooring.transports.http_sweep import NEVER, Sweep
from mooring.transports.http_upgrade import Upgraded

_log = logging.getLogger("mooring.http")
_PARSE, _HOLD, _RAW, _DISCARD = range(4)
_HANGUP_CHECK_SECONDS = 1.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_JSON = ((b"content-type", b"application/json"),)


class Edge(Protocol):
    """The listener, as its connections see it."""

    app: App
    limits: ListenerLimits
    sweep: Sweep
    heads: ReplyHeads
    closing: bool

    def opened(self, connection: ServerConnection, address: str | None) -> Refusal | None:
        """Count a new connection; a refusal if there are too many."""
        ...

    def lost(self, connection: ServerConnection, address: str | None) -> None: ...


class ServerConnection(asyncio.Protocol):
    """The protocol object of one accepted socket; also what its reply and its streamed body talk to."""

    __slots__ = (
        "_address",
        "_advancing",
        "_body_deadline",
        "_closing",
        "_discarded",
        "_edge",
        "_held",
        "_limits",
        "_mode",
        "_reader",
        "_reading",
        "_stalled_at_bytes",
        "_sweep",
        "_upgradable",
        "_upgraded",
        "_waiters",
        "compression",
        "deadline",
        "heads",
        "keep_alive",
        "reply",
        "speaks_1_0",
        "transport",
        "writable",
    )

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._limits = edge.limits
        self._sweep = edge.sweep
        self.heads = edge.heads
        self.compression = edge.limits.compression
        self.reply: Reply | None = None
        self.writable = True
        self.keep_alive = True
        self.speaks_1_0 = False
        self.deadline = NEVER
        self.transport: asyncio.Transport
        self._reader: RequestReader
        self._mode = _PARSE
        self._address: str | None = None
        self._held: bytearray | None = None
        self._upgraded: Upgraded | None = None
        self._upgradable = False
        self._advancing = False
        self._closing = False
        self._reading = True
        self._discarded = 0
        self._stalled_at_bytes = 0
        self._body_deadline = NEVER
        self._waiters: list[asyncio.Future[None]] = []

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer, uid, self._address = _identify(self.transport)
        secure = self.transport.get_extra_info("sslcontext") is not None
        client = Client(peer, uid, secure)
        self._reader = RequestReader(self._edge.app.accept, self._limits, self, client)
        self.transport.set_write_buffer_limits(self._limits.write_high_water_bytes)
        self.deadline = self._sweep.clock + self._limits.header_seconds
        refusal = self._edge.opened(self, self._address)
        if refusal is not None:
            self._send_refusal(refusal)

    def data_received(self, data: bytes) -> None:
        mode = self._mode
        if mode == _PARSE:
            if len(data) > self._limits.max_header_bytes and not self._reader.in_body:
                self._feed_in_steps(data)
            else:
                self._feed(data)
        elif mode == _HOLD:
            self._hold(data)
        elif mode == _RAW:
            self._deliver(data)
        else:
            self._discarded += len(data)
            if self._discarded > self._limits.linger_bytes:
                self.transport.abort()

    def eof_received(self) -> bool:
        self._client_gone("the client closed the connection")
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._mode = _DISCARD
        self._closing = True  # from here on the transport must not be touched: uvloop raises
        self._edge.lost(self, self._address)
        self._client_gone("the client closed the connection")
        upgraded = self._upgraded
        if upgraded is not None:
            self._upgraded = None
            upgraded.closed = True
            if upgraded.on_closed is not None:
                upgraded.on_closed()

    def pause_writing(self) -> None:
        self.writable = False
        self._stalled_at_bytes = self.transport.get_write_buffer_size()
        self.deadline = self._sweep.clock + self._limits.write_stall_seconds
        self._tell_writable()

    def resume_writing(self) -> None:
        self.writable = True
        self._rearm()
        self._wake_writers()
        self._tell_writable()

    def _tell_writable(self) -> None:
        target = self.reply if self._upgraded is None else self._upgraded
        if isinstance(target, Upgraded):
            target.writable = self.writable
        if target is not None and target.on_writable_changed is not None:
            target.on_writable_changed(self.writable)

    # Requests in, one at a time.

    def _feed(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
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
        step = self._limits.max_header_bytes
        self._feed(data[:step])
        for start in range(step, len(data), step):
            self.data_received(data[start : start + step])

    def _await_more(self) -> None:
        """The request is not complete: set the time limit of its next bytes."""
        clock, limits, reader = self._sweep.clock, self._limits, self._reader
        if reader.in_body:
            if self.reply is None and reader.stream is None and self._body_deadline == NEVER:
                self._body_deadline = clock + limits.body_seconds
            if self.writable and self._reading:
                self.deadline = min(clock + limits.body_gap_seconds, self._body_deadline)
            if reader.continue_due and reader.stream is None and self.reply is None:
                reader.continue_due = False
                self.transport.write(_CONTINUE)
        elif self.deadline > clock + limits.header_seconds:
            # Was the idle time; the head's own time starts with its first byte and is not renewed.
            self.deadline = clock + limits.header_seconds

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
                    self._resume_reading()
                    self.data_received(held)
                else:
                    self._mode = _PARSE
                    return
            if reader.refusal is not None and reader.stream is not None:
                self._break_off(reader.refusal)
        finally:
            self._advancing = False

    def _serve(self, arrival: Arrival) -> None:
        request, endpoint, stream, self.keep_alive, self.speaks_1_0, self._upgradable = arrival
        reply = self.reply = Reply(request, self)
        self._body_deadline = NEVER
        if self.writable and self._reading:
            self.deadline = NEVER
        try:
            if stream is None:
                self._mode = _HOLD
                cast("Buffered", endpoint).handler(request, reply)
            else:
                self._await_stream(stream)
                cast("Streaming", endpoint).handler(request, reply, stream)
        except Exception:  # noqa: BLE001  the top of a request: whatever its handler raises ends here
            _log.exception("the handler of %s failed", request.path.decode("latin-1"))
            self._fail(reply)

    def _await_stream(self, stream: BodyStream) -> None:
        if stream.finished:
            self._mode = _HOLD
        else:
            self._mode = _PARSE
            self._rearm()

    def _fail(self, reply: Reply) -> None:
        if reply.started:
            reply.abort()
        else:
            reply.send(500, _JSON, b'{"error":"internal error"}')

    # The reply's side.

    def reply_ended(self) -> None:
        self.reply = None
        reader = self._reader
        if reader.stream is not None:
            self._linger()
        elif not self.keep_alive or self._edge.closing:
            self._close()
        else:
            if self.writable:
                self.deadline = self._sweep.clock + self._limits.keep_alive_seconds
            self._mode = _PARSE
            if self._held is not None or reader.arrived or reader.refusal is not None:
                self._advance()

    def reply_aborted(self, *, reset: bool) -> None:
        self.reply = None
        if reset:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.transport.abort()
        self._close()

    def reply_upgraded(self) -> Upgraded:
        if not self._upgradable:
            raise RuntimeError("the client did not offer to upgrade this connection")
        self.reply = None
        self._mode = _RAW
        upgraded = self._upgraded = Upgraded(self.transport)
        asyncio.get_running_loop().call_soon(self._deliver_held)
        return upgraded

    def writable_again(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        return future

    def _wake_writers(self) -> None:
        waiters = self._waiters
        if waiters:
            self._waiters = []
            for future in waiters:
                if not future.done():
                    future.set_result(None)

    def _deliver_held(self) -> None:
        held, self._held = self._held, None
        self._resume_reading()
        if held is not None:
            self._deliver(bytes(held))

    def _deliver(self, data: bytes) -> None:
        upgraded = self._upgraded
        if upgraded is None:
            return
        if self._held is not None:  # not delivered yet: keep the order
            self._held += data
        elif upgraded.on_data is not None:
            upgraded.on_data(data)

    # The streamed body's side.

    def body_wanted(self) -> None:
        reader = self._reader
        if reader.continue_due and not self._closing:
            reader.continue_due = False
            self.transport.write(_CONTINUE)
        self._resume_reading()

    def body_full(self) -> None:
        self._pause_reading()

    def _pause_reading(self) -> None:
        if self._reading and not self._closing:
            self._reading = False
            self.transport.pause_reading()
            self._rearm()

    def _resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self.transport.resume_reading()
            self._rearm()

    # Bytes that come too early.

    def _hold(self, data: bytes) -> None:
        if self._reader.refusal is None:
            self._keep(data)
            assert self._held is not None
            if len(self._held) > self._limits.max_held_bytes:
                self._pause_reading()

    def _keep(self, data: bytes) -> None:
        if self._held is None:
            self._held = bytearray(data)
        else:
            self._held += data

    # Endings.

    def _client_gone(self, message: str) -> None:
        self._wake_writers()
        stream = self._reader.stream
        if stream is not None:
            stream.fail(message)
        reply = self.reply
        if reply is not None:
            self.reply = None
            self._mode = _DISCARD
            hook = reply.client_gone()
            self._wake_writers()
            if hook is not None:
                hook()

    def _break_off(self, refusal: Refusal) -> None:
        """The streamed body of the request in progress is broken: nobody can finish it."""
        reply = self.reply
        started = reply is not None and reply.started
        self._client_gone(refusal.reason)
        if started:
            self.transport.abort()
        else:
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: Refusal) -> None:
        if refusal.status:
            body = json.dumps({"error": refusal.reason}).encode()
            head = self.heads[refusal.status]
            self.transport.write(
                b"%bcontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
                % (head, len(body), body)
            )
        self._linger()

    def _linger(self) -> None:
        """Close so that the last answer arrives: a socket closed on unread bytes resets the connection."""
        self._mode = _DISCARD
        self._held = None
        self._resume_reading()
        self._closing = True
        self.deadline = self._sweep.clock + self._limits.linger_seconds
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close(self) -> None:
        self._mode = _DISCARD
        self._held = None
        self._closing = True
        self.deadline = self._sweep.clock + self._limits.write_stall_seconds
        self.transport.close()

    def close_when_idle(self) -> None:
        """The listener is closing: finish what is in progress, nothing more."""
        self.keep_alive = False
        if self.reply is None and self._upgraded is None and not self._reader.in_body and not self._closing:
            self._close()

    def abort(self) -> None:
        self.transport.abort()

    # Time.

    def _rearm(self) -> None:
        """Choose the deadline anew after reading or writing has been resumed or paused."""
        clock, limits = self._sweep.clock, self._limits
        if self._closing or not self.writable:
            return
        if not self._reading:
            self.deadline = clock + _HANGUP_CHECK_SECONDS
        elif self._reader.in_body:
            self.deadline = min(clock + limits.body_gap_seconds, self._body_deadline)
        elif self.reply is not None or self._upgraded is not None:
            self.deadline = NEVER
        else:
            self.deadline = clock + limits.keep_alive_seconds

    def deadline_passed(self) -> None:
        if self._closing:
            self.transport.abort()
        elif not self.writable:
            self._check_stall()
        elif not self._reading:
            self._check_hangup()
        elif self._reader.in_body or self._reader.begun:
            self._time_out()
        elif self.reply is None and self._upgraded is None:
            self._close() if not self.transport.get_write_buffer_size() else self.transport.abort()
        else:
            self.deadline = NEVER

    def _check_stall(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting >= self._stalled_at_bytes:
            self.transport.abort()
        else:
            self._stalled_at_bytes = waiting
            self.deadline = self._sweep.clock + self._limits.write_stall_seconds

    def _check_hangup(self) -> None:
        """While reading is paused the loop does not notice that the client has gone: ask the kernel.

        It knows unless the client sent more than the socket's buffers hold; then the end is behind that.
        """
        self.deadline = self._sweep.clock + _HANGUP_CHECK_SECONDS
        if _hung_up(self.transport):
            self.transport.abort()

    def _time_out(self) -> None:
        refusal = Refusal(408, "the request took too long to arrive")
        if self._reader.stream is not None:
            self._break_off(refusal)
        else:
            self._send_refusal(refusal)


def _identify(transport: asyncio.Transport) -> tuple[str, int | None, str | None]:
    """Address to show, user id on a Unix socket, and the address to count connections by."""
    sock = transport.get_extra_info("socket")
    if sock.family == getattr(socket, "AF_UNIX", None):
        return "unix", _peer_uid(sock), None
    sock.setsockopt(
        socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
    )  # a peer that lost its power is noticed some day
    name = transport.get_extra_info("peername")
    address = str(name[0]) if name else "unknown"
    return address, None, address


def _peer_uid(sock: socket.socket) -> int | None:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    credentials = sock.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], "little" if _LITTLE else "big")


_LITTLE = memoryview(b"\1\0").cast("H")[0] == 1


def _hung_up(transport: asyncio.Transport) -> bool:
    flags = getattr(select, "POLLRDHUP", 0)
    if not flags:
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), flags)
    return bool(poll.poll(0))
