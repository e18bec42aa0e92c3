"""What can go wrong on an HTTP leg, as one small tree.

TransportError
├── ConnectFailed        nothing was sent: safe to try again
│   └── PoolBusy         every connection is in use and the queue is full, or waiting took too long
├── ConnectionLost       the peer went away, stalled or spoke nonsense; says how far the request got
├── HeadTimeout          the request was sent and no response head came in time
├── ResponseTooLarge     the body is longer, or unpacks to more, than the caller allows
└── BodyInterrupted      the client stopped sending the body of its request
"""

from __future__ import annotations


class TransportError(Exception):
    """Any failure of an HTTP connection; `str()` is safe to show a stranger."""


class ConnectFailed(TransportError):
    """No connection could be made, so the request was never sent."""


class PoolBusy(ConnectFailed):
    """The pool is full and the request could not wait (any longer) for a free connection."""


class ConnectionLost(TransportError):
    """The connection ended before the response did."""

    def __init__(self, message: str, *, sent: bool, response_started: bool) -> None:
        super().__init__(message)
        self.sent = sent
        self.response_started = response_started


class HeadTimeout(TransportError):
    """The upstream did not begin to answer within its time limit; it may still be working."""


class ResponseTooLarge(TransportError):
    """The response body is over a limit; its connection was closed."""


class BodyInterrupted(TransportError):
    """The client went away, stalled or broke the framing in the middle of its request body."""
