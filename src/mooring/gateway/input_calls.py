"""Calls of modern clients that may be answered with questions first, and come back with the answers."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from mooring.errors import URL_ELICITATION_REQUIRED, InvalidParams, MissingCapability
from mooring.gateway.exchange import Exchange
from mooring.gateway.interactions import EXPIRED_TEXT, Interactions
from mooring.gateway.questions import InputRequired, input_required
from mooring.protocol import jsonrpc, meta
from mooring.transports.wire import Answer


class Upstream(Protocol):
    """Where a call goes."""

    async def call(self, exchange: Exchange) -> Answer: ...


class InputCalls:
    """The part of a server that knows what was asked, of whom, and on behalf of which call."""

    def __init__(self, upstream: Upstream, interactions: Interactions) -> None:
        self._upstream = upstream
        self._interactions = interactions

    async def call(self, exchange: Exchange) -> Answer | None:
        """A request that its server may answer with questions first."""
        if exchange.read_params().request_state:
            if self._interactions.is_suspended_state(exchange):
                return self._resume(exchange)
            await self._restore_state(exchange)
        answer = await self._upstream.call(exchange)
        if answer.error:
            return self._as_url_elicitation(exchange, answer) or answer
        wanted = input_required(answer.result) if answer.relay is None and answer.kept is None else None
        return answer if wanted is None else self._checked_input(exchange, answer, wanted)

    def _resume(self, exchange: Exchange) -> Answer | None:
        """The waiting call answers on this request's sink; this exchange itself has nothing more to do."""
        sink = exchange.sink
        resumed = self._interactions.resume(exchange)
        if resumed is None:
            return _expired(exchange)
        if isinstance(resumed, Answer):
            return resumed
        exchange.sink = None
        resumed.key = jsonrpc.id_key(resumed.envelope.id)
        exchange.client.running[resumed.key] = resumed
        if sink is not None:
            sink.bind(resumed)
        return None

    async def _restore_state(self, exchange: Exchange) -> None:
        """Give a modern server its own state back, in place of the sealed one that the client had."""
        state = msgspec.json.encode(await self._interactions.open_state(exchange))
        exchange.set_params(meta.with_member(exchange.envelope.params, "requestState", state))

    def _checked_input(self, exchange: Exchange, answer: Answer, wanted: InputRequired) -> Answer:
        """Never ask a client for what it did not declare; never let a server's state out unsealed."""
        for question in wanted.input_requests.values():
            if not exchange.client.can(question.method, question.params):
                capability = question.method.split("/")[0]
                raise MissingCapability(
                    f"the server needs `{question.method}`, which this request did not declare",
                    data={"requiredCapabilities": {capability: {}}},
                )
        sealed = self._interactions.seal_state(exchange, wanted)
        if sealed is None:
            return answer
        result = meta.with_member(answer.result, "requestState", msgspec.json.encode(sealed))
        return Answer(version=answer.version, result=result)

    def _as_url_elicitation(self, exchange: Exchange, answer: Answer) -> Answer | None:
        """2025-11-25 asks for a URL to be visited with an error (-32042), 2026-07-28 with questions; who
        cannot be asked is told the address: the error does not exist any more."""
        if answer.version == exchange.client.version:
            return None
        try:
            error = msgspec.json.decode(answer.error, type=_UrlElicitationRequired)
        except msgspec.DecodeError:
            return None
        if error.code != URL_ELICITATION_REQUIRED:
            return None
        questions: dict[str, Any] = {}
        for number, elicitation in enumerate(error.data.elicitations, 1):
            kept = {name: value for name, value in elicitation.items() if name != "elicitationId"}
            questions[f"url-{number}"] = {"method": "elicitation/create", "params": kept}
        if not questions:
            return None
        if not exchange.client.can("elicitation/create", b'{"mode":"url","url":""}'):
            return _told(exchange, error)
        result = {"resultType": "input_required", "inputRequests": questions}
        return Answer(version=exchange.client.version, result=msgspec.json.encode(result))


class _UrlElicitations(msgspec.Struct):
    elicitations: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])


class _UrlElicitationRequired(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: _UrlElicitations = msgspec.field(default_factory=_UrlElicitations)


def _told(exchange: Exchange, error: _UrlElicitationRequired) -> Answer:
    wanted = [f"{one.get('message', '')} {one.get('url', '')}".strip() for one in error.data.elicitations]
    return _failed(exchange, "\n".join((error.message, *wanted)))


def _expired(exchange: Exchange) -> Answer:
    return _failed(exchange, EXPIRED_TEXT)


def _failed(exchange: Exchange, text: str) -> Answer:
    if exchange.method != "tools/call":
        raise InvalidParams(text)
    result = {"resultType": "complete", "isError": True, "content": [{"type": "text", "text": text}]}
    return Answer(version=exchange.client.version, result=msgspec.json.encode(result))
