"""What a server behind Streamable HTTP says in event streams: with the answer to a request, or on its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final, Protocol

from mooring.errors import RpcError, SessionDied, UpstreamFailed
from mooring.protocol import jsonrpc
from mooring.protocol.sse import Event, EventPart, EventReader, EventTooLarge
from mooring.transports.http_response import Response
from mooring.transports.large_answers import PartRelay, shows_completion
from mooring.transports.large_messages import LargeMessage
from mooring.transports.reopening import Reopening
from mooring.transports.spool import SPILL_BYTES
from mooring.transports.wire import Answer, Leg, WireEvents

LINGER_SECONDS: Final = 1.0
"""How long a server may leave a stream open once it has answered; then we close the connection."""

_RESPONSE_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?P<id>"(?:[^"\\]|\\.)*"|-?\d+)\s*,\s*)?'
    rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:'
)


class AnswerReader(Protocol):
    """The wire, as the stream of one of its answers sees it."""

    version: str

    def traced_in(self, data: bytes) -> None: ...
    def read_answer(self, leg: Leg, data: bytes, status: int = 200) -> Answer: ...
    def read_large(self, leg: Leg, large: LargeMessage) -> Answer: ...


class AnswerStream:
    """An event stream that ends with the answer to one request."""

    def __init__(
        self,
        wire: AnswerReader,
        leg: Leg,
        response: Response,
        max_bytes: int,
        before: AnswerStream | None = None,
    ) -> None:
        """`before` is the stream that this one resumes: where it stopped counts until there is news."""
        self.answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.retry: int | None = None
        self.empty = True
        self._wire = wire
        self._leg = leg
        self._response = response
        self._reader = EventReader(max_bytes, SPILL_BYTES)
        if before is not None:
            self.retry = before.retry
            self._reader.last_id = before.last_id
        self._parts: list[bytes] = []
        self._large: LargeMessage | None = None
        self._relay: PartRelay | None = None
        self._over = False
        self._linger: asyncio.TimerHandle | None = None
        response.attach(self._on_data, self._on_end)

    @property
    def last_id(self) -> str | None:
        return self._reader.last_id

    def _on_data(self, data: bytes) -> None:
        try:
            for event in self._reader.feed(data):
                self.empty = False
                if self._over:
                    continue  # after its answer a server has nothing more to say on this stream
                if isinstance(event, Event):
                    self._on_event(event)
                else:
                    self._on_part(event)
        except EventTooLarge as error:
            self._fail(UpstreamFailed(str(error)))
        except UpstreamFailed as error:
            self._fail(error)
        except RpcError as error:
            self._fail(UpstreamFailed(f"the server sent something else than JSON-RPC: {error}"))

    def _on_event(self, event: Event) -> None:
        if event.retry is not None:
            self.retry = event.retry
        if not event.data:
            return
        jsonrpc.check_text(event.data)
        if jsonrpc.is_batch(event.data):
            for message in jsonrpc.split_batch(event.data):
                self._on_message(bytes(message))
        else:
            self._on_message(event.data)

    def _on_message(self, data: bytes) -> None:
        envelope = jsonrpc.decode(data)
        if envelope.method is not None:
            self._wire.traced_in(data)
            self._leg.on_message(envelope, data)
        elif not self.answered.done():
            self._answer(lambda: self._wire.read_answer(self._leg, data))

    def _answer(self, read: Callable[[], Answer]) -> None:
        try:
            self.answered.set_result(read())
        except UpstreamFailed as error:
            self._fail(error)
        else:
            self._finish()

    def _on_part(self, part: EventPart) -> None:
        """A large event: let it flow through if it is the answer and may keep its id, else keep it."""
        if part.first:
            head = _RESPONSE_HEAD.match(part.data)
            plain = not self._leg.only_complete or shows_completion(part.data)
            if self._leg.relayable and plain and head is not None and head["id"] in (None, self._leg.id):
                self._relay = PartRelay(self._response)
                if not self.answered.done():
                    self.answered.set_result(Answer(version=self._wire.version, relay=self._relay))
        if self._relay is not None:
            self._relay.feed(part.data)
            if part.last:
                self._relay.finish(None)
                self._finish()
            return
        if self._leg.keepable:
            self._keep_part(part)
            return
        self._parts.append(part.data)
        if part.last:
            data = b"".join(self._parts)
            self._parts.clear()
            self._on_event(Event(data, part.event, part.id, part.retry))

    def _keep_part(self, part: EventPart) -> None:
        large = self._large
        if large is None:
            large = self._large = LargeMessage()
        large.add(part.data)
        if part.last:
            self._large = None
            if large.is_complete_result:
                self._answer(lambda: self._wire.read_large(self._leg, large))
            else:
                self._on_event(Event(large.load(), part.event, part.id, part.retry))

    def forget(self) -> None:
        """The rest of a large event will not come, or nobody wants it."""
        if self._large is not None:
            self._large.forget()
            self._large = None

    def _finish(self) -> None:
        self._over = True
        self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._response.abort)

    def _on_end(self, error: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self.forget()
        if self._relay is not None:
            self._relay.finish(
                error or UpstreamFailed("the server closed its stream in the middle of an answer")
            )
        elif not self.answered.done():
            resumable = self._reader.last_id is not None
            if error is not None and not resumable:
                self._fail(SessionDied(str(error)))
            else:
                self.answered.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._response.abort()
        self.forget()
        if self._relay is not None:
            self._relay.finish(error)
        elif not self.answered.done():
            self.answered.set_exception(error)


class UnsolicitedStream:
    """The standalone stream: whatever arrives belongs to no request. `ended` gives the last event's id."""

    def __init__(self, events: WireEvents, response: Response, max_bytes: int, reopening: Reopening) -> None:
        """`reopening` is told what came."""
        self.ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._events = events
        self._reopening = reopening
        self._reader = EventReader(max_bytes)
        response.attach(self._on_data, self._on_end)
        self.ended.add_done_callback(lambda _: response.abort())

    def _on_data(self, data: bytes) -> None:
        try:
            events = self._reader.feed(data)
        except EventTooLarge as error:
            self._events.on_noise(b"", str(error))
            self._on_end(error)
            return
        for event in events:
            if event.data:
                self._reopening.heard()
                self._on_message(event.data)
            if isinstance(event, Event) and event.retry is not None:
                self._reopening.wished(event.retry)

    def _on_message(self, data: bytes) -> None:
        try:
            jsonrpc.check_text(data)
            envelope = jsonrpc.decode(data)
        except RpcError as error:
            self._events.on_noise(data, str(error))
        else:
            if self._events.tracing:
                self._events.on_traffic("in", data)
            if envelope.method is None:
                self._events.on_noise(data, "an answer on the stream that carries none")
            else:
                self._events.on_unsolicited(envelope, data)

    def _on_end(self, _error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(self._reader.last_id)
