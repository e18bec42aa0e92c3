"""Event streams towards clients: written under flow control, remembered for those who lose them and come
back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from mooring.protocol.sse import KEEP_ALIVE, encode_event
from mooring.transports.http_reply import Reply
from mooring.transports.outflow import Outflow
from mooring.transports.spool import SPILL_BYTES, Kept, spilled

BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""What we hold for a client that reads more slowly than its server talks; then its stream is cut."""
LOG_EVENTS: Final = 512
LOG_BYTES: Final = 1024 * 1024
"""How much of a stream can be replayed."""
KEEP_ALIVE_SECONDS: Final = 15.0
STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class EventOutlet(Outflow):
    """Writes events to one HTTP response, as fast as its reader reads.

    An event goes out at once; those that follow in the same turn of the loop (a burst of progress that came
    in one read) go out together at its end: a write to a socket costs more than all else about an event.
    """

    __slots__ = ("_ending", "_gathered", "last_write", "on_congested", "reply")

    def __init__(self, reply: Reply, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__()
        self.reply = reply
        self.on_congested: Callable[[bool], None] | None = None
        self.last_write = 0.0
        self._ending = False
        self._gathered: list[bytes] | None = None
        reply.start(200, STREAM_HEADERS + headers)
        reply.on_writable_changed = self._on_writable

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more: the client is gone, or the stream has ended."""
        return self.reply.closed or self.reply.ended

    def write(self, event: bytes | Kept) -> None:
        if self.closed or self._ending:
            return
        if isinstance(event, bytes):
            if not self.is_behind and self.reply.writable:
                self._write_or_gather(event)
                return
            if self.queued_bytes + len(event) > BACKLOG_BYTES:
                self.broke()
                return
        self.flush()
        if not self.is_behind and self.on_congested is not None:
            self.on_congested(True)
        self.queue(event)

    def _write_or_gather(self, event: bytes) -> None:
        if self._gathered is not None:
            self._gathered.append(event)
        else:
            self._gathered = []
            asyncio.get_running_loop().call_soon(self.flush)
            self.reply.write(event)

    def flush(self) -> None:
        """Write what was gathered; for whoever writes to the response past this outlet."""
        gathered, self._gathered = self._gathered, None
        if gathered and not self.closed:
            self.reply.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def put_out(self, data: bytes) -> None:
        self.reply.write(data)

    @property
    def takes_more(self) -> bool:
        return self.reply.writable and not self.closed

    def broke(self) -> None:
        hook, self.reply.on_closed = self.reply.on_closed, None
        self.reply.abort()
        if hook is not None:  # for whoever counts on it, this is a client that went away
            hook()

    def keep_alive(self) -> None:
        if not self.is_behind and self.reply.writable and not self.closed:
            self.flush()
            self.reply.write(KEEP_ALIVE)

    def tick(self, now: float) -> None:
        """Keep the stream alive, if it is time to."""
        if now - self.last_write >= KEEP_ALIVE_SECONDS:
            self.last_write = now
            self.keep_alive()

    def end(self) -> None:
        self.flush()
        if self.is_behind:
            self._ending = True
        elif not self.reply.closed:
            self.reply.end()

    def _on_writable(self, writable: bool) -> None:
        if writable:
            self.pump()
        elif self.reply.closed:
            self.forget_queue()

    def caught_up(self) -> None:
        if self.on_congested is not None:
            self.on_congested(False)
        if self._ending and not self.reply.closed:
            self.reply.end()


class StreamLog:
    """The events of one stream of a session, by number, so that they can be sent again.

    `live` is where the stream goes now, if its client is there. Event ids name stream and event: `3-17`.
    """

    __slots__ = ("_bytes", "_events", "_first", "done", "ended_at", "last", "live", "number", "undelivered")

    def __init__(self, number: int) -> None:
        self.number = number
        self.live: EventOutlet | None = None
        self.done = False
        self.ended_at = 0.0
        self.last = 0
        self.undelivered = 1
        self._first = 1
        self._events: deque[bytes | Kept] = deque()
        self._bytes = 0

    def send(self, message: bytes | Kept, *, retry: int | None = None) -> None:
        """Remember an event and send it, if there is somebody to send it to. A large one waits on disk."""
        self.last += 1
        if retry is None and isinstance(message, bytes) and _is_plain(message):
            event = b"event: message\nid: %d-%d\ndata: %b\n\n" % (self.number, self.last, message)
        else:
            event = encode_kept(message, b"%d-%d" % (self.number, self.last), retry)
        self._events.append(event)
        self._bytes += _size(event)
        # The newest stays, however large: it is the answer that a client which is away comes back for.
        while len(self._events) > 1 and (self._bytes > LOG_BYTES or len(self._events) > LOG_EVENTS):
            self._bytes -= _size(self._events.popleft())
            self._first += 1
        if self.live is not None and not self.live.closed:
            self.live.write(event)
            self.undelivered = self.last + 1

    def finish(self, now: float) -> None:
        """No more events: close the stream, but keep what was sent for a while."""
        self.done = True
        self.ended_at = now
        if self.live is not None:
            self.live.end()
            self.live = None

    def forget(self) -> None:
        """Nobody can ask for it any more; whatever still refers to it must not keep files open."""
        self._events.clear()
        self._first = self.last + 1
        self._bytes = 0

    def can_replay_after(self, event: int) -> bool:
        return self._first - 1 <= event <= self.last

    def attach(self, outlet: EventOutlet, after: int) -> None:
        """Send everything after this event, then whatever comes."""
        for index, event in enumerate(self._events):
            if self._first + index > after:
                outlet.write(event)
        self.undelivered = self.last + 1
        if self.done:
            outlet.end()
        else:
            self.live = outlet


def encode_kept(
    message: bytes | Kept, event_id: bytes | None = None, retry: int | None = None
) -> bytes | Kept:
    """A message as an event, still on disk if it was, and from now on if it is large."""
    if isinstance(message, Kept):
        name = b"" if event_id is None else b"id: %b\n" % event_id
        return message.as_line(b"event: message\n%bdata: " % name, b"\n\n")
    event = encode_event(message, event=b"message" if message else None, id=event_id, retry=retry)
    return spilled(event)


def _is_plain(message: bytes) -> bool:
    return 0 < len(message) < SPILL_BYTES and b"\n" not in message and b"\r" not in message


def _size(event: bytes | Kept) -> int:
    return len(event) if isinstance(event, bytes) else event.length


def parse_event_id(text: bytes) -> tuple[int, int] | None:
    """Stream and event of an id of ours."""
    stream, _, event = text.partition(b"-")
    if stream.isdigit() and event.isdigit() and len(text) < 40:
        return int(stream), int(event)
    return None
