"""A server behind Streamable HTTP, in both eras: every message is its own POST, its answer JSON or an
event stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Final

from mooring.errors import RpcError, SessionDied, UpstreamFailed, UpstreamUnavailable
from mooring.protocol import jsonrpc
from mooring.transports.answer_stream import AnswerStream, UnsolicitedStream
from mooring.transports.http_client import ClientPool, Response
from mooring.transports.http_errors import ConnectFailed, ConnectionLost, TransportError
from mooring.transports.large_answers import Collector
from mooring.transports.large_messages import LargeMessage
from mooring.transports.reopening import Reopening
from mooring.transports.spool import SPILL_BYTES
from mooring.transports.wire import Answer, Leg, Relay, SessionLost, WireEvents

REPEATABLE: Final = frozenset(
    {
        "initialize",
        "server/discover",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    }
)
"""Requests that change nothing at the server, however often they are made."""
ERROR_BODY_BYTES: Final = 64 * 1024
RETRY_MILLISECONDS: Final = 1000
"""How long to wait before polling a stream again when the server expressed no wish."""
END_SECONDS: Final = 2.0
"""How long a server may take to hear that its session is over."""
POLLS_IN_VAIN: Final = 5
"""A stream that was resumed this often without one new event is given up."""


class StreamableWire:
    """One session with a server (legacy), or simply the way to it (modern)."""

    correlates = True

    def __init__(
        self,
        pool: ClientPool,
        target: bytes,
        headers: bytes,
        events: WireEvents,
        *,
        label: str,
        max_message_bytes: int,
    ) -> None:
        self.label = label
        self.version = ""
        self.session_id: bytes | None = None
        self.offered_session: bytes | None = None
        self._pool = pool
        self.take_idle = pool.take_idle
        self._target = target
        self._events = events
        self._max_bytes = max_message_bytes
        self._fixed = headers
        self._post_headers = b""
        self._get_headers = b""
        self._next_id = 1
        self._listening: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()
        self.settle("")

    def settle(self, version: str, session_id: bytes | None = None) -> None:
        """From now on say which revision was agreed on and which session this is."""
        self.version = version
        self.session_id = session_id
        common = self._fixed
        if session_id is not None:
            common += b"mcp-session-id: %b\r\n" % session_id
        agreed = b"mcp-protocol-version: %b\r\n" % version.encode() if version else b""
        self._post_headers = (
            b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n" + common
        )
        self.legacy_headers = agreed
        self.post_head = self._pool.head_of_post(self._target) + self._post_headers
        self._get_headers = b"accept: text/event-stream\r\n" + common + agreed

    def traced_in(self, data: bytes) -> None:
        if self._events.tracing:
            self._events.on_traffic("in", data)

    def own_id(self) -> bytes:
        """An id that no client uses, for requests of our own in a session whose ids are a client's."""
        self._next_id += 1
        return b'"mooring-%d"' % self._next_id

    async def request(self, leg: Leg) -> Answer:
        if not leg.id:
            leg.id = self.own_id()
            leg.assigned = True
            leg.body = jsonrpc.request(leg.id, leg.method, leg.params)
        posted, leg.posted = leg.posted, None
        try:
            if posted is not None:
                response = await self._pool.response_to(posted.connection, posted.response)
            else:
                if self._events.tracing:
                    self._events.on_traffic("out", leg.body)
                headers = self._post_headers + (leg.headers or self.legacy_headers)
                pool, target = self._pool, self._target
                response = await (
                    pool.request(b"POST", target, headers, leg.body)
                    if leg.caller is None
                    else pool.request_as(leg.caller, b"POST", target, headers, leg.body)
                )
        except TransportError as error:
            raise _translated(error, repeatable=leg.method in REPEATABLE) from error
        if leg.method == "initialize":
            self.offered_session = response.header(b"mcp-session-id")
        if response.complete and response.status == 200 and not _is_event_stream(response):
            return self.read_answer(leg, response.body())  # the common case: a small JSON answer
        polls_in_vain = 0
        stream: AnswerStream | None = None
        while True:
            if response.status != 200:
                return await self._refused(leg, response)
            if not _is_event_stream(response):
                return await self._json(leg, response)
            if leg.on_streaming is not None:
                leg.on_streaming()
            stream = AnswerStream(self, leg, response, self._max_bytes, stream)
            leg.flow = response
            try:
                answer = await stream.answered
            except BaseException:
                response.abort()
                stream.forget()
                raise
            if answer is not None:
                return answer
            polls_in_vain = polls_in_vain + 1 if stream.empty else 0
            response = await self._resume(leg, stream, polls_in_vain)

    async def _resume(self, leg: Leg, stream: AnswerStream, polls_in_vain: int) -> Response:
        """The request was accepted: whatever goes wrong from here on, it must not be sent again."""
        try:
            response = await self._poll(leg, stream, polls_in_vain)
        except UpstreamFailed as error:
            raise SessionDied(str(error)) from error
        if response.status != 200:
            response.abort()
            raise SessionDied(f"the server would not resume its stream: HTTP {response.status}")
        return response

    async def _poll(self, leg: Leg, stream: AnswerStream, polls_in_vain: int) -> Response:
        """The server closed the stream before answering (2025-11-25): come back for the rest of it."""
        if stream.last_id is None or self.session_id is None or polls_in_vain >= POLLS_IN_VAIN:
            raise UpstreamFailed("the server closed its stream before answering")
        if leg.on_polled is not None:
            leg.on_polled(stream.retry)
        wait = stream.retry if stream.retry is not None else RETRY_MILLISECONDS
        await asyncio.sleep(wait / 1000)
        resume = self._get_headers + b"last-event-id: %b\r\n" % stream.last_id.encode()
        return await self._exchange(b"GET", resume, b"")

    async def send(self, message: bytes) -> None:
        """A notification, or our answer to a request of the server."""
        if self._events.tracing:
            self._events.on_traffic("out", message)
        response = await self._exchange(b"POST", self._post_headers + self.legacy_headers, message)
        if response.status == 404 and self.session_id is not None:
            response.abort()
            raise SessionLost(self)
        try:
            if not response.complete:
                await response.read(ERROR_BODY_BYTES)
        except TransportError as error:
            raise UpstreamFailed(str(error)) from error
        if response.status >= 400:
            raise UpstreamFailed(f"the server refused a message with HTTP {response.status}")

    async def close(self) -> None:
        """End the session, as politely as the server lets us."""
        self.stop_listening()
        if self.session_id is None:
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                response = await self._exchange(b"DELETE", self._get_headers, b"")
            response.abort()
        except (RpcError, TimeoutError):
            pass  # it may be gone already; sessions expire on the server's side too

    async def _exchange(self, method: bytes, headers: bytes, body: bytes) -> Response:
        try:
            return await self._pool.request(method, self._target, headers, body)
        except TransportError as error:
            raise _translated(error) from error

    async def _json(self, leg: Leg, response: Response) -> Answer:
        if response.complete:
            return self.read_answer(leg, response.body())
        may_wait = leg.relayable or leg.keepable
        collected = Collector(response, SPILL_BYTES if may_wait else self._max_bytes)
        try:
            whole = await collected.ready
            if whole is not None:
                return self.read_answer(leg, whole)
            if leg.relayable and (not leg.only_complete or collected.is_complete_result):
                leg.flow = response
                return Answer(version=self.version, relay=collected)
            if leg.keepable:
                return self.read_large(leg, await collected.keep(self._max_bytes))
            if leg.relayable:
                return self.read_answer(leg, await collected.everything(self._max_bytes))
            raise UpstreamFailed(f"the server's answer is larger than {self._max_bytes} bytes")
        except BaseException:
            response.abort()
            raise

    def read_answer(self, leg: Leg, data: bytes, status: int = 200) -> Answer:
        """A response that must be the answer to this request and to no other."""
        if self._events.tracing:
            self._events.on_traffic("in", data)
        try:
            jsonrpc.check_text(data)
            envelope = jsonrpc.decode(data)
        except RpcError as error:
            raise UpstreamFailed(f"the server answered with something else than JSON-RPC: {error}") from error
        same = bytes(envelope.id) == leg.id or _same_id(envelope.id, leg.id, optional=bool(envelope.error))
        if envelope.method is not None or not same:
            raise UpstreamFailed("the server answered a request that was not asked")
        whole = data if envelope.id and not leg.assigned else b""
        return Answer(
            version=self.version, result=envelope.result, error=envelope.error, whole=whole, status=status
        )

    def read_large(self, leg: Leg, large: LargeMessage) -> Answer:
        """The same, of one that is on disk: it stays there, unless there is something to look at."""
        try:
            large.finish()
        except RpcError as error:
            large.forget()
            raise UpstreamFailed(f"the server answered with something else than JSON-RPC: {error}") from error
        if not large.is_complete_result or self._events.tracing:
            return self.read_answer(leg, large.load())
        if not _same_id(large.id, leg.id, optional=False):
            large.forget()
            raise UpstreamFailed("the server answered a request that was not asked")
        return Answer(version=self.version, kept=large.result())

    async def _refused(self, leg: Leg, response: Response) -> Answer:
        """Anything but 200: a JSON-RPC error in the body is the answer, otherwise the status is."""
        status = response.status
        try:
            data = response.body() if response.complete else await response.read(ERROR_BODY_BYTES)
        except TransportError as error:
            raise UpstreamFailed(str(error)) from error
        if status == 404 and self.session_id is not None:
            raise SessionLost(self)
        if status == 202:
            raise UpstreamFailed("the server accepted the request and will not answer it")
        try:
            return self.read_answer(leg, data, status)
        except UpstreamFailed:
            started = status >= 500
            raise HttpRefused(status, started=started) from None

    # The standalone stream of legacy sessions

    def listen(self) -> None:
        """Keep the stream open on which the server sends what belongs to no request."""
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def hear(self, seconds: float) -> None:
        """As above, and wait until it is open, or until the server has said that there is no such stream."""
        self.listen()
        if not self._heard.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._heard.wait()

    def stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _listen(self) -> None:
        reopening = Reopening()
        last_id: str | None = None
        while True:
            open_seconds = 0.0
            try:
                headers = self._get_headers
                if last_id is not None:
                    headers += b"last-event-id: %b\r\n" % last_id.encode()
                response = await self._exchange(b"GET", headers, b"")
            except UpstreamFailed as error:
                self._heard.set()
                self._events.on_noise(b"", f"the standalone stream could not be opened: {error}")
            else:
                self._heard.set()
                if response.status != 200 or not _is_event_stream(response):
                    response.abort()
                    if response.status == 404 and self.session_id is not None:
                        self._events.on_lost("the server has forgotten the session")
                    return  # 405: the server has no such stream, which the specification allows
                opened = monotonic()
                stream = UnsolicitedStream(self._events, response, self._max_bytes, reopening)
                last_id = await stream.ended or last_id
                open_seconds = monotonic() - opened
            await asyncio.sleep(reopening.wait_after(open_seconds))


class HttpRefused(UpstreamFailed):
    """The server refused a request at the HTTP level, without a JSON-RPC error."""

    def __init__(self, status: int, *, started: bool) -> None:
        super().__init__(f"the server answered HTTP {status}", started=started)
        self.http_status = status


def _translated(error: TransportError, *, repeatable: bool = False) -> UpstreamFailed:
    """A connection that the server closed just as we used it again proves nothing, but asking twice for
    something that changes nothing does no harm."""
    if isinstance(error, ConnectionLost) and repeatable and not error.response_started:
        return UpstreamUnavailable(str(error))
    if isinstance(error, ConnectFailed):
        return UpstreamUnavailable(str(error))
    return SessionDied(str(error)) if isinstance(error, ConnectionLost) else UpstreamFailed(str(error))


def _is_event_stream(response: Response) -> bool:
    kind = response.header(b"content-type")
    return kind is not None and kind[:17].lower() == b"text/event-stream"


def _same_id(given: object, expected: bytes, *, optional: bool) -> bool:
    raw = bytes(given)  # type: ignore[call-overload]
    if raw == expected:
        return True
    if not raw:
        return optional
    return jsonrpc.id_key(raw) == jsonrpc.id_key(expected)


__all__ = ["HttpRefused", "Relay", "StreamableWire"]
