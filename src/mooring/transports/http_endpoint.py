"""What an application tells the listener: how the body of a request is to be received, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from mooring.transports.http_reply import Reply
from mooring.transports.http_request import BodyStream, Request


class Buffered(Struct):
    """The handler is called once the whole body is in `request.body`; a longer one is refused with 413.

    Build one per route, not one per request. While `repeats` is set, further requests of a connection with
    the same head go to it without asking `accept` again, as the same `Request` with another body; unset it
    when the route goes away.
    """

    handler: Callable[[Request, Reply], None]
    max_body_bytes: int
    repeats: bool = False


class Streaming(Struct, frozen=True):
    """The handler is called at the end of the headers and reads the body itself."""

    handler: Callable[[Request, Reply, BodyStream], None]


Endpoint: TypeAlias = Buffered | Streaming


class App(Protocol):
    def accept(self, request: Request) -> Endpoint:
        """Choose the endpoint at the end of the headers; synchronous, and called before any body byte.

        May raise `Refusal` to answer with an error at once and close the connection.
        """
        ...
