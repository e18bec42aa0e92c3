"""A typed function as a tool: its definition, its arguments, its result, its failures; in every revision."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema_rs
import pydantic
import pytest
from tests.authoring.samples import Node, Point
from tests.authoring.talking import talking

from mooring.authoring import (
    Annotations,
    Audio,
    Check,
    Contents,
    Context,
    Embedded,
    Image,
    Link,
    Result,
    Server,
    Text,
    ToolError,
    tool,
)
from mooring.authoring.hints import Undescribable
from mooring.authoring.items import BadDefinition

pytestmark = pytest.mark.anyio
LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
REVISIONS = [*LEGACY, "2026-07-28"]


def definition(server: Server, version: str = "2026-07-28") -> dict[str, Any]:
    return server.definitions(version=version)["tools"][0]


def test_name_description_schema_and_hints_come_from_the_function() -> None:
    server = Server("s")

    @server.tool(read_only=True, title="Search")
    def search_issues(
        project: str, jql: str, max_results: int = 50, state: Literal["open", "any"] = "any"
    ) -> str:
        """Search issues using JQL.

        Waits for the index.

        Args:
            project: Project key, e.g. "PROJ"
            jql: The query
            max_results: Maximum number of results
        """
        return f"{project} {jql} {max_results} {state}"

    assert definition(server) == {
        "name": "search_issues",
        "title": "Search",
        "description": "Search issues using JQL.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "project": {"type": "string", "description": 'Project key, e.g. "PROJ"'},
                "jql": {"type": "string", "description": "The query"},
                "max_results": {
                    "type": "integer",
                    "description": "Maximum number of results",
                    "default": 50,
                },
                "state": {"type": "string", "enum": ["open", "any"], "default": "any"},
            },
            "required": ["project", "jql"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }


def test_the_whole_docstring_is_the_description_by_choice() -> None:
    server = Server("s")

    @server.tool(describe="whole", name="other")
    def function(a: int) -> None:
        """Summary.

        And more.

        :param a: A number
        """

    assert definition(server)["description"] == "Summary.\n\nAnd more."
    assert definition(server)["name"] == "other"


def test_older_revisions_see_no_more_than_they_know() -> None:
    server = Server("s")

    @server.tool(title="T", read_only=True, icons=[{"src": "https://example.com/i.png"}], meta={"a/b": 1})
    def numbers() -> list[int]:
        return [1]

    keys = {version: set(definition(server, version)) for version in REVISIONS}
    assert keys["2024-11-05"] == {"name", "inputSchema"}
    assert keys["2025-03-26"] == keys["2024-11-05"] | {"annotations"}
    assert keys["2025-06-18"] == keys["2025-03-26"] | {"title", "outputSchema", "_meta"}
    assert keys["2025-11-25"] == keys["2025-06-18"] | {"icons"}
    assert definition(server, "2025-11-25")["outputSchema"]["type"] == "object"
    assert definition(server, "2026-07-28")["outputSchema"] == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("version", REVISIONS)
async def test_structured_results_match_their_schema_in_every_revision(version: str) -> None:
    server = Server("s")

    @server.tool
    def point() -> Point:
        return Point(1, 2)

    @server.tool
    def points() -> list[Point]:
        return [Point(1, 2)]

    @server.tool
    def tree() -> Node:
        return Node("a", [Node("b")])

    @server.tool
    def maybe(number: int) -> Point | None:
        return Point(number) if number else None

    calls: list[tuple[str, dict[str, Any]]] = [
        *(("point", {}), ("points", {}), ("tree", {})),
        *(("maybe", {"number": 0}), ("maybe", {"number": 1})),
    ]
    listed = {each["name"]: each for each in server.definitions(version=version)["tools"]}
    async with talking(server, version) as client:
        for name, arguments in calls:
            result = await client.call(name, **arguments)
            assert result["content"][0]["type"] == "text"
            assert ("structuredContent" in result) == (version >= "2025-06-18")
            if "structuredContent" in result:
                schema = listed[name]["outputSchema"]
                assert jsonschema_rs.Draft202012Validator(schema).is_valid(result["structuredContent"])
                assert version >= "2026-07-28" or isinstance(result["structuredContent"], dict)


@pytest.mark.parametrize("version", REVISIONS)
async def test_invalid_arguments_are_the_error_that_the_revision_prescribes(version: str) -> None:
    server = Server("s")

    @server.tool
    def add(a: int, b: Annotated[int, Check(lambda value: value != 13, "not unlucky")] = 0) -> int:
        raise AssertionError("must not be called")

    async with talking(server, version) as client:
        outcome = await client.call("add", a="1", b=13, c=2)
        if version < "2025-11-25":
            assert outcome["code"] == -32602
            message = outcome["message"]
        else:
            assert outcome["isError"] is True
            message = outcome["content"][0]["text"]
        assert '`a` must be an integer, not "1"' in message
        assert "`b` must be not unlucky" in message
        assert "`c` is not known here" in message
        assert (await client.ask("tools/call", name="nothing"))["code"] == -32602


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_every_content_block_arrives(version: str) -> None:
    server = Server("s")

    @server.tool
    def blocks() -> list[Any]:
        note = Annotations(audience=("user",), priority=0.5)
        return [
            "plain",
            Text("noted", annotations=note),
            Image(b"png", "image/png"),
            Audio(b"wav"),
            Embedded(Contents("a://b", "text", "text/plain")),
            Embedded(Contents("a://c", b"\0")),
            Link("a://d", "d", description="later"),
            {"a": 1},
        ]

    async with talking(server, version) as client:
        content = (await client.call("blocks"))["content"]
    assert [block["type"] for block in content] == [
        *("text", "text", "image", "audio", "resource", "resource", "resource_link", "text"),
    ]
    assert content[1]["annotations"] == {"audience": ["user"], "priority": 0.5}
    assert content[2]["data"] == "cG5n"
    assert content[5]["resource"] == {"uri": "a://c", "blob": "AA=="}
    assert content[7]["text"] == '{"a":1}'


async def test_blocks_that_a_revision_lacks_become_ones_that_it_has() -> None:
    server = Server("s")

    @server.tool
    def blocks() -> list[Link | Audio]:
        return [Link("a://d", "d"), Audio(b"wav")]

    async with talking(server, "2024-11-05") as client:
        assert [block["type"] for block in (await client.call("blocks"))["content"]] == ["text", "resource"]


async def test_a_result_of_its_own_says_everything() -> None:
    server = Server("s")

    @server.tool
    def everything(ctx: Context) -> Result:
        ctx.result_meta["from/context"] = 1
        return Result(["text"], {"a": Point(1)}, is_error=True, meta={"x/y": 2})

    async with talking(server) as client:
        assert await client.call("everything") == {
            "content": [{"type": "text", "text": "text"}],
            "structuredContent": {"a": {"x": 1, "y": 0.0}},
            "isError": True,
            "_meta": {"from/context": 1, "x/y": 2},
        }


async def test_failures_are_results_and_internals_stay_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    def deliberate() -> str:
        raise ToolError("no such file: choose another")

    @server.tool
    def accident() -> str:
        raise ValueError("password=hunter2")

    @server.tool
    def broken_promise() -> int:
        return "hunter2"  # pyright: ignore[reportReturnType]

    async with talking(server) as client:
        result = await client.call("deliberate")
        assert result["isError"]
        assert result["content"][0]["text"] == "no such file: choose another"
        with caplog.at_level(logging.ERROR):
            for name in ("accident", "broken_promise"):
                result = await client.call(name)
                assert result["isError"]
                assert "hunter2" not in str(result)
                assert "internal error (reference " in result["content"][0]["text"]
    assert "hunter2" in caplog.text


class Panic(BaseException):
    """What a library in another language raises when it gives up."""


async def cancelled_inside() -> None:
    inner = asyncio.ensure_future(asyncio.sleep(60))
    inner.cancel()
    await inner


@pytest.mark.parametrize("kind", ["exit", "exit_in_thread", "panic_in_thread", "cancelled_inside"])
async def test_a_handler_ends_its_own_call_and_nothing_else(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool(name="exit")
    async def leave() -> None:
        sys.exit("hunter2")

    @server.tool
    def exit_in_thread() -> None:
        sys.exit("hunter2")

    @server.tool
    def panic_in_thread() -> None:
        raise Panic("hunter2")

    server.tool(cancelled_inside)

    async with talking(server) as client:
        with caplog.at_level(logging.ERROR):
            result = await client.call(kind)
        assert result["isError"]
        assert "internal error (reference " in result["content"][0]["text"]
        assert "hunter2" not in str(result)
        assert len((await client.ask("tools/list"))["tools"]) == 4


async def test_an_explicit_schema_overrides_inference_and_is_enforced() -> None:
    server = Server("s")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "dependentRequired": {"a": ["b"]},
    }

    @server.tool(input_schema=schema, output_schema=False)
    def either(a: int = 0, b: int = 0) -> int:
        return a + b

    assert definition(server)["inputSchema"] is schema
    assert "outputSchema" not in definition(server)
    async with talking(server) as client:
        assert await client.call_text("either", b=2) == "2"
        refused = await client.call("either", a=1)
        assert refused["isError"]
        assert "b" in refused["content"][0]["text"]


def test_pydantic_users_find_what_they_are_used_to() -> None:
    server = Server("s")

    class Query(pydantic.BaseModel):
        text: str
        limit: int = pydantic.Field(10, le=100)

    @server.tool
    def find(
        query: Query,
        tags: list[str] = pydantic.Field(default_factory=list, description="Any of"),  # noqa: B008
    ) -> str:
        return f"{query.limit} {tags}"

    schema = definition(server)["inputSchema"]
    assert schema["required"] == ["query"]
    assert schema["properties"]["tags"]["description"] == "Any of"
    assert schema["properties"]["query"]["properties"]["limit"] == {
        "type": "integer",
        "default": 10,
        "maximum": 100,
    }


class Notebook:
    def __init__(self) -> None:
        self.lines: list[str] = []

    @tool
    def write(self, line: str) -> int:
        """Write a line."""
        self.lines.append(line)
        return len(self.lines)


async def test_methods_partials_and_objects_can_be_tools() -> None:
    server, notebook = Server("s"), Notebook()
    server.add(notebook)

    def scale(number: float, factor: float) -> float:
        return number * factor

    server.tool(name="double")(functools.partial(scale, factor=2))

    @dataclass
    class Greeter:
        greeting: str

        async def __call__(self, name: str, /) -> str:
            return f"{self.greeting}, {name}"

    server.tool(name="greet")(Greeter("Ahoy"))
    async with talking(server) as client:
        assert await client.call_text("write", line="x") == "1"
        assert notebook.lines == ["x"]
        assert await client.call_text("double", number=4) == "8.0"
        assert await client.call_text("greet", name="Bo") == "Ahoy, Bo"


async def test_any_other_arguments_go_to_keywords() -> None:
    server = Server("s")

    @server.tool
    def tag(name: str, /, **labels: int) -> dict[str, int]:
        return {name: 0, **labels}

    assert definition(server)["inputSchema"]["additionalProperties"] == {"type": "integer"}
    async with talking(server) as client:
        assert (await client.call("tag", name="a", b=2))["structuredContent"] == {"a": 0, "b": 2}
        assert (await client.call("tag", name="a", b="x"))["isError"]


def test_what_cannot_be_a_tool_is_refused_when_it_is_defined() -> None:
    server = Server("s")

    def stars(*numbers: int) -> None: ...
    def generator() -> Any:
        yield 1

    def opaque(value: BaseException) -> None: ...

    with pytest.raises(Undescribable, match="make it a list"):
        server.tool(stars)
    with pytest.raises(BadDefinition, match="generator"):
        server.tool(generator)
    with pytest.raises(Undescribable, match="parameter `value`"):
        server.tool(opaque)
    with pytest.raises(BadDefinition, match="no name for a tool"):
        server.tool(name="a b")(lambda: None)
    with pytest.raises(BadDefinition, match="not a valid schema"):
        server.tool(name="x", input_schema={"type": "nonsense"})(lambda: None)
    with pytest.raises(BadDefinition, match="must say `type: object`"):
        server.tool(name="x", input_schema={"type": "array"})(lambda: None)

    def gives_opaque() -> BaseException: ...

    with pytest.raises(Undescribable, match="`gives_opaque` returns"):
        server.tool(gives_opaque)
    server.tool(name="x")(lambda: None)
    with pytest.raises(BadDefinition, match="there already"):
        server.tool(name="x")(lambda: None)
    with pytest.raises(BadDefinition, match="nothing in"):
        server.add(object())


async def test_lists_come_in_pages_by_choice() -> None:
    server = Server("s", page_size=2)
    for number in range(5):
        server.tool(name=f"t{number}")(lambda: None)
    names: list[str] = []
    async with talking(server) as client:
        page = await client.ask("tools/list")
        while True:
            names += [each["name"] for each in page["tools"]]
            if "nextCursor" not in page:
                break
            page = await client.ask("tools/list", cursor=page["nextCursor"])
        assert (await client.ask("tools/list", cursor="1"))["code"] == -32602
    assert names == ["t0", "t1", "t2", "t3", "t4"]
