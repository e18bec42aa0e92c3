"""What a handler can do while it runs: be cancelled, report, log, ask; in both eras, from threads and not."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.authoring.talking import LIMIT_SECONDS, Conversation, talking

from mooring.authoring import ClientCannot, Context, Server
from mooring.authoring.cancellation import Threads

pytestmark = pytest.mark.anyio
ERAS = ["2025-11-25", "2026-07-28"]
ALL = {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}


@dataclass
class Person:
    name: str
    size: Literal["s", "m", "l"] = "m"
    age: int | None = None


def interactive_server() -> Server:
    server = Server("s")
    server.runs = 0  # pyright: ignore[reportAttributeAccessIssue]

    @server.tool
    async def register(ctx: Context) -> str:
        server.runs += 1  # pyright: ignore[reportAttributeAccessIssue]
        answer = await ctx.elicit("Who are you?", Person)
        if not answer.content:
            return answer.action
        model = await ctx.sample(f"greet {answer.content.name}", max_tokens=10)
        return f"{answer.content} {model.text}"

    @server.tool
    def register_in_thread(ctx: Context) -> str:
        answer = ctx.elicit("Who are you?", Person).wait()
        roots = ctx.roots().wait()
        return f"{answer.content} {[root.uri for root in roots]}"

    @server.tool
    async def all_at_once(ctx: Context) -> str:
        person, model, roots = await asyncio.gather(
            ctx.elicit("Who?", Person, key="who"), ctx.sample("hi", key="model"), ctx.roots()
        )
        return f"{person.action} {model.text} {len(roots)}"

    @server.tool
    async def pay(ctx: Context) -> str:
        return (await ctx.elicit_url("Pay here.", "https://pay.example/1")).action

    @server.tool
    async def would_rather(ctx: Context) -> str:
        try:
            await ctx.elicit("Who?", Person)
        except ClientCannot:
            return "never mind"
        return "asked"

    return server


def reply_to(question: dict[str, Any]) -> dict[str, Any]:
    match question["method"]:
        case "elicitation/create" if question["params"].get("mode") == "url":
            assert question["params"]["url"] == "https://pay.example/1"
            return {"action": "accept"}
        case "elicitation/create":
            assert question["params"]["requestedSchema"]["properties"]["size"]["enum"] == ["s", "m", "l"]
            return {"action": "accept", "content": {"name": "Ada", "size": "l"}}
        case "sampling/createMessage":
            return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}
        case _:
            return {"roots": [{"uri": "file:///a"}]}


async def play(client: Conversation, name: str) -> tuple[str, int]:
    """Call a tool and answer whatever it asks, as a client of the era does; its text, and how many rounds."""
    rounds = 0
    number = client.begin("tools/call", name=name, arguments={})
    while True:
        message = await client.until(lambda each: "id" in each)
        result = message.get("result", {})
        if "method" in message:
            rounds += 1
            client.say({"id": message["id"], "result": reply_to(message)})
        elif result.get("resultType") == "input_required":
            rounds += 1
            assert message["id"] == number
            answers = {key: reply_to(question) for key, question in result["inputRequests"].items()}
            state = result["requestState"]
            number = client.begin(
                "tools/call", name=name, arguments={}, inputResponses=answers, requestState=state
            )
        else:
            assert message["id"] == number
            return result["content"][0]["text"], rounds


@pytest.mark.parametrize("version", ERAS)
async def test_questions_read_as_a_plain_await_in_both_eras(version: str) -> None:
    server = interactive_server()
    async with talking(server, version, ALL) as client:
        assert await play(client, "register") == ("Person(name='Ada', size='l', age=None) hello", 2)
        assert server.runs == 1  # pyright: ignore[reportAttributeAccessIssue]
        assert (await play(client, "register_in_thread"))[0].endswith("['file:///a']")
        text, rounds = await play(client, "all_at_once")
        assert text == "accept hello 1"
        assert rounds == (1 if version == "2026-07-28" else 3)


@pytest.mark.parametrize("version", ERAS)
async def test_a_person_is_sent_to_a_page_if_the_client_can_show_one(version: str) -> None:
    async with talking(interactive_server(), version, {"elicitation": {"url": {}}}) as client:
        assert await play(client, "pay") == ("accept", 1)
    async with talking(interactive_server(), version, {"elicitation": {}}) as client:
        outcome = await client.call("pay")
        assert outcome.get("code") == -32021 or outcome["isError"], "a form is all that it can show"


@pytest.mark.parametrize("version", ERAS)
async def test_a_client_that_cannot_be_asked_is_not_asked(version: str) -> None:
    async with talking(interactive_server(), version) as client:
        assert await client.call_text("would_rather") == "never mind"
        outcome = await client.call("register")
        if version == "2026-07-28":
            assert outcome["code"] == -32021
            assert outcome["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        else:
            assert outcome["isError"]
            assert "elicitation" in outcome["content"][0]["text"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"action": "decline"}, "decline"),
        ({"action": "accept", "content": {"name": 3}}, "`name` must be a string"),
        ({"nonsense": 1}, "no `action`"),
    ],
)
@pytest.mark.parametrize("version", ERAS)
async def test_what_the_client_answers_is_checked(
    version: str, answer: dict[str, Any], expected: str
) -> None:
    async with talking(interactive_server(), version, ALL) as client:
        number = client.begin("tools/call", name="register", arguments={})
        if version == "2026-07-28":
            result = (await client.answer(number))["result"]
            (key,) = result["inputRequests"]
            result = await client.ask(
                "tools/call",
                name="register",
                arguments={},
                inputResponses={key: answer},
                requestState=result["requestState"],
            )
        else:
            client.say({"id": (await client.question())["id"], "result": answer})
            result = (await client.answer(number))["result"]
        assert expected in result["content"][0]["text"]


async def test_a_refusal_by_the_client_fails_the_call() -> None:
    async with talking(interactive_server(), "2025-11-25", ALL) as client:
        number = client.begin("tools/call", name="register", arguments={})
        question = await client.question()
        client.say({"id": question["id"], "error": {"code": -1, "message": "not now"}})
        result = (await client.answer(number))["result"]
        assert result["isError"]
        assert "not now" in result["content"][0]["text"]


async def test_a_state_is_good_for_its_own_call_only_and_only_as_it_is() -> None:
    async with talking(interactive_server(), "2026-07-28", ALL) as client:
        call = {"name": "register", "arguments": {}}
        first = await client.ask("tools/call", **call)
        state = first["requestState"]
        forged = state[:-1] + ("A" if state[-1] != "A" else "B")
        for wrong in ({**call, "requestState": forged}, {"name": "all_at_once", "requestState": state}):
            assert (await client.ask("tools/call", **wrong))["code"] == -32602
        again = await client.ask("tools/call", **call, requestState=state)
        assert again["inputRequests"] == first["inputRequests"]
        assert again["requestState"] != state
        used = await client.ask("tools/call", **call, requestState=state)
        assert used["isError"]
        assert "expired" in used["content"][0]["text"]


def stateful_server(*, read_only: bool) -> Server:
    server = Server("s", state_key=b"shared")

    @server.tool(read_only=read_only)
    async def ask_twice(ctx: Context) -> str:
        first = await ctx.elicit("First?", Person, key="first")
        second = await ctx.elicit("Second?", Person, key="second")
        return f"{first.content} {second.content}"

    return server


@pytest.mark.parametrize("read_only", [True, False])
async def test_another_replica_goes_on_with_what_may_run_again(read_only: bool) -> None:
    call = {"name": "ask_twice", "arguments": {}}
    async with talking(stateful_server(read_only=read_only), "2026-07-28", ALL) as one:
        asked = await one.ask("tools/call", **call)
        given = {"first": {"action": "accept", "content": {"name": "A"}}}
        asked = await one.ask("tools/call", **call, inputResponses=given, requestState=asked["requestState"])
        async with talking(stateful_server(read_only=read_only), "2026-07-28", ALL) as other:
            given = {"second": {"action": "accept", "content": {"name": "B"}}}
            result = await other.ask(
                "tools/call", **call, inputResponses=given, requestState=asked["requestState"]
            )
    assert result.get("isError", False) is not read_only
    assert ("name='A'" in str(result) and "name='B'" in str(result)) is read_only


# Cancelling


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *((version, kind) for version in ERAS for kind in ("coroutine", "thread")),
        ("2025-11-25", "asking thread"),  # a modern one is not running: it waits for a retry
    ],
)
async def test_a_cancel_really_cancels(version: str, kind: str) -> None:
    server = Server("s")
    started, ended = threading.Event(), threading.Event()

    @server.tool
    async def wait_in_coroutine() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    @server.tool
    def wait_in_thread(ctx: Context) -> None:
        started.set()
        try:
            ctx.sleep(60)
        finally:
            ended.set()

    @server.tool
    def wait_in_asking_thread(ctx: Context) -> None:
        started.set()
        try:
            ctx.elicit("Who?", Person).wait()
        finally:
            ended.set()

    async with talking(server, version, ALL) as client:
        number = client.begin("tools/call", name=f"wait_in_{kind.replace(' ', '_')}", arguments={})
        await asyncio.to_thread(started.wait, LIMIT_SECONDS)
        if kind == "asking thread":
            question = await client.question()
        client.cancel(number)
        assert await asyncio.to_thread(ended.wait, LIMIT_SECONDS)
        assert (await client.ask("tools/list"))["tools"]
        assert not [message for message in client.heard if message.get("id") == number]
        if kind == "asking thread":
            cancelled = await client.notification("notifications/cancelled")
            assert cancelled == {"requestId": question["id"]}


async def test_a_call_whose_client_never_comes_back_is_cancelled() -> None:
    server = Server("s")
    ended = asyncio.Event()
    server._engine.rounds.ttl_seconds = 0.05

    @server.tool
    async def ask(ctx: Context) -> None:
        try:
            await ctx.elicit("Who?", Person)
        finally:
            ended.set()

    async with talking(server, "2026-07-28", ALL) as client:
        assert (await client.call("ask"))["resultType"] == "input_required"
        await asyncio.wait_for(ended.wait(), LIMIT_SECONDS)
        assert len(server._engine.rounds) == 0


async def test_a_call_that_waited_for_a_thread_in_vain_never_runs() -> None:
    server = Server("s")
    release, ran = threading.Event(), threading.Event()
    threads = server._engine.methods.threads = Threads(1)

    @server.tool
    def block() -> None:
        release.wait(LIMIT_SECONDS)

    @server.tool
    def run() -> None:
        ran.set()

    async with talking(server) as client:
        blocking = client.begin("tools/call", name="block")
        waiting = client.begin("tools/call", name="run")
        while threads.unfinished < 2:  # noqa: ASYNC110 - there is nobody to tell us
            await asyncio.sleep(0)
        client.cancel(waiting)
        await client.ask("ping")
        release.set()
        await client.answer(blocking)
        assert not (await client.call("block")).get("isError")
        assert not ran.is_set()


async def test_a_thread_in_a_loop_of_progress_is_stopped_by_it() -> None:
    server = Server("s")
    ended = threading.Event()

    @server.tool
    def endless(ctx: Context) -> None:
        try:
            for step in range(10_000_000):
                ctx.progress(step)
        finally:
            ended.set()

    async with talking(server) as client:
        number = client.begin("tools/call", name="endless", _meta={"progressToken": 7})
        await client.notification("notifications/progress")
        client.cancel(number)
        assert await asyncio.to_thread(ended.wait, LIMIT_SECONDS)


# Telling


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("threaded", [True, False])
async def test_progress_grows_and_belongs_to_its_call(version: str, threaded: bool) -> None:
    server = Server("s")

    @server.tool(thread=threaded)
    def count(ctx: Context) -> str:
        for step in (1, 2, 2, 1, 3):
            ctx.progress(step, 3, f"step {step}")
        return "done"

    async with talking(server, version) as client:
        number = client.begin("tools/call", name="count", _meta={"progressToken": "t"})
        await client.answer(number)
        told = [message["params"] for message in client.heard]
        assert [each["progress"] for each in told] == [1, 2, 3]
        assert told[0] == {"progressToken": "t", "progress": 1, "total": 3, "message": "step 1"}
        client.heard.clear()
        await client.call("count")
        assert client.heard == []


@pytest.mark.parametrize("version", ERAS)
async def test_log_lines_reach_those_who_want_them(version: str) -> None:
    server = Server("s")

    @server.tool
    async def talk(ctx: Context) -> None:
        await ctx.debug("small")
        await ctx.log("warning", {"big": 1}, logger="here")

    async with talking(server, version) as client:
        if version == "2026-07-28":
            await client.call("talk")
            assert client.heard == []
            client.meta = {"io.modelcontextprotocol/logLevel": "warning"}
        else:
            assert await client.ask("logging/setLevel", level="warning") == {}
            assert (await client.ask("logging/setLevel", level="loud"))["code"] == -32602
        await client.call("talk")
        (line,) = client.heard
        assert line["params"] == {"level": "warning", "data": {"big": 1}, "logger": "here"}


@pytest.mark.parametrize("threaded", [True, False])
async def test_a_log_line_never_costs_the_call(threaded: bool) -> None:
    server = Server("s")

    @server.tool(thread=threaded)
    def talk(ctx: Context) -> str:
        ctx.info(Path("a/b"))
        ctx.warning(ValueError("too late"))
        ctx.error({"person": Person("Ada"), "of": object})
        return "done"

    async with talking(server) as client:
        assert await client.call_text("talk") == "done"
        told = [line["params"]["data"] for line in client.heard]
        assert told[:2] == ["a/b", "too late"]
        assert "Ada" in told[2]


async def test_a_handler_sees_who_asks() -> None:
    server = Server("s")

    @server.tool
    def who(ctx: Context) -> dict[str, Any]:
        return {"version": ctx.version, "client": ctx.client_info, "meta": ctx.meta, "state": ctx.state}

    async with talking(server) as client:
        seen = (await client.ask("tools/call", name="who", _meta={"trace/id": 5}))["structuredContent"]
        assert seen["version"] == "2025-11-25"
        assert seen["client"]["name"] == "test"
        assert seen["meta"] == {"trace/id": 5}
