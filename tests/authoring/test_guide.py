"""The guide is true: its code runs, and everything that can be set or called is in it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.authoring.talking import talking

import mooring.authoring
from mooring.authoring import Context, HttpSettings, Server
from mooring.authoring.decorators import CommonSettings, ToolSettings

GUIDE = (Path(__file__).parents[2] / "docs/guides/authoring.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def run(block: str) -> ModuleType:
    module = ModuleType("guide_block")
    sys.modules["guide_block"] = module
    exec(compile(block, "authoring.md", "exec"), vars(module))
    return module


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_of_code_runs(block: str) -> None:
    run(block)


@pytest.mark.anyio
async def test_the_first_example_greets() -> None:
    async with talking(run(BLOCKS[0]).server) as client:
        assert await client.call_text("greet", name="Bo", times=2) == "Hello, Bo! Hello, Bo!"
        listed = await client.ask("tools/list")
        assert listed["tools"][0]["inputSchema"]["properties"]["name"]["description"] == "Whom to greet"


def test_every_setting_and_every_call_is_in_the_guide() -> None:
    settings = {field.name for field in dataclasses.fields(HttpSettings)}
    settings |= CommonSettings.__annotations__.keys() | ToolSettings.__annotations__.keys()
    calls = {name for name, _ in inspect.getmembers(Context) if not name.startswith("_")}
    missing = {name for name in settings | calls if not re.search(rf"\b{name}\b", GUIDE)}
    assert missing == set()


def test_every_public_name_is_in_the_guide_or_says_what_it_is() -> None:
    for name in mooring.authoring.__all__:
        assert re.search(rf"\b{name}\b", GUIDE) or inspect.getdoc(getattr(mooring.authoring, name)), name


def test_every_option_of_a_server_is_explained() -> None:
    text = GUIDE + (inspect.getdoc(Server) or "") + (inspect.getdoc(Server.__init__) or "")
    options = set(inspect.signature(Server).parameters) - {"name", "version", "title", "description", "icons"}
    missing = {name for name in options if not re.search(rf"\b{name}\b", text)}
    assert missing == set()
