"""Claims about the tasks that the gateway keeps."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from people import Person, Spent, call, mailbox

from mooring.errors import InvalidParams
from mooring.gateway import tasks
from mooring.gateway.exchange import Exchange
from mooring.gateway.interactions import Interactions
from mooring.gateway.tasks import TaskRecord, TaskTable
from mooring.protocol import meta
from mooring.transports.sealing import Seal

pytestmark = pytest.mark.anyio
LIMIT_SECONDS = 5
LEGACY = "2025-11-25"
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"vendor":1.50}}'
FAILURE = b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}'


def table() -> TaskTable:
    return TaskTable(Interactions(Seal(b"k" * 32), 60, Spent()))


def started(kept: TaskTable, version: str = LEGACY, ttl: int | None = None) -> TaskRecord:
    return kept.create(call({"name": "slow"}, client=Person(version=version)), ttl)


def answer(record: TaskRecord, message: bytes) -> None:
    assert record.exchange.sink is not None
    record.exchange.sink.answer(message)


def about(record: TaskRecord, method: str, client: Person | None = None) -> Exchange:
    """A request of the task's own client, unless it is somebody else's."""
    owner = record.exchange.client
    assert isinstance(owner, Person)
    return call({"taskId": record.id}, method=method, request_id=9, client=client or owner)


async def legacy(kept: TaskTable, exchange: Exchange) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_SECONDS):
        given_answer = await kept.answer_legacy(exchange)
    return json.loads(bytes(given_answer.error or given_answer.result))


def modern(kept: TaskTable, record: TaskRecord, method: str = "tasks/get") -> dict[str, Any]:
    return json.loads(bytes(kept.answer_modern(about(record, method, Person())).result))


async def test_a_task_works_until_its_call_is_answered_and_then_has_its_result() -> None:
    kept = table()
    record = started(kept)
    assert (await legacy(kept, about(record, "tasks/get")))["status"] == "working"
    waiting = asyncio.create_task(kept.answer_legacy(about(record, "tasks/result")))
    await asyncio.sleep(0)
    assert not waiting.done()
    answer(record, RESULT)
    async with asyncio.timeout(LIMIT_SECONDS):
        result = json.loads(bytes((await waiting).result))
    assert result == {"content": [], "vendor": 1.5, "_meta": {meta.RELATED_TASK: {"taskId": record.id}}}
    assert (await legacy(kept, about(record, "tasks/get")))["status"] == "completed"


async def test_each_era_reads_a_task_in_its_own_words() -> None:
    kept = table()
    record = started(kept, ttl=60_000)
    old = json.loads(tasks.created_legacy(record))["task"]
    new = json.loads(tasks.created_modern(record))
    assert (old["ttl"], old["pollInterval"]) == (60_000, tasks.POLL_MILLISECONDS)
    assert (new["ttlMs"], new["pollIntervalMs"], new["resultType"]) == (
        60_000,
        tasks.POLL_MILLISECONDS,
        "task",
    )
    assert old["taskId"] == new["taskId"]
    assert old["createdAt"].endswith("Z")


async def test_a_modern_client_finds_result_or_error_in_the_task_itself() -> None:
    kept = table()
    good, bad = started(kept, "2026-07-28"), started(kept, "2026-07-28")
    assert modern(kept, good)["status"] == "working"
    answer(good, RESULT)
    answer(bad, FAILURE)
    done, failed = modern(kept, good), modern(kept, bad)
    assert (done["status"], done["result"]) == ("completed", {"content": [], "vendor": 1.5})
    assert (failed["status"], failed["error"]) == ("failed", {"code": -5, "message": "no"})
    assert "error" not in done
    assert "result" not in failed


async def test_a_failed_task_gives_its_error_to_a_legacy_client() -> None:
    kept = table()
    record = started(kept)
    answer(record, FAILURE)
    assert await legacy(kept, about(record, "tasks/result")) == {"code": -5, "message": "no"}


async def test_a_cancelled_task_stays_cancelled_whatever_its_server_says_later() -> None:
    kept = table()
    record = started(kept)
    assert (await legacy(kept, about(record, "tasks/cancel")))["status"] == "cancelled"
    answer(record, RESULT)
    assert (await legacy(kept, about(record, "tasks/get")))["status"] == "cancelled"
    for method, words in (("tasks/result", "was cancelled"), ("tasks/cancel", "already ended")):
        with pytest.raises(InvalidParams, match=words):
            await legacy(kept, about(record, method))
    other = started(kept, "2026-07-28")
    assert modern(kept, other, "tasks/cancel") == {"resultType": "complete"}
    assert modern(kept, other)["status"] == "cancelled"


@pytest.mark.parametrize("stranger", [Person("mallory", LEGACY), Person(version=LEGACY), Person()])
async def test_somebody_elses_task_does_not_exist(stranger: Person) -> None:
    """Nor does that of another anonymous session, or of the other era."""
    kept = table()
    record = started(kept)
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        with pytest.raises(InvalidParams, match="no such task"):
            await legacy(kept, about(record, method, stranger))
    assert await legacy(kept, call({}, method="tasks/list", client=stranger)) == {"tasks": []}
    listed = await legacy(kept, about(record, "tasks/list"))
    assert [task["taskId"] for task in listed["tasks"]] == [record.id]
    for nonsense in (None, "", "x"):
        with pytest.raises(InvalidParams, match="no such task"):
            kept.find(nonsense, record.exchange.client)


async def test_what_a_task_says_goes_to_whoever_waits_for_it_else_to_its_client() -> None:
    kept = table()
    record = started(kept)
    sink, client = record.exchange.sink, record.exchange.client
    assert sink is not None
    assert isinstance(client, Person)
    sink.emit(b"one")
    waiting_exchange = about(record, "tasks/result")
    waiting = asyncio.create_task(kept.answer_legacy(waiting_exchange))
    await asyncio.sleep(0)
    sink.emit(b"two")
    answer(record, RESULT)
    async with asyncio.timeout(LIMIT_SECONDS):
        await waiting
    assert client.pushed == [b"one"]
    assert mailbox(waiting_exchange).emitted == [b"two"]
    assert record.listener is None


async def test_whoever_still_waits_hears_a_task_when_another_has_given_up_waiting() -> None:
    kept = table()
    record = started(kept)
    exchanges = [about(record, "tasks/result"), about(record, "tasks/result")]
    waiting = [asyncio.create_task(kept.answer_legacy(exchange)) for exchange in exchanges]
    await asyncio.sleep(0)
    for given_up, left in ((1, 0), (0, None)):
        waiting[given_up].cancel()
        await asyncio.gather(waiting[given_up], return_exceptions=True)
        assert record.listener is (None if left is None else exchanges[left].sink)


async def test_another_session_of_the_same_person_is_not_asked_what_it_cannot_answer() -> None:
    """The number of a question means something only in the session that it was asked in."""
    kept = table()
    record = kept.create(call({"name": "slow"}, client=Person("ann", LEGACY)))
    elsewhere = about(record, "tasks/result", Person("ann", LEGACY))
    waiting = asyncio.create_task(kept.answer_legacy(elsewhere))
    await asyncio.sleep(0)
    assert record.exchange.sink is not None
    record.exchange.sink.emit(b"a question")
    answer(record, RESULT)
    async with asyncio.timeout(LIMIT_SECONDS):
        assert not (await waiting).error
    assert mailbox(elsewhere).emitted == []


async def test_a_call_that_becomes_a_task_just_after_it_asked_shows_its_question() -> None:
    interactions = Interactions(Seal(b"k" * 32), 60, Spent())
    kept = TaskTable(interactions)
    exchange = call({"name": "slow"})
    asking = asyncio.create_task(interactions.ask(exchange, "roots/list", b"{}"))
    await asyncio.sleep(0)
    record = kept.create(exchange)
    found = modern(kept, record)
    assert (found["status"], list(found["inputRequests"])) == ("input_required", ["roots"])
    update = call({"taskId": record.id, "inputResponses": {"roots": {"roots": []}}}, method="tasks/update")
    kept.answer_modern(update)
    async with asyncio.timeout(LIMIT_SECONDS):
        assert json.loads(bytes((await asking).result)) == {"roots": []}
    assert modern(kept, record)["status"] == "working"


async def test_finished_tasks_are_forgotten_when_their_time_is_over_and_running_ones_never() -> None:
    kept = table()
    short, running = started(kept, ttl=1000), started(kept, ttl=1)
    answer(short, RESULT)
    kept.sweep(short.ended_at + 0.9)
    assert kept.find(short.id, short.exchange.client) is short
    kept.sweep(short.ended_at + 1.1)
    with pytest.raises(InvalidParams):
        kept.find(short.id, short.exchange.client)
    assert kept.find(running.id, running.exchange.client) is running


async def test_nobody_keeps_a_task_longer_than_we_do() -> None:
    longest = int(tasks.KEPT_SECONDS * 1000)
    assert [started(table(), ttl=ttl).ttl_ms for ttl in (None, 10, longest * 5)] == [longest, 10, longest]


async def test_waiting_for_input_shows_in_the_status() -> None:
    record = started(table())
    assert record.exchange.on_input is not None
    record.exchange.on_input(True)
    assert record.status == "input_required"
    record.exchange.on_input(False)
    assert record.status == "working"
    answer(record, RESULT)
    record.exchange.on_input(True)
    assert record.status == "completed"


params = st.dictionaries(
    st.sampled_from(["name", "arguments", "_meta", "tasks"]), st.integers() | st.text("ab"), max_size=3
)


@given(params, st.none() | st.integers(0, 10**9))
def test_the_wish_for_a_task_is_taken_out_of_the_params_and_nothing_else(
    members: dict[str, Any], ttl: int | None
) -> None:
    raw = json.dumps(members).encode()
    assert tasks.wish_of(raw) is None
    wish = tasks.wish_of(
        json.dumps({**members, "task": {} if ttl is None else {"ttl": ttl, "x": 1}}).encode()
    )
    assert wish is not None
    assert (json.loads(wish[0]), wish[1]) == (members, ttl)


@pytest.mark.parametrize("raw", [b'{"task":5}', b'{"task":null}', b'{"task":{"ttl":"x"}}', b'{"task":[]}'])
def test_a_wish_that_cannot_be_read_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidParams, match="`task` must be an object"):
        tasks.wish_of(raw)


def test_the_word_task_elsewhere_is_no_wish() -> None:
    assert tasks.wish_of(b'{"name":"task","arguments":{"task":{"ttl":1}}}') is None


@pytest.mark.parametrize(
    ("capabilities", "declared"),
    [
        *(
            (b"{}", False),
            (b'{"extensions":{}}', False),
            (b'{"x":{"io.modelcontextprotocol/tasks":{}}}', False),
        ),
        (b'{"extensions":{"io.modelcontextprotocol/tasks":{}}}', True),
    ],
)
def test_a_client_knows_tasks_if_it_declares_the_extension(capabilities: bytes, declared: bool) -> None:
    assert tasks.declares_extension(capabilities) is declared


async def test_what_all_tasks_weigh_together_has_a_limit_and_large_results_come_back_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "MAX_TASK_BYTES", 4_000_000)  # as it is, this would fill a disk
    kept = table()
    text = b"x" * (tasks.MAX_TASK_BYTES // 4)
    large = b'{"jsonrpc":"2.0","id":1,"result":{"content":"%b"}}' % text
    records = [started(kept, ttl=0) for _ in range(4)]
    for record in records[:3]:
        answer(record, large)
    answer(started(kept), RESULT)
    answer(records[3], large)
    with pytest.raises(InvalidParams, match="too many tasks"):
        started(kept)
    found = records[0].answer
    assert found is not None
    assert bytes(found.result) == b'{"content":"%b"}' % text
    kept.sweep(records[3].ended_at + 1)
    assert started(kept)
