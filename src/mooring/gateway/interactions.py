"""Calls that need their client's input: suspended while a modern client comes back with it, run exactly once.

A legacy server asks in the middle of a call. Towards a modern client the call's POST is then answered with
`input_required`, while the call itself stays open here. The client's retry carries our sealed `requestState`:
it names the waiting call, gives the server its answers, and its POST becomes the one that the call answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from time import monotonic
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from mooring.errors import InvalidParams, RpcError, TooMuch
from mooring.gateway.exchange import Exchange, Route
from mooring.gateway.questions import InputRequired
from mooring.gateway.waiting_room import WaitingRoom
from mooring.protocol import jsonrpc, meta
from mooring.protocol.meta import Params
from mooring.transports.sealing import Seal, SealBroken
from mooring.transports.wire import Answer

SUSPENDED: Final = "mooring:suspended-call"
RELAYED: Final = "mooring:request-state"
KEPT_MESSAGES: Final = 64
MAX_QUESTIONS: Final = 64
TOGETHER_SECONDS: Final = 0.04
SETTLE_SECONDS: Final = 0.01
TOGETHER_AT_MOST_SECONDS: Final = 0.5
"""Questions that a server asks at the same time reach the client together: when it has paused, and what has
arrived meanwhile has been read, but in any case after the last of these."""
EXPIRED_TEXT: Final = "the interaction has expired; call again from the start"
_NOT_PART_OF_THE_CALL: Final = ("inputResponses", "requestState", "_meta")


class SuspendedCall:
    """One call that waits, with what its server has asked so far."""

    __slots__ = (
        "asked_at", "expires", "id", "kept", "names", "nonce", "outcome", "questions", "since", "timer",
    )  # fmt: skip

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.nonce = ""
        self.expires = 0.0
        self.questions: dict[str, tuple[str, bytes | Raw, asyncio.Future[Answer]]] = {}
        self.names: set[str] = set()
        self.outcome: Answer | None = None
        self.since = 0.0
        self.asked_at = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.kept: list[bytes] = []

    def weigh(self, exchange: Exchange) -> int:
        """What it costs to hold this call: what its client has sent, and what it is asked."""
        return len(exchange.body) + sum(len(bytes(params)) for _, params, _ in self.questions.values())

    def keep(self, message: bytes) -> None:
        """What the server says meanwhile; the client hears it when it is back."""
        if len(self.kept) < KEPT_MESSAGES:
            self.kept.append(message)


class SpentBook(Protocol):
    """Where it is written down what may be used once, so that a restart of the gateway does not forget it."""

    async def spend(self, value: str, until: float) -> bool:
        """Durable when it returns; False: it was spent before. Nobody asks after that time (`time.time`)."""
        ...


class Interactions:
    """The suspended calls of one gateway, and the states of modern servers that pass through it."""

    def __init__(self, seal: Seal, ttl_seconds: float, book: SpentBook) -> None:
        self._seal = seal
        self._ttl = ttl_seconds
        self._suspended: dict[str, Exchange] = {}
        self._book = book
        self._room = WaitingRoom()

    # Legacy server, modern client

    async def ask(self, exchange: Exchange, method: str, params: bytes | Raw) -> Answer:
        """Put a question to the client of this call, at the next opportunity."""
        loop = asyncio.get_running_loop()
        parked = exchange.parked
        if not isinstance(parked, SuspendedCall):
            parked = exchange.parked = SuspendedCall()
        if len(parked.questions) >= MAX_QUESTIONS:
            raise RpcError(f"a call may have at most {MAX_QUESTIONS} open questions")
        future: asyncio.Future[Answer] = loop.create_future()
        name = _name_question(method, params, parked.names)
        parked.names.add(name)  # an answer that came unasked is for the first question of its name only
        given = self._volunteered(exchange, name)
        if given is not None:
            return Answer(version=exchange.client.version, result=given)
        parked.questions[name] = (method, params, future)
        if exchange.on_input is not None:
            exchange.on_input(True)
        elif exchange.sink is not None:
            self._suspend_soon(exchange, parked)
        try:
            return await future
        finally:
            parked.questions.pop(name, None)
            if exchange.on_input is not None and not parked.questions:
                exchange.on_input(False)

    @staticmethod
    def _volunteered(exchange: Exchange, name: str) -> bytes | None:
        """A client may send answers before it was asked; it knows the questions from an earlier call."""
        params = exchange.read_params()
        if params.request_state or not params.input_responses:
            return None
        raw = jsonrpc.members(params.input_responses).get(name)
        return None if raw is None else _without_result_type(raw)

    def _suspend_soon(self, exchange: Exchange, parked: SuspendedCall) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if parked.timer is None:
            parked.asked_at = now
        else:
            parked.timer.cancel()
        wait = min(TOGETHER_SECONDS, max(0.0, parked.asked_at + TOGETHER_AT_MOST_SECONDS - now))
        parked.timer = loop.call_later(wait, self._settle, exchange, parked)

    def _settle(self, exchange: Exchange, parked: SuspendedCall) -> None:
        """Timers go before what has arrived: a last question may be waiting to be read."""
        loop = asyncio.get_running_loop()
        parked.timer = loop.call_later(SETTLE_SECONDS, self._suspend, exchange)

    def _suspend(self, exchange: Exchange) -> None:
        parked = exchange.parked
        if not isinstance(parked, SuspendedCall):
            return
        parked.timer = None
        sink = exchange.sink
        if sink is None or not parked.questions:
            return
        if exchange.on_input is not None:
            return  # it has become a task meanwhile, whose client asks for the questions
        now = monotonic()
        try:
            self._room.enter(parked.id, exchange.client.caller, parked.weigh(exchange), now + self._ttl, now)
        except TooMuch as error:
            exchange.fail(error)
            return
        parked.nonce = secrets.token_hex(8)
        parked.since = now
        parked.expires = now + self._ttl
        self._suspended[parked.id] = exchange
        values = {
            "call": parked.id,
            "nonce": parked.nonce,
            "principal": exchange.client.principal,
            "server": exchange.server.id,
            "digest": _digest(exchange),
        }
        result = jsonrpc.assemble(
            {
                "resultType": b'"input_required"',
                "inputRequests": jsonrpc.assemble(
                    {
                        name: jsonrpc.assemble(
                            {"method": msgspec.json.encode(method), "params": params or b"{}"}
                        )
                        for name, (method, params, _) in parked.questions.items()
                    }
                ),
                "requestState": msgspec.json.encode(
                    self._seal.wrap(SUSPENDED, values, ttl_seconds=self._ttl)
                ),
            }
        )
        exchange.sink = None
        if exchange.key is not None:
            exchange.client.running.pop(exchange.key, None)
        sink.answer(jsonrpc.result(exchange.envelope.id, result))

    def resume(self, retry: Exchange) -> Exchange | Answer | None:
        """The call that this request is a retry of; it takes over the request's sink.

        If the call has ended meanwhile, its outcome. None: it is gone.
        """
        values = self._open(SUSPENDED, retry)
        exchange = self._suspended.get(values["call"])
        if exchange is None or not isinstance(exchange.parked, SuspendedCall):
            return None
        parked = exchange.parked
        if parked.nonce != values["nonce"]:
            return None
        given = _answers_in(retry, parked)  # before anything changes hands: who sends nonsense may try again
        del self._suspended[parked.id]
        parked.nonce = ""
        if parked.outcome is not None:
            self._room.leave(parked.id)
            return parked.outcome
        exchange.final_deadline += monotonic() - parked.since
        exchange.envelope, exchange.asked = retry.envelope, retry.asked_for
        exchange.sink = retry.sink
        exchange.client = retry.client
        exchange.params, exchange.meta = retry.params, retry.meta
        exchange.progressed(monotonic())
        for message in parked.kept:
            if told := _told_now(exchange, message):
                exchange.emit(told)
        parked.kept.clear()
        _hand_over(parked, given, exchange.client.version)
        if parked.questions:
            self._suspend_soon(exchange, parked)
        return exchange

    def give_answers(self, parked: SuspendedCall, retry: Exchange) -> None:
        """Hand the answers that a request brings to whoever asked; unknown ones are ignored."""
        _hand_over(parked, _answers_in(retry, parked), retry.client.version)

    def keep_outcome(self, exchange: Exchange, answer: Answer) -> None:
        """The call ended while its client was away; the outcome waits for it."""
        if isinstance(exchange.parked, SuspendedCall) and exchange.parked.id in self._suspended:
            exchange.parked.outcome = answer

    def forget(self, exchange: Exchange) -> None:
        """The call is over, one way or another."""
        parked = exchange.parked
        if not isinstance(parked, SuspendedCall):
            return
        if parked.outcome is None:
            self._suspended.pop(parked.id, None)
            self._room.leave(parked.id)
        for _, _, future in parked.questions.values():
            if not future.done():
                future.set_exception(RpcError("the call is over"))
                future.exception()  # whoever waits hears of it; if nobody does, that is no news

    def expire(self, now: float) -> None:
        for exchange in list(self._suspended.values()):
            parked = exchange.parked
            if isinstance(parked, SuspendedCall) and parked.expires < now:
                self._suspended.pop(parked.id, None)
                if parked.outcome is None:
                    exchange.cancel()
                else:
                    self._room.leave(parked.id)

    # Modern server, modern client: the server's own state, sealed on its way through

    def seal_state(self, exchange: Exchange, wanted: InputRequired) -> str | None:
        if wanted.request_state is None:
            return None
        values = {
            "state": wanted.request_state,
            "nonce": secrets.token_hex(8),
            "principal": exchange.client.principal,
            "server": exchange.server.id,
            "digest": _digest(exchange),
        }
        return self._seal.wrap(RELAYED, values, ttl_seconds=self._ttl)

    async def open_state(self, exchange: Exchange) -> str:
        """The server's own state that this retry brings back; each may be used once."""
        values = self._open(RELAYED, exchange)
        if not await self._book.spend(values["nonce"], time.time() + self._ttl):
            raise InvalidParams("`requestState` was already used")
        return values["state"]

    def is_suspended_state(self, exchange: Exchange) -> bool:
        """Whether a retry belongs to a call that waits here, rather than to a server's own state."""
        return self._suspended_by(exchange.read_params()) is not None

    def waits_at(self, server: Route, params: Params) -> bool:
        """Whether a request with these params is a retry of a call that this very server works on."""
        call = self._suspended.get(self._suspended_by(params) or "")
        return call is not None and call.server is server

    def _suspended_by(self, params: Params) -> str | None:
        """Which call a state of ours is about."""
        text = meta.text(params.request_state)
        if text is None:
            return None
        try:
            return self._seal.unwrap(SUSPENDED, text)["call"]
        except SealBroken:
            return None

    def _open(self, purpose: str, exchange: Exchange) -> dict[str, Any]:
        text = meta.text(exchange.read_params().request_state)
        try:
            values = self._seal.unwrap(purpose, text or "")
            if (values["principal"], values["server"]) != (exchange.client.principal, exchange.server.id):
                raise SealBroken("not a value of ours")  # nor is what we gave to somebody else
        except SealBroken as error:
            raise InvalidParams(f"`requestState` cannot be used: {error}") from None
        if values["digest"] != _digest(exchange):
            raise InvalidParams("`requestState` belongs to another request")
        return values


def with_current_token(exchange: Exchange, params: Raw) -> bytes:
    """Progress of a call that was resumed: it belongs to the retry, under its token, or to nobody (empty)."""
    token = bytes(exchange.read_meta().progress_token)
    if not token:
        return b""
    params = Raw(meta.with_member(params, meta.PROGRESS_TOKEN, token))
    return jsonrpc.notification("notifications/progress", params)


def _told_now(exchange: Exchange, message: bytes) -> bytes:
    kept = jsonrpc.decode(message)
    if kept.method == "notifications/progress":
        return with_current_token(exchange, kept.params)
    return message


def _answers_in(retry: Exchange, parked: SuspendedCall) -> dict[str, bytes]:
    """What a request answers of what was asked, by the names of the questions."""
    try:
        given = jsonrpc.members(retry.read_params().input_responses)
        return {name: _without_result_type(raw) for name, raw in given.items() if name in parked.questions}
    except RpcError as error:
        raise InvalidParams(f"`inputResponses` cannot be read: {error}") from None


def _hand_over(parked: SuspendedCall, given: dict[str, bytes], version: str) -> None:
    for name, (_, _, future) in list(parked.questions.items()):
        if name in given and not future.done():
            future.set_result(Answer(version=version, result=given[name]))
            del parked.questions[name]


def _without_result_type(raw: Raw) -> bytes:
    members = jsonrpc.members(raw)
    members.pop("resultType", None)
    return jsonrpc.assemble(members)


def _digest(exchange: Exchange) -> str:
    """What makes a retry a retry of the same call: its method and everything that its client asks for. What
    the chain makes of that may be another thing each time: where a file goes, or what a webhook adds."""
    members = jsonrpc.members(exchange.asked_for)
    for name in _NOT_PART_OF_THE_CALL:
        members.pop(name, None)
    read = exchange.read_params()
    item = meta.text(read.name or read.uri)  # the server's own name for it
    canonical = msgspec.json.encode([exchange.method, item, Raw(_canonical(members))])
    return hashlib.sha256(canonical).hexdigest()


def _canonical(members: dict[str, Raw]) -> bytes:
    """The same for the same content, however it is spelled; what our decoder does not take (half a surrogate
    pair, 1e400) has to be spelled in the same way."""
    spelled = jsonrpc.assemble(dict(sorted(members.items())))
    try:
        return msgspec.json.encode(msgspec.json.decode(spelled), order="deterministic")
    except (msgspec.DecodeError, RecursionError):
        return spelled


class _Form(msgspec.Struct):
    properties: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class _Elicitation(msgspec.Struct):
    requested_schema: _Form = msgspec.field(default_factory=_Form, name="requestedSchema")


def _name_question(method: str, params: bytes | Raw, taken: set[str]) -> str:
    """Legacy requests have no name. A form with a single field is named for it; everything else for its
    kind."""
    name = {
        "elicitation/create": "elicitation",
        "sampling/createMessage": "sampling",
        "roots/list": "roots",
    }.get(method, "input")
    if method == "elicitation/create":
        try:
            fields = list(msgspec.json.decode(params, type=_Elicitation).requested_schema.properties)
        except msgspec.DecodeError:
            fields = []
        if len(fields) == 1:
            name = fields[0]
    number = 1
    unique = name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique
