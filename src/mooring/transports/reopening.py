"""How long to wait before a stream that ended is opened again: longer each time, unless it was good for
something."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 30.0
LEAST_SECONDS: Final = 0.1
"""Whatever a server wishes."""


class Reopening:
    """The waits for one stream; time is always an argument."""

    __slots__ = ("_next", "_wish")

    def __init__(self) -> None:
        self._next = FIRST_SECONDS
        self._wish = 0.0

    def wished(self, retry_milliseconds: int) -> None:
        """The server has said when to come back: it means to be polled."""
        self._wish = max(retry_milliseconds / 1000, LEAST_SECONDS)
        self._next = 0.0

    def heard(self) -> None:
        """Something came."""
        self._next = 0.0

    def wait_after(self, open_seconds: float) -> float:
        """The next wait, after a stream that was open for so long; 0 for one that did not open."""
        if open_seconds >= LONGEST_SECONDS:
            self._next = 0.0  # quiet, but there: nobody needs sparing
        wait = max(self._next, self._wish or FIRST_SECONDS)
        self._next = min(wait * 2, LONGEST_SECONDS)
        return wait
