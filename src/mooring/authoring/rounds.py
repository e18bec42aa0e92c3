"""Questions to a modern client: a call is answered with `input_required`, waits, and goes on with the retry.

The handler is suspended where it awaits the answer and runs exactly once. Its client carries a sealed
`requestState` that names the waiting call. If that call is not here any more (another replica answers, the
server was restarted), a handler that may safely run again does so from the start, with the answers that the
state carries; any other call has expired.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from mooring.authoring.calls import Call, Json, Question
from mooring.errors import InvalidParams, RpcError
from mooring.protocol import jsonrpc
from mooring.transports.sealing import Seal, SealBroken

MAX_SUSPENDED: Final = 1_000
"""Suspended calls cost memory while their clients think; a flood of them must stop somewhere."""
TTL_SECONDS: Final = 600.0
_PURPOSE: Final = "mooring.authoring:request-state"
_NOT_PART_OF_THE_CALL: Final = ("inputResponses", "requestState", "_meta")


class Rounds:
    """The calls of one server that wait for their clients."""

    def __init__(
        self, seal: Seal, may_repeat: Callable[[Call], bool], ttl_seconds: float = TTL_SECONDS
    ) -> None:
        self._seal = seal
        self._may_repeat = may_repeat
        self.ttl_seconds = ttl_seconds
        self._suspended: dict[str, tuple[Call, str, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._suspended)

    def ask(self, call: Call, question: Question) -> asyncio.Future[Json]:
        """Put a question to the client of this call; those that are asked at once reach it together."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Json] = loop.create_future()
        name, number = question.key, 1
        while name in call.questions or name in call.given:
            number += 1
            name = f"{question.key}-{number}"
        ready = call.answers.pop(name, None)
        if isinstance(ready, dict):
            call.given[name] = ready
            future.set_result(cast("Json", ready))
            return future
        call.questions[name] = (question, future)
        future.add_done_callback(lambda _: call.questions.pop(name, None))
        loop.call_soon(self._suspend, call)
        return future

    def _suspend(self, call: Call) -> None:
        sink = call.sink
        if sink is None or not call.questions:
            return
        if len(self._suspended) >= MAX_SUSPENDED:
            _fail(call, RpcError("too many calls wait for their clients; try again later"))
            return
        identifier, nonce = call.parked or secrets.token_hex(12), secrets.token_hex(8)
        call.parked = identifier
        state: Json = {"call": identifier, "nonce": nonce, "digest": _digest(call)}
        if self._may_repeat(call):
            state["given"] = call.given
        timer = asyncio.get_running_loop().call_later(self.ttl_seconds, self._expire, identifier)
        self._suspended[identifier] = (call, nonce, timer)
        result = {
            "resultType": "input_required",
            "inputRequests": {
                name: {"method": question.method, "params": question.params}
                for name, (question, _) in call.questions.items()
            },
            "requestState": self._seal.wrap(_PURPOSE, state, ttl_seconds=self.ttl_seconds),
        }
        call.sink = None
        call.leave()
        sink.answer(jsonrpc.result(call.id, msgspec.json.encode(result)))

    def resume(self, retry: Call) -> Call | None:
        """The call that goes on with this request; it is the request itself where it has to start anew.

        None: the call is gone, and must not be repeated.
        """
        state = self._open(retry)
        suspended = self._suspended.get(state["call"])
        if suspended is None or suspended[1] != state["nonce"]:
            if not self._may_repeat(retry):
                return None
            retry.answers = {**state.get("given", {}), **_responses(retry)}
            return retry
        call, _, timer = self._suspended.pop(state["call"])
        timer.cancel()
        call.peer, call.id, call.sink, call.params = retry.peer, retry.id, retry.sink, retry.params
        call.running, call.key, call.headers = retry.running, retry.key, retry.headers
        call.say_what_was_kept()
        responses = _responses(retry)
        for name, (_, future) in list(call.questions.items()):
            answer = responses.get(name)
            if isinstance(answer, dict) and not future.done():
                call.given[name] = answer
                del call.questions[name]
                future.set_result(cast("Json", answer))
        if call.questions:
            asyncio.get_running_loop().call_soon(self._suspend, call)
        return call

    def volunteer(self, call: Call) -> None:
        """A client may send answers before it was asked; it knows the questions from an earlier call."""
        call.answers = _responses(call)

    def _expire(self, identifier: str) -> None:
        suspended = self._suspended.pop(identifier, None)
        if suspended is not None:
            suspended[0].cancel()

    def close(self) -> None:
        for call, _, timer in list(self._suspended.values()):
            timer.cancel()
            call.cancel()
        self._suspended.clear()

    def _open(self, retry: Call) -> Json:
        text = retry.params.get("requestState")
        try:
            state = self._seal.unwrap(_PURPOSE, text if isinstance(text, str) else "")
        except SealBroken as error:
            raise InvalidParams(f"`requestState` cannot be used: {error}; call again without it") from None
        if state["digest"] != _digest(retry):
            raise InvalidParams("`requestState` belongs to another request")
        return state


def _responses(call: Call) -> Json:
    given = call.params.get("inputResponses")
    return dict(cast("Json", given)) if isinstance(given, dict) else {}


def _fail(call: Call, error: RpcError) -> None:
    for _, future in list(call.questions.values()):
        if not future.done():
            future.set_exception(error)


def _digest(call: Call) -> str:
    """What makes a retry a retry of the same call: its method and everything it asks for."""
    members: dict[str, Any] = {
        name: value for name, value in call.params.items() if name not in _NOT_PART_OF_THE_CALL
    }
    canonical = msgspec.json.encode([call.method, members], order="deterministic")
    return hashlib.sha256(canonical).hexdigest()
