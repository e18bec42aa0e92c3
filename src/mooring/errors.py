"""Every deliberate error, as one tree; each knows its JSON-RPC code and its HTTP status.

MooringError
├── RpcError                 becomes a JSON-RPC error for one request
│   ├── ParseFailed          -32700  the bytes are not JSON
│   ├── InvalidRequest       -32600  JSON, but not a message that is legal here
│   ├── MethodNotFound       -32601
│   ├── InvalidParams        -32602
│   ├── HeaderMismatch       -32020  (2026-07-28) headers and body disagree
│   ├── MissingCapability    -32021  (2026-07-28) the client did not declare what the call needs
│   ├── UnsupportedVersion   -32022  (2026-07-28) a revision we do not speak
│   ├── TooMuch              -31005  a limit is reached; says when to come back
│   └── UpstreamFailed       a server could not be reached, died, or did not answer
│       ├── UpstreamUnavailable   never started: safe to try again
│       │   └── LoginNeeded       its user has to agree first
│       └── UpstreamTimedOut      gave up waiting
└── SessionGone              a session id that is unknown, expired or somebody else's
"""

from __future__ import annotations

from math import ceil

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
"""2025-11-25 and earlier only; 2026-07-28 says -32602."""
URL_ELICITATION_REQUIRED = -32042
"""2025-11-25 only."""
# Our own codes stay outside -32768..-32000, which the specification reserves.
UPSTREAM_FAILED = -31001
UPSTREAM_TIMED_OUT = -31002
UNAUTHENTICATED = -31003
FORBIDDEN = -31004
RATE_LIMITED = -31005

_HTTP_STATUS_BY_CODE = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    FORBIDDEN: 403,
    RATE_LIMITED: 429,
}


def http_status_of(code: int) -> int:
    """The HTTP status that 2026-07-28 prescribes beside an error code; anything else travels in a 200."""
    return _HTTP_STATUS_BY_CODE.get(code, 200)


class MooringError(Exception):
    """The root: `str(error)` is safe to show to a stranger."""


class RpcError(MooringError):
    """An error that answers one JSON-RPC request."""

    code = INTERNAL_ERROR
    by: str | None = None
    """Which middleware refused the request, if one did: for the audit, not for the client."""

    def __init__(self, message: str, *, code: int | None = None, data: object = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.data = data

    def encode(self) -> bytes:
        """The `error` member of a JSON-RPC response."""
        body: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            body["data"] = self.data
        return msgspec.json.encode(body)


class ParseFailed(RpcError):
    code = PARSE_ERROR


class InvalidRequest(RpcError):
    code = INVALID_REQUEST


class MethodNotFound(RpcError):
    code = METHOD_NOT_FOUND


class InvalidParams(RpcError):
    code = INVALID_PARAMS


class HeaderMismatch(RpcError):
    code = HEADER_MISMATCH


class MissingCapability(RpcError):
    code = MISSING_CAPABILITY


class UnsupportedVersion(RpcError):
    code = UNSUPPORTED_VERSION


class TooMuch(RpcError):
    """A limit is reached; `retry_seconds` says when to try again (in `Retry-After` too, with a 429)."""

    code = RATE_LIMITED
    by = "rate limits"

    def __init__(self, what: str, retry_seconds: float) -> None:
        self.retry_seconds = max(1, ceil(retry_seconds))
        super().__init__(
            f"{what}; try again in {self.retry_seconds} s", data={"retryAfterSeconds": self.retry_seconds}
        )


class UpstreamFailed(RpcError):
    """A server broke its side: `started` says whether the request may have begun to run there."""

    code = UPSTREAM_FAILED
    noted = False
    """Whether the server's health knows of it: all who waited for the same thing get the same error."""

    def __init__(self, message: str, *, started: bool = True) -> None:
        super().__init__(message)
        self.started = started


class UpstreamUnavailable(UpstreamFailed):
    """The request provably never started, so trying again cannot run it twice."""

    def __init__(self, message: str) -> None:
        super().__init__(message, started=False)


class LoginNeeded(UpstreamUnavailable):
    """The server wants to know who its user is, and that user has to agree first. Nothing was started."""

    code = UNAUTHENTICATED


class SessionDied(UpstreamFailed):
    """The session or its connection ended while the request was under way: it may have run."""


class UpstreamTimedOut(UpstreamFailed):
    code = UPSTREAM_TIMED_OUT


class SessionGone(MooringError):
    """Unknown, expired and foreign session ids are one thing."""
