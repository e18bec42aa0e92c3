"""A connection that has left HTTP: bytes both ways, with back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class UpgradedChannel(Protocol):
    """The connection, as the protocol that took it over sees it."""

    transport: asyncio.Transport

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class Upgraded:
    """The raw duplex after a `101 Switching Protocols`.

    Set `on_data` and `on_closed` right after `Reply.upgrade`; bytes that came with the request are delivered
    at the next turn of the loop. `on_closed` is called once, whoever closes. As with replies, whoever writes
    while `writable` is False fills our memory.

    With `on_end` set, a peer that has sent all it had to say can still be answered; without it, that ends the
    connection.
    """

    __slots__ = ("_channel", "closed", "on_closed", "on_data", "on_end", "on_writable_changed", "writable")

    def __init__(self, channel: UpgradedChannel) -> None:
        self._channel = channel
        self.closed = False
        self.writable = True
        self.on_data: Callable[[bytes], object] | None = None
        self.on_closed: Callable[[], object] | None = None
        self.on_end: Callable[[], object] | None = None
        self.on_writable_changed: Callable[[bool], object] | None = None

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._channel.transport.write(data)

    def close(self) -> None:
        """Send what is written, then close."""
        if not self.closed:
            self._channel.close()

    def pause_reading(self) -> None:
        self._channel.pause_reading()

    def resume_reading(self) -> None:
        self._channel.resume_reading()
