"""The fixture is the same server in every era and on every transport, as the SDK's own client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from tests.conformance.client_driver import accept_defaults, list_one_root, say_something
from tests.conformance.fixture import interactions
from tests.conformance.processes import fixture_command, running_fixture

# Deprecated is not gone: these features have to work until the last revision that has them.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

_SECONDS = 30
# What the driver's client says to a question, to a form, and about its roots.
_ANSWERS = ("something", "accept", "file:///example")
_PLACES = [
    ("http", "legacy"),
    ("http", "modern"),
    ("stdio", "legacy"),
    ("stdio", "modern"),
    ("sse", "legacy"),
]


@pytest.fixture(params=_PLACES, ids="-".join)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """Something a client can be pointed at, and the era the fixture there knows."""
    transport, era = request.param
    with ExitStack() as stack:
        if transport == "stdio":
            command, *arguments = fixture_command("stdio", era, tasks=False)
            yield StdioServerParameters(command=command, args=arguments), era
            return
        url = stack.enter_context(running_fixture(transport, era, tmp_path / "fixture.log"))
        yield (sse_client(url) if transport == "sse" else url), era


def _client(target: Any, **options: Any) -> Client:
    return Client(
        target,
        elicitation_callback=accept_defaults,
        sampling_callback=say_something,
        list_roots_callback=list_one_root,
        cache=None,
        **options,
    )


def test_every_interactive_tool_and_prompt_finishes_in_the_era_of_its_server(place: tuple[Any, str]) -> None:
    target, era = place

    async def use() -> None:
        with anyio.fail_after(_SECONDS):
            async with _client(target) as client:
                assert (client.protocol_version == "2026-07-28") == (era == "modern")
                for name in interactions.TOOLS:
                    result = await client.call_tool(
                        name, {"prompt": "say something", "message": "who are you"}
                    )
                    assert not result.is_error, name
                    assert any(answer in str(result.content) for answer in _ANSWERS), name
                prompt = await client.get_prompt("test_input_required_result_prompt")
                assert "something" in str(prompt.messages)

    anyio.run(use)


def test_a_server_of_one_era_refuses_the_other(tmp_path: Path) -> None:
    async def is_refused(url: str, mode: str) -> bool:
        refused = False
        try:
            with anyio.fail_after(_SECONDS):
                async with _client(url, mode=mode) as client:
                    await client.list_tools()
        except* MCPError:
            refused = True
        return refused

    for era, mode in (("legacy", "2026-07-28"), ("modern", "legacy")):
        with running_fixture("http", era, tmp_path / "fixture.log") as url:
            assert anyio.run(is_refused, url, mode)
            assert not anyio.run(is_refused, url, "auto")


def test_legacy_clients_hear_about_changed_lists_and_resources(tmp_path: Path) -> None:
    heard: list[str] = []
    complete = anyio.Event()
    expected = {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/updated",
    }

    async def listen(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            heard.append(message.method)
            if expected <= set(heard):
                complete.set()

    async def use(url: str) -> None:
        with anyio.fail_after(_SECONDS):
            async with _client(sse_client(url), mode="legacy", message_handler=listen) as client:
                await client.session.subscribe_resource("test://watched-resource")
                for change in ("tool_change", "prompt_change", "resource_update"):
                    await client.call_tool(f"test_trigger_{change}", {})
                await complete.wait()

    with running_fixture("sse", "legacy", tmp_path / "fixture.log") as url:
        anyio.run(use, url)
    assert expected <= set(heard)
