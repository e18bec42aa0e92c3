"""A server behind HTTP+SSE (2024-11-05): one long event stream to hear, an endpoint to POST to."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urljoin, urlsplit

from mooring.errors import UpstreamFailed, UpstreamUnavailable
from mooring.protocol.sse import Event, EventReader, EventTooLarge
from mooring.transports.duplex import DuplexWire
from mooring.transports.http_client import ClientPool, Response
from mooring.transports.http_errors import ConnectFailed, TransportError
from mooring.transports.spool import SPILL_BYTES
from mooring.transports.streamable_wire import HttpRefused
from mooring.transports.wire import Answer, Leg, WireEvents

ENDPOINT_SECONDS: Final = 10.0
"""The `endpoint` event is the first thing such a server sends; one that keeps silent is something else."""
POST_SECONDS: Final = 5.0
"""How long a server may still take to say that it has heard what it has answered already."""


class SseWire(DuplexWire):
    """The stream is the session: when it ends, everything in flight has failed."""

    def __init__(
        self,
        pool: ClientPool,
        url: str,
        headers: bytes,
        events: WireEvents,
        *,
        label: str,
        max_message_bytes: int,
    ) -> None:
        super().__init__(events, label)
        self._pool = pool
        self._url = url
        self._headers = headers
        self._reader = EventReader(max_message_bytes, SPILL_BYTES)
        self._endpoint: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._response: Response | None = None
        self._target = b""

    async def open(self) -> None:
        """Open the stream and wait to be told where to send."""
        parts = urlsplit(self._url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = b"accept: text/event-stream\r\n" + self._headers
        response = await self._request(b"GET", target.encode(), headers, b"")
        kind = response.header(b"content-type") or b""
        if response.status != 200 or not kind.lower().startswith(b"text/event-stream"):
            response.abort()
            raise HttpRefused(response.status, started=False)
        self._response = response
        response.attach(self._on_data, self._on_end)
        try:
            async with asyncio.timeout(ENDPOINT_SECONDS):
                self._target = await self._endpoint
        except TimeoutError:
            response.abort()
            raise UpstreamUnavailable("the server never named the endpoint to send to") from None

    async def request(self, leg: Leg) -> Answer:
        if leg.caller is not None:
            self._pool = self._pool.bound_to(leg.caller)
        return await super().request(leg)

    async def deliver(self, message: bytes, answered: asyncio.Future[Answer]) -> None:
        """The answer comes on the stream, often before the server is done with the POST that asked."""
        loop = asyncio.get_running_loop()
        posting = loop.create_task(self.send(message))
        posting.add_done_callback(_seen)
        try:
            await asyncio.wait({posting, answered}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            posting.cancel()
            raise
        if posting.done():
            posting.result()
        else:
            loop.call_later(POST_SECONDS, posting.cancel)

    async def write(self, message: bytes) -> None:
        headers = b"content-type: application/json\r\n" + self._headers
        response = await self._request(b"POST", self._target, headers, message)
        try:
            if not response.complete:
                await response.read(64 * 1024)
        except TransportError as error:
            raise UpstreamFailed(str(error)) from error
        if response.status >= 400:
            # A server error may come after the work has begun; only a refusal proves that it has not.
            started = response.status >= 500
            raise UpstreamFailed(f"the server refused a message with HTTP {response.status}", started=started)

    async def close(self) -> None:
        if self._response is not None:
            self._response.abort()
        self._pool.close()

    async def _request(self, method: bytes, target: bytes, headers: bytes, body: bytes) -> Response:
        try:
            return await self._pool.request(method, target, headers, body)
        except ConnectFailed as error:
            raise UpstreamUnavailable(str(error)) from error
        except TransportError as error:
            raise UpstreamFailed(str(error)) from error

    def _on_data(self, data: bytes) -> None:
        try:
            events = self._reader.feed(data)
        except EventTooLarge as error:
            self._on_end(error)
            return
        for event in events:
            if not isinstance(event, Event):
                self.receive_part(event.data, last=event.last)
            elif event.event == "endpoint":
                self._name_endpoint(event.data.decode("utf-8", "replace"))
            elif event.data:
                self.receive(event.data)

    def _name_endpoint(self, reference: str) -> None:
        """Only on the server's own origin: anything else would send our messages to a stranger."""
        if self._endpoint.done():
            return
        url = urlsplit(urljoin(self._url, reference.strip()))
        own = urlsplit(self._url)
        if (url.scheme, url.netloc) != (own.scheme, own.netloc):
            self._endpoint.set_exception(
                UpstreamUnavailable("the server named an endpoint on another origin")
            )
            return
        self._endpoint.set_result(((url.path or "/") + (f"?{url.query}" if url.query else "")).encode())

    def _on_end(self, error: Exception | None) -> None:
        reason = f"the server's event stream broke: {error}" if error else "the server ended its event stream"
        if not self._endpoint.done():
            self._endpoint.set_exception(UpstreamUnavailable(reason))
        self.fail(reason)


def _seen(posting: asyncio.Task[None]) -> None:
    """Its failure is no news once the request is answered, or failed in another way."""
    if not posting.cancelled():
        posting.exception()
