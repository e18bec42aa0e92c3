"""A connection that has left HTTP: bytes both ways, with back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Upgraded:
    """The raw duplex after a `101 Switching Protocols`.

    Set `on_data` and `on_closed` right after `Reply.upgrade`; bytes that came with the request are delivered
    at the next turn of the loop. `on_closed` is called once, whoever closes.
    """

    __slots__ = ("_transport", "closed", "on_closed", "on_data", "on_writable_changed", "writable")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.closed = False
        self.writable = True
        self.on_data: Callable[[bytes], None] | None = None
        self.on_closed: Callable[[], None] | None = None
        self.on_writable_changed: Callable[[bool], None] | None = None

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is written, then close."""
        self._transport.close()

    def pause_reading(self) -> None:
        if not self.closed and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.closed and not self._transport.is_reading():
            self._transport.resume_reading()
