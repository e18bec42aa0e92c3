"""Claims about calls that wait for their client's input."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from people import Files, Person, Spent, call, mailbox

from mooring.errors import InvalidParams, TooMuch
from mooring.gateway.exchange import Exchange
from mooring.gateway.interactions import KEPT_MESSAGES, Interactions, SuspendedCall
from mooring.gateway.questions import InputRequired
from mooring.gateway.waiting_room import MAX_CALLS_PER_CALLER
from mooring.transports.sealing import Seal
from mooring.transports.wire import Answer

pytestmark = pytest.mark.anyio
LIMIT_SECONDS = 5
LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}'
CALL = {"name": "book", "arguments": {"a": 1, "b": {"c": [1, 2]}}}
ONE_FIELD = json.dumps(
    {"message": "?", "requestedSchema": {"type": "object", "properties": {"colour": {}}}}
).encode()


def interactions(ttl_seconds: float = 60) -> Interactions:
    return Interactions(Seal(b"k" * 32), ttl_seconds, Spent())


async def asked(
    table: Interactions, exchange: Exchange, *questions: tuple[str, bytes]
) -> list[asyncio.Task[Answer]]:
    """The server asks; returns once the client has been answered with the questions."""
    box = mailbox(exchange)
    tasks = [asyncio.create_task(table.ask(exchange, method, params)) for method, params in questions]
    async with asyncio.timeout(LIMIT_SECONDS):
        await box.answered.wait()
    return tasks


def retry(state: str, responses: dict[str, Any], **more: Any) -> Exchange:
    return call({**CALL, "requestState": state, "inputResponses": responses}, request_id=2, **more)


async def test_a_question_becomes_a_result_and_the_retry_brings_the_answer() -> None:
    table = interactions()
    exchange = call(CALL)
    first = mailbox(exchange)
    (question,) = await asked(table, exchange, ("elicitation/create", ONE_FIELD))
    (message,) = first.answers
    assert message["id"] == 1
    assert message["result"]["resultType"] == "input_required"
    assert message["result"]["inputRequests"] == {
        "colour": {"method": "elicitation/create", "params": json.loads(ONE_FIELD)}
    }
    exchange.emit(LOG)
    again = retry(
        message["result"]["requestState"],
        {"colour": {"resultType": "complete", "action": "accept"}, "unknown": {}},
    )
    assert table.is_suspended_state(again)
    assert table.resume(again) is exchange
    async with asyncio.timeout(LIMIT_SECONDS):
        answer = await question
    assert json.loads(bytes(answer.result)) == {"action": "accept"}
    assert mailbox(exchange).emitted == [LOG]
    assert bytes(exchange.envelope.id) == b"2", "the retry is what the call now answers"


async def test_questions_asked_together_reach_the_client_together_under_different_names() -> None:
    table = interactions()
    exchange = call(CALL)
    first = mailbox(exchange)
    tasks = await asked(
        table,
        exchange,
        ("elicitation/create", b"{}"),
        ("elicitation/create", b"{}"),
        ("sampling/createMessage", b"{}"),
        ("roots/list", b""),
    )
    (message,) = first.answers
    assert set(message["result"]["inputRequests"]) == {"elicitation", "elicitation-2", "sampling", "roots"}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_a_retry_does_not_answer_is_asked_again() -> None:
    table = interactions()
    exchange = call(CALL)
    first = mailbox(exchange)
    tasks = await asked(table, exchange, ("sampling/createMessage", b"{}"), ("roots/list", b"{}"))
    again = retry(first.answers[0]["result"]["requestState"], {"roots": {"roots": []}})
    second = mailbox(again)
    assert table.resume(again) is exchange
    async with asyncio.timeout(LIMIT_SECONDS):
        assert json.loads(bytes((await tasks[1]).result)) == {"roots": []}
        await second.answered.wait()
    assert set(second.answers[0]["result"]["inputRequests"]) == {"sampling"}
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_state_resumes_its_call_once_and_for_nobody_else() -> None:
    table = interactions()
    exchange = call(CALL)
    first = mailbox(exchange)
    (question,) = await asked(table, exchange, ("roots/list", b"{}"))
    state = first.answers[0]["result"]["requestState"]
    for foreign in (
        retry(state, {}, client=Person("mallory")),
        retry(state, {}, server=Files("other")),
        retry(state, {}, method="prompts/get"),
        call({**CALL, "arguments": {"a": 2}, "requestState": state}),
        call({"name": "other", "arguments": CALL["arguments"], "requestState": state}),
        retry(state[:-2] + "AA", {}),
        retry("", {}),
        call({**CALL, "requestState": 5}),
    ):
        with pytest.raises(InvalidParams):
            table.resume(foreign)
    reordered = call(
        {"arguments": {"b": {"c": [1, 2]}, "a": 1}, "_meta": {"x": 1}, "name": "book", "requestState": state}
        | {"inputResponses": {"roots": {}}}
    )
    assert table.resume(reordered) is exchange, "order and metadata do not make it another call"
    assert table.resume(retry(state, {"roots": {}})) is None
    async with asyncio.timeout(LIMIT_SECONDS):
        await question


async def test_a_call_that_waited_too_long_is_cancelled_and_gone() -> None:
    table = interactions()
    exchange = call(CALL)
    first = mailbox(exchange)
    (question,) = await asked(table, exchange, ("roots/list", b"{}"))
    state = first.answers[0]["result"]["requestState"]

    async def whole_call() -> None:
        await question

    exchange.task = asyncio.create_task(whole_call())
    exchange.begun = True
    await asyncio.sleep(0)
    table.expire(0.0)
    assert not exchange.task.cancelling(), "its time has not come"
    table.expire(float("inf"))
    assert table.resume(retry(state, {})) is None
    async with asyncio.timeout(LIMIT_SECONDS):
        await asyncio.wait([exchange.task])
    assert exchange.task.cancelled()


async def test_answers_given_in_advance_spare_the_question() -> None:
    exchange = call({**CALL, "inputResponses": {"colour": {"action": "decline"}}})
    async with asyncio.timeout(LIMIT_SECONDS):
        answer = await interactions().ask(exchange, "elicitation/create", ONE_FIELD)
    assert json.loads(bytes(answer.result)) == {"action": "decline"}
    assert mailbox(exchange).answers == []


async def test_an_answer_given_in_advance_is_for_one_question() -> None:
    """A server that asks again because it did not like the answer must not get the same one for ever."""
    table = interactions()
    exchange = call({**CALL, "inputResponses": {"colour": {"action": "accept"}}})
    await table.ask(exchange, "elicitation/create", ONE_FIELD)
    box = mailbox(exchange)
    (question,) = await asked(table, exchange, ("elicitation/create", ONE_FIELD))
    assert set(box.answers[0]["result"]["inputRequests"]) == {"colour-2"}
    question.cancel()
    await asyncio.gather(question, return_exceptions=True)


@pytest.mark.parametrize("responses", [{"colour": 5}, {"colour": None}, []])
async def test_answers_that_cannot_be_read_are_refused_and_the_call_waits_on(responses: Any) -> None:
    table = interactions()
    exchange = call(CALL)
    first = mailbox(exchange)
    (question,) = await asked(table, exchange, ("elicitation/create", ONE_FIELD))
    state = first.answers[0]["result"]["requestState"]
    with pytest.raises(InvalidParams):
        table.resume(retry(state, responses))
    assert exchange.sink is None, "the request that was refused is not the one to answer"
    assert table.resume(retry(state, {"colour": {"action": "accept"}})) is exchange
    async with asyncio.timeout(LIMIT_SECONDS):
        assert json.loads(bytes((await question).result)) == {"action": "accept"}


def test_what_a_server_says_meanwhile_is_kept_within_limits() -> None:
    parked = SuspendedCall()
    for number in range(KEPT_MESSAGES * 2):
        parked.keep(b"%d" % number)
    assert parked.kept == [b"%d" % number for number in range(KEPT_MESSAGES)]


def sealed(table: Interactions, exchange: Exchange, state: str = "theirs") -> str:
    text = table.seal_state(exchange, InputRequired(request_state=state))
    assert text is not None
    return text


async def test_a_servers_own_state_passes_sealed_and_can_be_used_once() -> None:
    table = interactions()
    state = sealed(table, call(CALL))
    assert "theirs" not in state
    again = retry(state, {})
    assert not table.is_suspended_state(again)
    assert await table.open_state(again) == "theirs"
    with pytest.raises(InvalidParams, match="already used"):
        await table.open_state(retry(state, {}))


async def test_a_servers_own_state_opens_for_its_call_and_principal_only() -> None:
    table = interactions()
    state = sealed(table, call(CALL))
    for foreign in (
        retry(state, {}, client=Person("mallory")),
        retry(state, {}, server=Files("other")),
        retry("made up", {}),
    ):
        with pytest.raises(InvalidParams, match="cannot be used: not a value of ours"):
            await table.open_state(foreign)
    with pytest.raises(InvalidParams, match="another request"):
        await table.open_state(call({"name": "other", "requestState": state}))
    with pytest.raises(InvalidParams, match="expired"):
        await table.open_state(retry(sealed(interactions(-1), call(CALL)), {}))
    assert await table.open_state(retry(state, {})) == "theirs", "refusals do not spend it"


def test_a_server_that_gave_no_state_gets_none() -> None:
    assert interactions().seal_state(call(CALL), InputRequired()) is None


async def begun(exchange: Exchange, table: Interactions, question: asyncio.Future[None]) -> None:
    """What a server does of it that matters here."""
    try:
        await table.ask(exchange, "roots/list", b"{}")
        await question
    finally:
        table.forget(exchange)


@pytest.mark.parametrize("end", ["cancelled", "expired", "answered"])
async def test_a_call_gives_its_place_up_when_it_is_over(end: str) -> None:
    """However it ends; and one that asks again has it still."""
    table = interactions()
    running: list[asyncio.Task[None]] = []
    done = asyncio.get_running_loop().create_future()
    for _ in range(2):
        exchanges = [call(CALL) for _ in range(MAX_CALLS_PER_CALLER)]
        boxes = [mailbox(exchange) for exchange in exchanges]
        for exchange in exchanges:
            exchange.task = asyncio.create_task(begun(exchange, table, done))
            exchange.begun = True
            running.append(exchange.task)
        async with asyncio.timeout(LIMIT_SECONDS):
            for box in boxes:
                await box.answered.wait()
        extra = call(CALL)
        extra.begun = True
        extra.task = asyncio.create_task(begun(extra, table, done))
        with pytest.raises(asyncio.CancelledError):
            await extra.task
        assert isinstance(extra.failure, TooMuch)
        match end:
            case "cancelled":
                for exchange in exchanges:
                    exchange.cancel()
            case "expired":
                table.expire(float("inf"))
            case _:
                for box in boxes:
                    table.resume(retry(box.answers[0]["result"]["requestState"], {"roots": {"roots": []}}))
                done.set_result(None)
        await asyncio.gather(*running, return_exceptions=True)
        running.clear()
        done = asyncio.get_running_loop().create_future()
