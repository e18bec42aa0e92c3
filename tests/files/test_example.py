"""The demo's file-taking and file-making tools, as its configuration wires them, in both eras."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest
from ruamel.yaml import YAML
from tests.files.conftest import form, http_request, serving
from tests.support.gateway import Gateway

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 60


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers: list[dict[str, Any]] = YAML(typ="safe").load(EXAMPLES / "mooring.yaml")["servers"]
    [papers] = [entry for entry in servers if entry["id"] == "papers"]
    program = papers["workload"]["run"].split()
    assert program[0] == "python3"
    papers["workload"] = {"run": [sys.executable, *program[1:]], "cwd": str(EXAMPLES)}
    with serving(tmp_path_factory.mktemp("example"), papers) as found:
        yield found


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_example_takes_a_file_and_makes_one(gateway: Gateway, mode: str) -> None:
    with anyio.fail_after(SECONDS):
        async with mcp.Client(gateway.url("papers"), mode=mode) as client:
            about = (await client.call_tool("papers_get_upload_url", {})).structured_content
            assert about is not None
            body, kind = form(("three.txt", b"one two three\n"))
            headers = {**about["headers"], "Content-Type": kind}
            handle = http_request("POST", about["upload_url"], body, headers).json["upload_handle"]
            counted = await client.call_tool("count_words", {"path": handle})
            assert [block.text for block in counted.content if block.type == "text"] == ["3 words in 1 lines"]
            made = await client.call_tool("make_poster", {"text": "Ahoy", "filename": "ahoy.svg"})
            assert made.meta is not None
            poster = await client.read_resource(made.meta["artifact"]["artifact_uri"])
            assert poster.contents[0].mime_type == "image/svg+xml"
            assert b"Ahoy" in http_request("GET", made.meta["artifact"]["download_url"]).body
