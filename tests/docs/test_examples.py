"""The example servers do what they say, seen by the official client."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest
from mcp.client.sse import sse_client

from mooring.config.loading import load

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_SECONDS = 60

pytestmark = pytest.mark.e2e


@contextmanager
def running(script: str) -> Iterator[str]:
    """The example on a free port; its URL."""
    command = [sys.executable, str(EXAMPLES / script), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@asynccontextmanager
async def connected(server: Any, **settings: Any) -> AsyncIterator[mcp.Client]:
    with anyio.fail_after(LIMIT_SECONDS):
        async with mcp.Client(server, **settings) as client:
            yield client


def notes() -> mcp.StdioServerParameters:
    return mcp.StdioServerParameters(command=sys.executable, args=[str(EXAMPLES / "notes_server.py")])


def module_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def into(seen: list[float]) -> Any:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    return on_progress


def text_of(result: Any) -> str:
    return result.content[0].text


@pytest.mark.anyio
async def test_the_notebook_adds_finds_and_shows_notes() -> None:
    async with connected(notes(), mode="legacy") as client:
        assert client.protocol_version == "2025-11-25"
        added = await client.call_tool("add_note", {"title": "Milk", "text": "two bottles"})
        assert added.structured_content == {"id": 2, "uri": "note://2"}
        found = await client.call_tool("search_notes", {"query": "BOTTLES"})
        assert found.structured_content is not None
        assert [note["title"] for note in found.structured_content["notes"]] == ["Milk"]
        read = await client.read_resource("note://2")
        assert read.contents[0].text == "two bottles"  # pyright: ignore[reportAttributeAccessIssue]
        assert "Milk" in (await client.get_prompt("sum_up")).messages[0].content.text  # pyright: ignore[reportAttributeAccessIssue]
        wrong = await client.call_tool("add_note", {"title": 3})
        assert wrong.is_error
        with pytest.raises(mcp.MCPError, match="no note"):
            await client.read_resource("note://99")


@pytest.mark.anyio
async def test_the_notebook_reports_progress_and_can_be_cancelled() -> None:
    seen: list[float] = []
    async with connected(notes(), mode="legacy") as client:
        await client.call_tool("import_notes", {"count": 3}, progress_callback=into(seen))
        assert seen == [1, 2, 3]
        with anyio.CancelScope() as calling:

            async def cancel(progress: float, total: float | None, message: str | None) -> None:
                calling.cancel()

            await client.call_tool("import_notes", {"count": 100}, progress_callback=cancel)
        before = await client.call_tool("list_notes", {})
        await anyio.sleep(0.5)  # the claim is that nothing happens in this time
        assert (await client.call_tool("list_notes", {})).content == before.content
        assert len(before.structured_content["notes"]) < 100  # pyright: ignore[reportOptionalSubscript]


def test_the_notebook_can_be_read_while_it_is_written() -> None:
    notebook = module_of("notes_server").Notebook(None)

    def write() -> None:
        for _ in range(3_000):
            notebook.add("again", "and again")

    writer = threading.Thread(target=write)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        seen = 0
        while seen < 3_001:
            seen = len(notebook.list_notes({}, None)["notes"])
        writer.join()
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.anyio
async def test_the_clock_speaks_the_first_http_transport() -> None:
    seen: list[float] = []
    with running("clock_sse_server.py") as url:
        async with connected(sse_client(url), mode="legacy") as client:
            assert client.protocol_version == "2024-11-05"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["now", "countdown"]
            assert text_of(await client.call_tool("now", {"utc_offset_hours": 2})).endswith("+02:00")
            assert (await client.call_tool("now", {"utc_offset_hours": 99})).is_error
            await client.call_tool("countdown", {"steps": 3}, progress_callback=into(seen))
            assert seen == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")  # the era of this server has it
@pytest.mark.anyio
async def test_the_library_asks_how_long_and_tells_those_who_subscribed() -> None:
    updated = anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, mcp.ResourceUpdatedNotification):
            updated.set()

    async def on_question(_context: Any, params: Any) -> Any:
        assert "how many days" in params.message
        return mcp.types.ElicitResult(action="accept", content={"days": 7})

    with running("library_server.py") as url:
        async with connected(
            url, mode="legacy", elicitation_callback=on_question, message_handler=on_message
        ) as client:
            found = await client.call_tool("search_books", {"query": "melville"})
            assert found.structured_content is not None
            assert found.structured_content["books"][0]["id"] == "2"
            await client.subscribe_resource("book://2")
            assert (
                text_of(await client.call_tool("borrow_book", {"id": "2"}))
                == "you have “Moby-Dick” for 7 days"
            )
            await updated.wait()
            assert (await client.call_tool("borrow_book", {"id": "77"})).is_error


@pytest.mark.anyio
async def test_the_library_uses_its_default_when_nobody_can_be_asked() -> None:
    with running("library_server.py") as url:
        async with connected(url, mode="legacy") as client:
            assert text_of(await client.call_tool("borrow_book", {"id": "1"})).endswith("for 14 days")


@pytest.mark.anyio
async def test_the_weather_stands_alone_and_asks_by_input_required() -> None:
    seen: list[float] = []

    async def on_question(_context: Any, params: Any) -> Any:
        assert params.message == "Which day in Bergen?"
        return mcp.types.ElicitResult(action="accept", content={"day": "sunday"})

    with running("weather_server.py") as url:
        async with connected(url, elicitation_callback=on_question) as client:
            assert client.protocol_version == "2026-07-28"
            assert text_of(await client.call_tool("forecast", {"city": "Kobe"})).startswith(
                "Kobe, tomorrow: "
            )
            assert "Bergen, sunday" in text_of(await client.call_tool("plan_trip", {"city": "Bergen"}))
            await client.call_tool("compare_cities", {}, progress_callback=into(seen))
            assert seen == [1, 2, 3, 4]


@pytest.mark.anyio
async def test_the_weather_names_the_capability_it_needs() -> None:
    with running("weather_server.py") as url:
        async with connected(url) as client:
            with pytest.raises(mcp.MCPError, match="has to ask the person"):
                await client.call_tool("plan_trip", {"city": "Bergen"})


@pytest.mark.parametrize("script", ["clock_sse_server.py", "library_server.py", "weather_server.py"])
def test_an_example_needs_nothing_but_the_standard_library(script: str) -> None:
    # -I and -S: no site-packages, no environment.
    command = [sys.executable, "-I", "-S", str(EXAMPLES / script), "--help"]
    assert subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, check=False).returncode == 0


def test_the_notebook_needs_nothing_but_the_standard_library() -> None:
    command = [sys.executable, "-I", "-S", str(EXAMPLES / "notes_server.py")]
    done = subprocess.run(
        command, input=b"nonsense\n", capture_output=True, timeout=LIMIT_SECONDS, check=False
    )
    assert (done.returncode, b"-32700" in done.stdout) == (0, True)


def test_the_example_configuration_is_valid_and_names_every_example() -> None:
    config = load(EXAMPLES / "mooring.yaml", environment={})
    named = ["notes", "papers", "pages", "garden", "clock", "library", "weather"]
    assert [server.id for server in config.servers] == named
    assert config.listen == "127.0.0.1:7433"
