"""What we answer: one reply per request, whole or streamed, compressed when that is worth it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from mooring.transports import compression, file_body
from mooring.transports.http_request import Request
from mooring.transports.http_upgrade import Upgraded
from mooring.transports.patient_body import PatientBody
from mooring.transports.spool import Kept

COMPRESS_FROM_BYTES = 1_024
_PIECE_BYTES = 65_536  # compressing this much takes about half a millisecond; the loop turns in between
_LARGE_BYTES = 1_048_576  # more than this is not handed to the kernel's queue in one go
_LARGE_PIECE_BYTES = 262_144
_JOIN_BELOW_BYTES = 65_536  # copying less than this costs less than a second buffer in the kernel call
_OURS = frozenset((b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"date"))
_CACHED_BLOCKS = 256
_CACHED_LINES = 4_096
_CACHED_VALUE_BYTES = 128
_BODILESS = frozenset((204, 304))

# A reply goes from one to the next of these, never back.
_FRESH, _STREAMING, _ENDED = range(3)
# How the client finds the end of a streamed body.
_CHUNKED, _COUNTED, _UNTIL_CLOSE, _NO_BODY = range(4)

Headers = Sequence[tuple[bytes, bytes]]
JSON_HEADERS: Final = ((b"content-type", b"application/json"),)


class ReplyHeads(dict[int, bytes]):
    """Status line and date for every status in use; the date is renewed by `refresh`."""

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self.json = b""
        """The head of the most common answer: 200 with JSON in it, up to its length."""
        self.refresh()

    def refresh(self) -> None:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self.clear()
            self.json = self[200] + encode_headers(JSON_HEADERS)

    def __missing__(self, status: int) -> bytes:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Unknown"
        date = formatdate(self._second, usegmt=True)
        head = self[status] = f"HTTP/1.1 {status} {phrase}\r\ndate: {date}\r\n".encode()
        return head


class ReplyChannel(Protocol):
    """The connection, as its current reply sees it."""

    transport: asyncio.Transport
    heads: ReplyHeads
    writable: bool
    keep_alive: bool
    speaks_1_0: bool
    compression: bool

    def reply_ended(self) -> None: ...
    def reply_aborted(self, *, must_reset: bool) -> None: ...
    def reply_upgraded(self) -> Upgraded: ...
    def writable_again(self) -> asyncio.Future[None]: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


_blocks: dict[tuple[tuple[bytes, bytes], ...], bytes] = {}
_lines: dict[tuple[bytes, bytes], bytes] = {}


def encode_headers(headers: Headers) -> bytes:
    """`name: value` lines. Tuples (constants, mostly) are remembered whole, other headers line by line."""
    if isinstance(headers, tuple):
        block = _blocks.get(headers)
        if block is None:
            if len(_blocks) >= _CACHED_BLOCKS:
                _blocks.clear()
            block = _blocks[headers] = b"".join(map(_encode_header, headers))
        return block
    try:
        return b"".join([_lines[header] for header in headers])
    except KeyError:
        return b"".join(map(_encode_header, headers))


def _encode_header(header: tuple[bytes, bytes]) -> bytes:
    name, value = header
    line = b"" if name in _OURS else b"%b: %b\r\n" % header
    # A line break inside a value would let its author write headers, or a second response, of their own.
    if line and (line.count(b"\n") != 1 or line.count(b"\r") != 1 or b"\0" in line):
        raise ValueError(f"the response header `{name.decode('latin-1')}` contains a line break or NUL")
    if len(value) <= _CACHED_VALUE_BYTES:
        if len(_lines) >= _CACHED_LINES:
            _lines.clear()
        _lines[header] = line
    return line


def _value(headers: Headers, name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None


class Reply(msgspec.Struct, eq=False):
    """The answer to one request; use `send`, or `start`, `write`..., `end`.

    Header names are lower case. Framing (`content-length`, `transfer-encoding`, `connection`) and `date` are
    set here; the same headers among the caller's are left out, so those of another server can be passed on.

    A caller that streams stops writing while `writable` is False (`drain`, or `on_writable_changed`): what it
    writes regardless stays in memory until the client takes it or is cut off for stalling.

    Once `closed` is True everything here does nothing: nobody is listening any more. `on_writable_changed` is
    told so too, as the last thing it hears.
    """

    request: Request
    _channel: ReplyChannel
    closed: bool = False
    on_closed: Callable[[], object] | None = None
    on_writable_changed: Callable[[bool], object] | None = None
    _phase: int = _FRESH
    _framing: int = _CHUNKED
    _left: int = 0
    _coding: bytes | None = None
    _compressor: compression.StreamCompressor | None = None

    @property
    def started(self) -> bool:
        """Whether the head has been sent, so that the status can no longer change."""
        return self._phase != _FRESH

    @property
    def ended(self) -> bool:
        return self._phase == _ENDED

    @property
    def writable(self) -> bool:
        return self._channel.writable

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """The complete answer."""
        if self._phase != _FRESH:
            raise RuntimeError("this reply has been started already; send() is for whole answers")
        block = _blocks.get(headers) if isinstance(headers, tuple) else None
        if block is None:
            block = encode_headers(headers)
        if self.closed:
            return
        channel = self._channel
        length = len(body)
        if length >= COMPRESS_FROM_BYTES and self.request.method != b"HEAD":
            coding = self._coding_for(headers)
            if coding is not None:
                if length > 2 * _PIECE_BYTES:
                    self.start(status, headers)
                    PatientBody(self, body, _PIECE_BYTES)
                    return
                body = compression.compress(coding, body)
                length = len(body)
                block += b"content-encoding: %b\r\n" % coding
            if self._varies(headers):
                block += b"vary: accept-encoding\r\n"
            if length > _LARGE_BYTES and status not in _BODILESS:
                self.start(status, headers, length=length)
                PatientBody(self, body, _LARGE_PIECE_BYTES)
                return
        if not channel.keep_alive:
            block += b"connection: close\r\n"
        self._phase = _ENDED
        head = channel.heads[status]
        if status in _BODILESS or self.request.method == b"HEAD":
            framing = b"\r\n" if status in _BODILESS else b"content-length: %d\r\n\r\n" % length
            channel.transport.write(head + block + framing)
        elif length < _JOIN_BELOW_BYTES:
            channel.transport.write(b"".join((head, block, b"content-length: %d\r\n\r\n" % length, body)))
        else:
            channel.transport.write(b"%b%bcontent-length: %d\r\n\r\n" % (head, block, length))
            channel.transport.write(body)
        channel.reply_ended()

    def send_json(self, body: bytes) -> None:
        """The complete answer to a POST, when all is well: `send(200, JSON_HEADERS, body)`, only sooner."""
        channel = self._channel
        length = len(body)
        if self._phase != _FRESH or length >= COMPRESS_FROM_BYTES or not channel.keep_alive or self.closed:
            self.send(200, JSON_HEADERS, body)
            return
        self._phase = _ENDED
        channel.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (channel.heads.json, length, body))
        channel.reply_ended()

    def send_kept(self, status: int, headers: Headers, body: Kept) -> None:
        """The complete answer, which is on disk: it goes out as fast as the client reads."""
        self.start(status, headers, length=body.length)
        if not self.closed:
            PatientBody(self, body, _LARGE_PIECE_BYTES)

    def start(
        self, status: int, headers: Headers, *, length: int | None = None, compress: bool = True
    ) -> None:
        """The head of a streamed answer: chunked, or exactly `length` bytes if that is known."""
        if self._phase != _FRESH:
            raise RuntimeError("this reply has been started already")
        block = encode_headers(headers)
        if self.closed:
            return
        channel = self._channel
        self._phase = _STREAMING
        self._compressor = None
        self._coding = None
        self._left = 0
        if compress and (length is None or length >= COMPRESS_FROM_BYTES):
            coding = self._coding = self._coding_for(headers)
            if coding is not None:
                length = None
                block += b"content-encoding: %b\r\n" % coding
            if self._varies(headers):
                block += b"vary: accept-encoding\r\n"
        if status in _BODILESS:
            self._framing, framing = _NO_BODY, b""
        elif length is not None:
            self._framing, framing = _COUNTED, b"content-length: %d\r\n" % length
            self._left = length
        elif channel.speaks_1_0:
            self._framing, framing = _UNTIL_CLOSE, b""
        else:
            self._framing, framing = _CHUNKED, b"transfer-encoding: chunked\r\n"
        if self.request.method == b"HEAD":
            self._framing = _NO_BODY
        close = b"" if channel.keep_alive else b"connection: close\r\n"
        channel.transport.write(b"%b%b%b%b\r\n" % (channel.heads[status], block, framing, close))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Part of the body; it is on its way to the client when this returns."""
        if self.closed:
            return
        if self._phase != _STREAMING:
            raise RuntimeError("write() belongs between start() and end()")
        if not data or self._framing == _NO_BODY:
            return
        if self._coding is not None:
            if self._compressor is None:
                self._compressor = compression.stream_compressor(self._coding)
            data = self._compressor.piece(data)
        self._put(data)

    def takes_files(self) -> bool:
        """Whether `write_file` can be used now: the body goes out as it is, and its length is known."""
        counted = self._phase == _STREAMING and self._framing == _COUNTED and self._coding is None
        return counted and not self.closed and file_body.can_hand_over(self._channel.transport)

    async def write_file(self, file: int, start: int, stop: int) -> None:
        """Part of the body, from an open file; returns when all of it is on its way or nobody is there."""
        if self.closed:
            return
        if not self.takes_files():
            raise RuntimeError("write_file() belongs where takes_files() says so")
        self._left -= await file_body.hand_over(self._channel, self, file, start, stop) - start

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        transport = self._channel.transport
        length = len(data)
        if not length:  # a compressor may have nothing to say, and an empty chunk would end the body
            return
        if self._framing == _CHUNKED:
            if length < _JOIN_BELOW_BYTES:
                transport.write(b"%x\r\n%b\r\n" % (length, data))
            else:
                transport.writelines((b"%x\r\n" % length, data, b"\r\n"))
            return
        if self._framing == _COUNTED:
            self._left -= length
            if self._left < 0:
                self.abort()
                raise ValueError("more bytes were written than the length given to start()")
        transport.write(data)

    def end(self) -> None:
        """The answer is complete. A body shorter than its announced length is an abort."""
        if self.closed or self._phase == _ENDED:
            return
        if self._phase != _STREAMING:
            raise RuntimeError("end() belongs after start(); use send() for an answer without a body")
        if self._framing == _COUNTED and self._left:
            self.abort()
            return
        if self._coding is not None and self._framing != _NO_BODY:
            if self._compressor is None:
                self._compressor = compression.stream_compressor(self._coding)
            self._put(self._compressor.finish())
            self._compressor = None
        if self._framing == _CHUNKED:
            self._channel.transport.write(b"0\r\n\r\n")
        self._phase = _ENDED
        if self._framing == _UNTIL_CLOSE:
            self._channel.keep_alive = False
        self._channel.reply_ended()

    def abort(self) -> None:
        """Give up: the connection closes in a way that shows the client that the answer is not whole."""
        if self.closed or self._phase == _ENDED:
            return
        # Without a length or a last chunk only a reset tells "failed" from "finished".
        must_reset = self._phase == _STREAMING and self._framing == _UNTIL_CLOSE
        self._phase = _ENDED
        self._channel.reply_aborted(must_reset=must_reset)

    async def drain(self) -> None:
        """Wait until the client has taken enough of what was written, or is gone."""
        while not self.closed and not self._channel.writable:
            await self._channel.writable_again()

    def upgrade(self, protocol_name: bytes) -> Upgraded:
        """Answer 101 and leave HTTP: from here on the connection is a plain stream of bytes."""
        if self._phase != _FRESH or self.closed:
            raise RuntimeError("only a fresh reply of a connected client can be upgraded")
        upgraded = self._channel.reply_upgraded()
        self._phase = _ENDED
        head = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %b\r\n\r\n"
        self._channel.transport.write(head % protocol_name)
        return upgraded

    # The connection's side.

    def client_gone(self) -> Callable[[], object] | None:
        """Mark the reply as closed; the hook to call, if somebody still wants to know."""
        self.closed = True
        hook = self.on_closed if self._phase != _ENDED else None
        told = self.on_writable_changed
        self.on_closed = self.on_writable_changed = None
        if told is not None:
            told(False)
        return hook

    def _coding_for(self, headers: Headers) -> bytes | None:
        if not self._channel.compression or not self._varies(headers):
            return None
        accepted = self.request.header(b"accept-encoding")
        return None if accepted is None else compression.negotiate(accepted)

    def _varies(self, headers: Headers) -> bool:
        """Whether another client could have got this answer in another coding."""
        if not self._channel.compression or _value(headers, b"content-encoding") is not None:
            return False
        content_type = _value(headers, b"content-type")
        return content_type is not None and compression.is_compressible(content_type)
