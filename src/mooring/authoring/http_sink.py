"""The response to one POST: JSON, unless something has to be said before the answer; and refusals."""

from __future__ import annotations

from time import monotonic
from typing import Final

from mooring.authoring.session_streams import Headers, SessionStreams, open_stream
from mooring.errors import RpcError
from mooring.protocol import jsonrpc
from mooring.protocol.jsonrpc import Envelope
from mooring.transports.event_streams import EventOutlet, StreamLog, encode_kept
from mooring.transports.http_reply import Reply

JSON: Final[Headers] = ((b"content-type", b"application/json"),)
LEGACY_STREAM_AFTER_SECONDS: Final = 0.5
"""A call that takes longer gets a stream, which a legacy client can lose and pick up again."""
MODERN_STREAM_AFTER_SECONDS: Final = 10.0
"""A modern one only to keep the connection alive: until then an error can still have its HTTP status."""
RETRY_MILLISECONDS: Final = 1_000


class PostSink:
    """`streams` are those of a legacy session; a modern request has none."""

    __slots__ = ("_headers", "_log", "_reply", "_since", "_stream", "_streams", "done")

    def __init__(self, reply: Reply, headers: Headers, streams: SessionStreams | None = None) -> None:
        self.done = False
        self._reply = reply
        self._headers = headers
        self._streams = streams
        self._stream: EventOutlet | None = None
        self._log: StreamLog | None = None
        self._since = monotonic()

    def emit(self, message: bytes) -> None:
        if self._stream is not None or self.open():
            self._write(message)
        elif self._streams is not None:  # it takes no stream here, but may have one for everything else
            self._streams.push(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        self.done = True
        if self._stream is None:
            self._reply.send(status, JSON + self._headers, message)
        else:
            self._write(message)
            self._end()

    def drop(self) -> None:
        """No answer will come; in HTTP an empty response says so."""
        self.done = True
        if self._stream is not None:
            self._end()
        elif not self._reply.closed:
            self._reply.send(202, self._headers, b"")

    def close_stream(self, retry_milliseconds: int | None) -> None:
        """Only clients that were told where the stream is can come back for the rest of it."""
        if self._streams is None or not self._streams.primes or not (self._stream or self.open()):
            return
        assert self._log is not None
        assert self._stream is not None
        if retry_milliseconds is not None:
            self._log.send(b"", retry=retry_milliseconds)
        self._log.live = None
        self._stream.end()

    def tick(self, now: float) -> None:
        if self._stream is not None:
            self._stream.tick(now)
            return
        patience = MODERN_STREAM_AFTER_SECONDS if self._streams is None else LEGACY_STREAM_AFTER_SECONDS
        if now - self._since >= patience:
            self.open()

    def open(self) -> bool:
        """Turn the response into a stream, if the client takes one."""
        if self._reply.closed or not accepts_streams(self._reply):
            return False
        self._stream = open_stream(self._reply, self._headers)
        if self._streams is not None:
            self._log = self._streams.new()
            self._log.live = self._stream
            if self._streams.primes:
                self._log.send(b"", retry=RETRY_MILLISECONDS)
        return True

    def _write(self, message: bytes) -> None:
        if self._log is not None:
            self._log.send(message)
        elif self._stream is not None:
            self._stream.write(encode_kept(message))

    def _end(self) -> None:
        if self._log is not None:
            self._log.finish(monotonic())
        elif self._stream is not None:
            self._stream.end()


def accepts_streams(reply: Reply) -> bool:
    accepted = reply.request.header(b"accept")
    return accepted is not None and (b"text/event-stream" in accepted or b"*/*" in accepted)


def refuse(
    reply: Reply, status: int, error: RpcError, headers: Headers, envelope: Envelope | None = None
) -> None:
    request_id = envelope.id if envelope is not None and envelope.method is not None else b""
    reply.send(400 if status == 200 else status, JSON + headers, jsonrpc.error(request_id, error.encode()))
