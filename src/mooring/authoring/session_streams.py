"""The event streams of one session over HTTP, remembered for those who come back."""

from __future__ import annotations

from time import monotonic
from typing import Final

from mooring.transports.event_streams import EventOutlet, StreamLog, parse_event_id
from mooring.transports.http_reply import Reply

FINISHED_KEPT: Final = 8
FINISHED_SECONDS: Final = 60.0
"""How many streams that have ended can still be asked for, and for how long."""
STANDALONE: Final = 0
"""The number of the stream for what belongs to no call."""
Headers = tuple[tuple[bytes, bytes], ...]


def open_stream(reply: Reply, headers: Headers) -> EventOutlet:
    stream = EventOutlet(reply, headers)
    stream.last_write = monotonic()
    return stream


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

    def open_standalone(self, stream: EventOutlet) -> None:
        """What had to wait for this stream comes first."""
        log = self._standalone()
        if log.live is not None:
            log.live.end()  # every message goes to one stream only, and that is the newest
        if self.primes:
            stream.write(b"id: %d-%d\ndata: \n\n" % (STANDALONE, log.undelivered - 1))
        log.attach(stream, log.undelivered - 1)

    def find(self, last_event_id: bytes) -> tuple[StreamLog, int] | None:
        """The stream that this event belongs to, if it can go on from there."""
        number, event = parse_event_id(last_event_id) or (-1, 0)
        log = self._logs.get(number)
        return (log, event) if log is not None and log.can_replay_after(event) else None

    @property
    def in_use(self) -> bool:
        return any(log.live is not None and not log.live.closed for log in self._logs.values())

    def sweep(self, now: float) -> None:
        """Keep open streams alive, forget old ones."""
        finished = [log for log in self._logs.values() if log.done]
        for age, log in enumerate(reversed(finished)):
            if age >= FINISHED_KEPT or now - log.ended_at > FINISHED_SECONDS:
                del self._logs[log.number]
                log.forget()
        for log in self._logs.values():
            if log.live is not None:
                log.live.tick(now)

    def close(self) -> None:
        for log in self._logs.values():
            log.finish(monotonic())
        self._logs.clear()

    def _standalone(self) -> StreamLog:
        log = self._logs.get(STANDALONE)
        if log is None:
            log = self._logs[STANDALONE] = StreamLog(STANDALONE)
        return log
