"""Who asks: a session that began with `initialize`, or the sender of one modern request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from mooring.authoring.audience import RESOURCE_UPDATED
from mooring.authoring.calls import Call, Json, Question, at_least
from mooring.authoring.errors import ClientRefused
from mooring.authoring.rounds import Rounds
from mooring.protocol import jsonrpc
from mooring.protocol.jsonrpc import Envelope, RequestId
from mooring.protocol.lifecycle import Phase


class Session:
    """A legacy client. `push` says something to it that belongs to no call."""

    is_modern = False

    def __init__(self, push: Callable[[bytes], None]) -> None:
        self.push = push
        self.phase = Phase.CONNECTED
        self.version = ""
        self.capabilities: Json = {}
        self.info: Json = {}
        self.level: str | None = None
        self.running: dict[RequestId, Call] = {}
        self.subscriptions: set[str] = set()
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._next = 1

    def introduce(self, version: str, capabilities: Json, info: Json) -> None:
        self.version = version
        self.capabilities = capabilities
        self.info = info

    def wants_log(self, level: str) -> bool:
        return at_least(level, self.level)

    # Questions

    def ask(self, call: Call, question: Question) -> asyncio.Future[Json]:
        """Send the question on the stream of its call."""
        number = self._next
        self._next += 1
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        call.questions[str(number)] = (question, future)
        future.add_done_callback(lambda done: self._settled(call, number, done))
        params = msgspec.json.encode(question.params) if question.params else b""
        self._tell(call, jsonrpc.request(b"%d" % number, question.method, params))
        return future

    def _settled(self, call: Call, number: int, done: asyncio.Future[Json]) -> None:
        self._asked.pop(number, None)
        call.questions.pop(str(number), None)
        if done.cancelled() and self.phase is not Phase.SHUTDOWN:
            self._tell(call, jsonrpc.notification("notifications/cancelled", b'{"requestId":%d}' % number))

    def _tell(self, call: Call, message: bytes) -> None:
        if call.sink is not None:
            call.sink.emit(message)

    def answered(self, envelope: Envelope) -> None:
        """The client's answer to a question of ours; one to a question that nobody asked is ignored."""
        raw = bytes(envelope.id)
        future = self._asked.get(int(raw)) if raw.isdigit() and len(raw) < 19 else None
        if future is None or future.done():
            return
        if envelope.error:
            future.set_exception(ClientRefused(_refusal(bytes(envelope.error))))
            future.exception()  # whoever waits hears of it; if nobody does, that is no news
            return
        try:
            result = msgspec.json.decode(envelope.result, type=dict[str, Any])
        except msgspec.DecodeError:
            future.set_exception(ClientRefused("the client's answer is not an object"))
        else:
            future.set_result(result)

    # Changes

    def wants(self, method: str, uri: str | None) -> bool:
        if self.phase not in (Phase.INITIALIZED, Phase.READY):
            return False
        return method != RESOURCE_UPDATED or uri in self.subscriptions

    def tell(self, method: str, params: Json) -> None:
        self.push(jsonrpc.notification(method, msgspec.json.encode(params) if params else b""))

    def close(self) -> None:
        """The client is gone: so is the reason for its calls."""
        self.phase = Phase.SHUTDOWN
        for call in list(self.running.values()):
            call.cancel()


def _refusal(error: bytes) -> str:
    try:
        message = cast("object", msgspec.json.decode(error, type=dict[str, Any]).get("message"))
    except msgspec.DecodeError:
        message = None
    return f"the client refused: {message}" if isinstance(message, str) else "the client refused"


class ModernPeer:
    """The sender of one request: nothing is known of it but what the request says."""

    is_modern = True
    __slots__ = ("_rounds", "capabilities", "info", "level", "version")

    def __init__(
        self, version: str, capabilities: Json, info: Json, level: str | None, rounds: Rounds
    ) -> None:
        self.version = version
        self.capabilities = capabilities
        self.info = info
        self.level = level
        self._rounds = rounds

    def wants_log(self, level: str) -> bool:
        """Only a request that named a level gets lines, and only on its own stream."""
        return self.level is not None and at_least(level, self.level)

    def ask(self, call: Call, question: Question) -> asyncio.Future[Json]:
        return self._rounds.ask(call, question)
