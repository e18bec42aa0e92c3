"""A server-side socket on which every wait is bounded: stalled readers, paused reading, slow goodbyes.

What is waited for besides (a head, a body, the next request) is up to the protocol on top, which says how
long with `own_deadline` and what then with `time_is_up`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import cast

from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_peer import bytes_on_the_way, has_hung_up
from mooring.transports.http_sweep import NEVER, Sweep

_HANGUP_CHECK_SECONDS = 1.0


class BoundedConnection(asyncio.Protocol, ABC):
    """Keeps `deadline`; the sweep calls `deadline_passed`. Once `closing`, nothing is written any more."""

    def __init__(self, sweep: Sweep, limits: ListenerLimits) -> None:
        self.transport: asyncio.Transport
        self.deadline = NEVER
        self.writable = True
        self.closing = False
        self.sweep = sweep
        self.limits = limits
        self.reading = True
        self._stalled_at_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []

    # For the protocol on top.

    @abstractmethod
    def own_deadline(self) -> float:
        """The deadline while neither reading nor writing is held up."""

    @abstractmethod
    def time_is_up(self) -> None:
        """That deadline has passed."""

    @abstractmethod
    def writable_changed(self) -> None:
        """The client takes bytes again, or takes none for now."""

    def rearm(self) -> None:
        """Choose the deadline anew, after something that is waited for has changed."""
        if not self.closing and self.writable:
            self.deadline = self.own_deadline() if self.reading else self.sweep.clock + _HANGUP_CHECK_SECONDS

    def pause_reading(self) -> None:
        if self.reading and not self.closing:
            self.reading = False
            self.transport.pause_reading()
            self.rearm()

    def resume_reading(self) -> None:
        if not self.reading and not self.closing:
            self.reading = True
            self.transport.resume_reading()
            self.rearm()

    def close(self) -> None:
        """Send what is written, then close; a client that does not take it is cut off."""
        self.closing = True
        self.deadline = self.sweep.clock + self.limits.write_stall_seconds
        self._stalled_at_bytes = bytes_on_the_way(self.transport)
        self.transport.close()

    def linger(self) -> None:
        """Close so that the last answer arrives: a socket closed on unread bytes resets the connection.

        Until the client closes too, what it sends is still read; throwing it away is up to the protocol.
        """
        self.resume_reading()
        self.closing = True
        self.deadline = self.sweep.clock + self.limits.linger_seconds
        self._stalled_at_bytes = bytes_on_the_way(self.transport)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def writable_again(self) -> asyncio.Future[None]:
        """Done when the client takes bytes again, or has gone."""
        future = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        return future

    def wake_writers(self) -> None:
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(self.limits.write_high_water_bytes)

    def pause_writing(self) -> None:
        self.writable = False
        if not self.closing:
            self._stalled_at_bytes = bytes_on_the_way(self.transport)
            self.deadline = self.sweep.clock + self.limits.write_stall_seconds
        self.writable_changed()

    def resume_writing(self) -> None:
        self.writable = True
        self.rearm()
        self.wake_writers()
        self.writable_changed()

    # The sweep's side.

    def deadline_passed(self) -> None:
        if self.closing or not self.writable:
            self._check_stall()
        elif not self.reading:
            self.deadline = self.sweep.clock + _HANGUP_CHECK_SECONDS
            if has_hung_up(self.transport):
                self.abort()
        else:
            self.time_is_up()

    def _check_stall(self) -> None:
        """Only a client that takes nothing at all for the whole time is cut off, not a slow one."""
        waiting = bytes_on_the_way(self.transport)
        if not waiting or waiting >= self._stalled_at_bytes:
            self.abort()
        else:
            self._stalled_at_bytes = waiting
            self.deadline = self.sweep.clock + self.limits.write_stall_seconds
