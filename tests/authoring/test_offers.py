"""Resources, templates, prompts and completions; changes, and who hears of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Literal

import pytest
from tests.authoring.talking import talking

from mooring.authoring import Contents, Context, Message, NotFound, Server
from mooring.authoring.items import BadDefinition
from mooring.authoring.uri_template import BadTemplate, UriTemplate

pytestmark = pytest.mark.anyio
ERAS = ["2025-11-25", "2026-07-28"]


def library() -> Server:
    server = Server("library")

    @server.resource("book://index", mime_type="application/json")
    def index() -> list[str]:
        """All books."""
        return ["1", "2"]

    @server.resource_template("book://{isbn}/{chapter}{?language}")
    async def chapter(isbn: str, chapter: int, language: Literal["en", "fr"] = "en") -> str:
        """One chapter."""
        if isbn == "none":
            raise NotFound("no such book")
        return f"{isbn} {chapter * 2} {language}"

    @server.resource_template("file:///{+path}")
    def file(path: str, ctx: Context) -> list[Contents]:
        ctx.result_meta["seen/by"] = ctx.version
        return [Contents(f"file:///{path}", b"\0", "x/y"), Contents("file:///other", "text")]

    @server.prompt
    def review(title: str, due: date, tone: Literal["kind", "stern"] = "kind") -> list[Message | str]:
        """Review a book.

        Args:
            title: Its title
        """
        return [f"Review {title} by {due:%d.%m.%Y}, {tone}", Message("Of course.", "assistant")]

    @server.completion(review, "title")
    async def titles(value: str, others: dict[str, str]) -> list[str]:
        return [f"{value}{number} {others.get('tone', '')}" for number in range(150)]

    return server


@pytest.mark.parametrize("version", ERAS)
async def test_resources_are_read_by_uri_and_by_template(version: str) -> None:
    async with talking(library(), version) as client:

        async def read(uri: str) -> Any:
            return await client.ask("resources/read", uri=uri)

        found = await read("book://index")
        assert found["contents"] == [
            {"uri": "book://index", "mimeType": "application/json", "text": '["1","2"]'}
        ]
        assert (await read("book://978%2F1/4?language=fr"))["contents"][0]["text"] == "978/1 8 fr"
        two = await read("file:///a/b.txt")
        assert two["contents"][0] == {"uri": "file:///a/b.txt", "mimeType": "x/y", "blob": "AA=="}
        assert two["_meta"]["seen/by"] == version
        missing = -32602 if version == "2026-07-28" else -32002
        assert (await read("book://none/1"))["code"] == missing
        assert (await read("nothing://"))["code"] == missing
        assert "must be an integer" in (await read("book://1/x"))["message"]


async def test_prompts_take_text_and_give_messages() -> None:
    async with talking(library()) as client:
        listed = (await client.ask("prompts/list"))["prompts"][0]
        assert listed["arguments"] == [
            {"name": "title", "description": "Its title", "required": True},
            {"name": "due", "required": True},
            {"name": "tone", "required": False},
        ]
        arguments = {"title": "Moby-Dick", "due": "2026-07-28"}
        got = await client.ask("prompts/get", name="review", arguments=arguments)
        assert [message["role"] for message in got["messages"]] == ["user", "assistant"]
        assert got["messages"][0]["content"]["text"] == "Review Moby-Dick by 28.07.2026, kind"
        wrong = await client.ask("prompts/get", name="review", arguments={**arguments, "tone": "rude"})
        assert wrong["code"] == -32602
        assert "`tone` must be one of" in wrong["message"]


async def test_completions_come_from_a_function_or_from_the_choices() -> None:
    async with talking(library()) as client:

        async def complete(ref: dict[str, str], name: str, value: str) -> Any:
            argument = {"name": name, "value": value}
            context = {"arguments": {"tone": "stern"}}
            answer = await client.ask("completion/complete", ref=ref, argument=argument, context=context)
            return answer.get("completion", answer)

        prompt = {"type": "ref/prompt", "name": "review"}
        found = await complete(prompt, "title", "x")
        assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 150, True)
        assert found["values"][0] == "x0 stern"
        assert (await complete(prompt, "tone", "S"))["values"] == ["stern"]
        template = {"type": "ref/resource", "uri": "book://{isbn}/{chapter}{?language}"}
        assert (await complete(template, "language", ""))["values"] == ["en", "fr"]
        assert (await complete({"type": "ref/prompt", "name": "no"}, "a", ""))["code"] == -32602


async def test_legacy_clients_hear_of_changes() -> None:
    server = library()
    async with talking(server) as client:
        server.tool(name="new")(lambda: None)
        server.tool(name="newer")(lambda: None)
        await client.notification("notifications/tools/list_changed")
        assert len((await client.ask("tools/list"))["tools"]) == 2
        assert client.heard == []  # two changes in one turn are one announcement
        server.remove_prompt("review")
        await client.notification("notifications/prompts/list_changed")
        assert not server.is_watched("book://index")
        await client.ask("resources/subscribe", uri="book://index")
        assert server.is_watched("book://index")
        await asyncio.to_thread(server.resource_updated, "book://other")
        await asyncio.to_thread(server.resource_updated, "book://index")
        assert await client.notification("notifications/resources/updated") == {"uri": "book://index"}
        await client.ask("resources/unsubscribe", uri="book://index")
        server.resource_updated("book://index")
        await client.ask("ping")
        assert client.heard == []
        assert (await client.ask("resources/subscribe", uri="nothing://"))["code"] == -32002
        for number in range(1_000):
            await client.ask("resources/subscribe", uri=f"file:///{number}")
        assert (await client.ask("resources/subscribe", uri="file:///more"))["code"] == -32600


async def test_modern_clients_listen_to_what_they_asked_for() -> None:
    server = library()
    async with talking(server, "2026-07-28") as client:
        wish = {
            "promptsListChanged": True,
            "toolsListChanged": True,
            "resourceSubscriptions": ["book://index", "no://"],
        }
        number = client.begin("subscriptions/listen", notifications=wish)
        granted = await client.notification("notifications/subscriptions/acknowledged")
        assert granted["notifications"] == {
            "promptsListChanged": True,
            "resourceSubscriptions": ["book://index"],
        }
        server.resource_updated("book://index")
        server.remove_resource("book://index")
        updated = await client.notification("notifications/resources/updated")
        assert updated == {"_meta": {"io.modelcontextprotocol/subscriptionId": number}, "uri": "book://index"}
        await client.ask("tools/list")
        assert client.heard == []
        client.cancel(number)
        server.remove_prompt("review")
        await client.ask("tools/list")
        assert client.heard == []


@pytest.mark.parametrize("version", ERAS)
async def test_methods_of_the_other_era_do_not_exist(version: str) -> None:
    async with talking(library(), version) as client:
        modern = version == "2026-07-28"
        for method in ("ping", "logging/setLevel") if modern else ("server/discover", "subscriptions/listen"):
            assert (await client.ask(method))["code"] == -32601


async def test_an_id_is_free_again_as_soon_as_its_answer_is_there() -> None:
    async with talking(library()) as client:
        for _ in range(3):
            client.say({"id": "same", "method": "resources/read", "params": {"uri": "file:///a"}})
            answer = await client.until(lambda message: message.get("id") == "same")
            assert "result" in answer
        client.say({"id": "same", "method": "resources/read", "params": {"uri": "file:///a"}})
        client.say({"id": "same", "method": "resources/read", "params": {"uri": "file:///a"}})
        answer = await client.until(lambda message: message.get("id") == "same")
        assert answer["error"]["code"] == -32600


async def test_a_lifespan_wraps_the_run_and_gives_handlers_their_state() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        steps.append("open")
        yield f"state of {server.name}"
        steps.append("closed")

    server = Server("s", lifespan=lifespan)

    @server.tool
    def state(ctx: Context) -> str:
        return ctx.state

    async with talking(server) as client:
        assert await client.call_text("state") == "state of s"
    assert steps == ["open", "closed"]


def test_what_cannot_be_a_resource_is_refused_when_it_is_defined() -> None:
    server = library()
    with pytest.raises(BadDefinition, match="use `resource_template`"):
        server.resource("a://{b}", name="x")(lambda: "")
    with pytest.raises(BadDefinition, match="has no such parameter"):
        server.resource_template("a://{b}", name="x")(lambda: "")
    with pytest.raises(BadDefinition, match="may not have"):
        server.resource_template("a://{b}{?c}", name="x")(lambda b, c: "")
    with pytest.raises(BadDefinition, match="neither a prompt"):
        server.completion("nothing", "a")(lambda value: [])


@pytest.mark.parametrize(
    "template", ["a://{b", "a://{b}{b}", "a://{?b}/c", "a://{;b}", "a://{b,c}", "a://b}"]
)
def test_a_template_that_cannot_be_read_backwards_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        UriTemplate(template)


def test_a_template_matches_whole_uris_only() -> None:
    template = UriTemplate("a://{b}/c{?d,e}")
    assert template.match("a://x%20y/c?e=1&d=&z=3") == {"b": "x y", "d": "", "e": "1"}
    assert template.match("a://x/y/c") is None
    assert template.match("a://x/c/d") is None
