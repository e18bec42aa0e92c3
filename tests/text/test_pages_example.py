"""A model edits pages with panels and layouts through the example server, and nothing is lost."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/pages"
LIMIT_SECONDS = 30

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE / "content", tmp_path / "content"))


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[mcp.Client]:
    server = mcp.StdioServerParameters(command=sys.executable, args=[str(EXAMPLE / "server.py"), str(folder)])
    with anyio.fail_after(LIMIT_SECONDS):
        async with mcp.Client(server) as client:
            yield client


async def called(client: mcp.Client, tool: str, **arguments: Any) -> Any:
    done = await client.call_tool(tool, arguments)
    assert not done.is_error, done.content
    return done


@pytest.mark.parametrize(
    ("name", "file", "heading", "start", "end"),
    [
        ("release", "release.adf.json", ["Release 2.4", "Plan"], '"Plan"', '"Areas"'),
        ("team", "team.storage.xml", ["Rota"], "<h2>Rota</h2>", "<h2>Office</h2>"),
    ],
)
async def test_a_section_is_patched_and_every_other_byte_stays(
    folder: Path, name: str, file: str, heading: list[str], start: str, end: str
) -> None:
    before = (folder / file).read_text("utf-8")
    async with connected(folder) as client:
        await called(client, "patch_section", name=name, heading=heading, markdown="Nobody merges today.")
    after = (folder / file).read_text("utf-8")
    assert after.startswith(before[: before.index(start) + len(start)])
    assert after.endswith(before[before.index(end) :])
    assert "Nobody merges today." in after


async def test_a_page_written_back_unedited_is_the_same_page(folder: Path) -> None:
    async with connected(folder) as client:
        for name, file in (("release", "release.adf.json"), ("team", "team.storage.xml")):
            before = (folder / file).read_text("utf-8")
            shown = (await called(client, "read_page", name=name)).structured_content
            await called(
                client, "write_page", name=name, markdown=shown["markdown"], snapshot=shown["snapshot"]
            )
            after = (folder / file).read_text("utf-8")
            if file.endswith("json"):
                assert json.loads(after) == json.loads(before)
            else:
                assert after.replace("\n", "") == before.replace("\n", "")


async def test_an_edit_of_the_whole_page_keeps_panel_layout_media_and_macro(folder: Path) -> None:
    async with connected(folder) as client:
        shown = (await called(client, "read_page", name="release")).structured_content
        edited = shown["markdown"].replace("may not empty in time", "is empty by now")
        assert edited != shown["markdown"]
        before = json.loads((folder / "release.adf.json").read_text("utf-8"))
        await called(client, "write_page", name="release", markdown=edited, snapshot=shown["snapshot"])
        after = json.loads((folder / "release.adf.json").read_text("utf-8"))
        different = [new for old, new in zip(before["content"], after["content"], strict=True) if old != new]
        assert [each["content"][0]["text"] for each in different] == ["The old cache is empty by now."]
        stale = await client.call_tool(
            "write_page", {"name": "release", "markdown": edited, "snapshot": shown["snapshot"]}
        )
        assert stale.is_error


async def test_dropping_the_picture_is_refused_and_changes_nothing(folder: Path) -> None:
    before = (folder / "release.adf.json").read_bytes()
    async with connected(folder) as client:
        shown = (await called(client, "read_page", name="release")).structured_content
        without = "\n".join(line for line in shown["markdown"].splitlines() if "load curve" not in line)
        assert without.count("\n") < shown["markdown"].count("\n")
        done = await client.call_tool(
            "write_page", {"name": "release", "markdown": without, "snapshot": shown["snapshot"]}
        )
    assert done.is_error
    assert (folder / "release.adf.json").read_bytes() == before


async def test_a_search_answers_with_a_summary_and_one_addressable_block_per_hit(folder: Path) -> None:
    async with connected(folder) as client:
        done = await called(client, "search_pages", words="ann")
        summary, *hits = done.content
        assert summary.type == "text"
        assert hits
        for hit in hits:
            assert hit.type == "resource"
            read = await client.read_resource(str(hit.resource.uri))
            assert read.contents == [hit.resource]
        offered = {str(each.uri) for each in (await client.list_resources()).resources}
        assert offered >= {"page:///release", "page:///team"}
        listed = await client.read_resource("page:///")
        assert json.loads(listed.contents[0].model_dump()["text"]) == ["release", "team"]
