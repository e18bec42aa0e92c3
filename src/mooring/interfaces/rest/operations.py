"""One row per operation of the API: the router, the OpenAPI document and the tests all read this shape.

A module of operations is a function that answers a list of them. To add some, write such a function and
give its list to `RestApi`; nothing else has to know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec import Struct

from mooring.errors import MooringError
from mooring.gateway.principal import NOBODY, Caller
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

JSON: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
LINES: Final = ((b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-cache"))


class ApiError(MooringError):
    """An answer that is not what was asked for: a code for programs, a message and a next step for people."""

    def __init__(self, status: int, code: str, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.next_step = next_step


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """An operation without parameters in its query."""


Tell: TypeAlias = Callable[[str, str], None]
"""Progress for whoever waits: about which workload, and what."""


def _silence(_name: str, _text: str) -> None:
    """Nobody asked to be told."""


@dataclass(slots=True)
class Call:
    """One request to the API, read and checked."""

    request: Request
    reply: Reply
    path: dict[str, str]
    query: Any = None
    body: Any = None
    caller: Caller = NOBODY
    tell: Tell = field(default=_silence)


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be asked. `{name}` in a path is one segment of it."""

    method: str
    path: str
    summary: str
    handler: Callable[[Call], Awaitable[object]]
    answers: Any = None
    """The type of the answer; None: nothing (204)."""
    takes: Any = None
    """The type of the body; None: no body."""
    documented: Any = None
    """What the description shows in place of `takes`, where more is taken than is described."""
    query: type[Struct] = NoQuery
    status: int = 200
    errors: tuple[int, ...] = ()
    """What can go wrong besides what can always go wrong."""
    has_progress: bool = False
    """Answers a stream of events to whoever accepts `text/event-stream`."""
    lines: bool = False
    """Answers lines of JSON of the type, as they come."""
    local: bool = False
    """On the Unix socket only."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Answered by an operation that has taken its reply over."""


TAKEN: Final = Takeover()
