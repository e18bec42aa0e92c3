"""Event streams to HTTP clients: as fast as the client reads, and remembered for those who come back."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Final

from mooring.protocol.sse import KEEP_ALIVE, encode_event
from mooring.transports.http_reply import Reply

BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""What waits for a client that reads too slowly; beyond, its stream is cut."""
LOG_EVENTS: Final = 512
LOG_BYTES: Final = 1024 * 1024
"""How much of a stream can be sent again."""
FINISHED_KEPT: Final = 8
FINISHED_SECONDS: Final = 60.0
"""How many streams that have ended can still be asked for, and for how long."""
KEEP_ALIVE_SECONDS: Final = 15.0
STANDALONE: Final = 0
"""The number of the stream for what belongs to no call."""
_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
Headers = tuple[tuple[bytes, bytes], ...]


class EventStream:
    """One HTTP response that carries events."""

    __slots__ = ("_ending", "_last", "_waiting", "_waiting_bytes", "reply")

    def __init__(self, reply: Reply, headers: Headers) -> None:
        self.reply = reply
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._ending = False
        self._last = monotonic()
        reply.start(200, _HEADERS + headers)
        reply.on_writable_changed = self._on_writable

    @property
    def closed(self) -> bool:
        return self.reply.closed or self.reply.ended

    def write(self, event: bytes) -> None:
        if self.closed or self._ending:
            return
        self._last = monotonic()
        if not self._waiting and self.reply.writable:
            self.reply.write(event)
        elif self._waiting_bytes + len(event) > BACKLOG_BYTES:
            gone, self.reply.on_closed = self.reply.on_closed, None
            self.reply.abort()
            if gone is not None:  # whoever counts on it sees a client that went away
                gone()
        else:
            self._waiting.append(event)
            self._waiting_bytes += len(event)

    def end(self) -> None:
        """After what waits."""
        if self._waiting:
            self._ending = True
        elif not self.closed:
            self.reply.end()

    def keep_alive(self, now: float) -> None:
        if now - self._last >= KEEP_ALIVE_SECONDS and not self._waiting and not self.closed:
            self._last = now
            self.reply.write(KEEP_ALIVE)

    def _on_writable(self, writable: bool) -> None:
        if not writable:
            return
        while self._waiting and self.reply.writable:
            event = self._waiting.popleft()
            self._waiting_bytes -= len(event)
            self.reply.write(event)
        if self._ending and not self._waiting and not self.closed:
            self.reply.end()


class StreamLog:
    """The events of one stream of a session, numbered `stream-event`, so that they can be sent again."""

    __slots__ = ("_bytes", "_events", "_first", "_last", "ended_at", "live", "number", "unsent")

    def __init__(self, number: int) -> None:
        self.number = number
        self.live: EventStream | None = None
        self.ended_at: float | None = None
        self.unsent = 1
        """The first event that nobody was there to take."""
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._first = 1
        self._last = 0

    def send(self, message: bytes, *, retry: int | None = None) -> None:
        """An event without a message only says where the stream is, and when to come back."""
        self._last += 1
        place = b"%d-%d" % (self.number, self._last)
        event = encode_event(message, event=b"message" if message else None, id=place, retry=retry)
        self._events.append(event)
        self._bytes += len(event)
        # The newest stays, however large: it may be the answer that a client comes back for.
        while len(self._events) > 1 and (self._bytes > LOG_BYTES or len(self._events) > LOG_EVENTS):
            self._bytes -= len(self._events.popleft())
            self._first += 1
        if self.live is not None and not self.live.closed:
            self.live.write(event)
            self.unsent = self._last + 1

    def finish(self) -> None:
        self.ended_at = monotonic()
        if self.live is not None:
            self.live.end()
            self.live = None

    def knows(self, event: int) -> bool:
        return self._first - 1 <= event <= self._last

    def attach(self, stream: EventStream, after: int) -> None:
        """Send everything after an event again, then whatever comes."""
        for number, event in enumerate(self._events, self._first):
            if number > after:
                stream.write(event)
        self.unsent = self._last + 1
        if self.ended_at is None:
            self.live = stream
        else:
            stream.end()


class SessionStreams:
    """All streams of one session."""

    def __init__(self) -> None:
        self.primes = False
        """Whether the client's revision knows events that only say where the stream is (2025-11-25)."""
        self._logs: dict[int, StreamLog] = {}
        self._next = STANDALONE + 1

    def new(self) -> StreamLog:
        number, self._next = self._next, self._next + 1
        log = self._logs[number] = StreamLog(number)
        return log

    def push(self, message: bytes) -> None:
        self._standalone().send(message)

    def open_standalone(self, stream: EventStream) -> None:
        """What had to wait for this stream comes first."""
        log = self._standalone()
        if log.live is not None:
            log.live.end()  # every message goes to one stream only, and that is the newest
        if self.primes:
            stream.write(b"id: %d-%d\ndata: \n\n" % (STANDALONE, log.unsent - 1))
        log.attach(stream, log.unsent - 1)

    def find(self, last_event_id: bytes) -> tuple[StreamLog, int] | None:
        """The stream that this event belongs to, if it can go on from there."""
        number, _, event = last_event_id.partition(b"-")
        if not (number.isdigit() and event.isdigit() and len(last_event_id) < 40):
            return None
        log = self._logs.get(int(number))
        return (log, int(event)) if log is not None and log.knows(int(event)) else None

    @property
    def in_use(self) -> bool:
        return any(log.live is not None and not log.live.closed for log in self._logs.values())

    def sweep(self, now: float) -> None:
        """Keep open streams alive, forget old ones."""
        finished = [log for log in self._logs.values() if log.ended_at is not None]
        for age, log in enumerate(reversed(finished)):
            if age >= FINISHED_KEPT or now - (log.ended_at or 0) > FINISHED_SECONDS:
                del self._logs[log.number]
        for log in self._logs.values():
            if log.live is not None:
                log.live.keep_alive(now)

    def close(self) -> None:
        for log in self._logs.values():
            log.finish()
        self._logs.clear()

    def _standalone(self) -> StreamLog:
        log = self._logs.get(STANDALONE)
        if log is None:
            log = self._logs[STANDALONE] = StreamLog(STANDALONE)
        return log
