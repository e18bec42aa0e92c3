"""The garden of the examples, as the official client sees it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest

SCRIPT = Path(__file__).parents[2] / "examples/garden_server.py"

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_garden_grows(mode: str) -> None:
    seen: list[float] = []

    async def on_question(context: Any, params: Any) -> Any:
        assert "70 more days" in params.message
        return mcp.types.ElicitResult(action="accept", content={"really": True})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    server = mcp.StdioServerParameters(command=sys.executable, args=[str(SCRIPT)])
    with anyio.fail_after(30):
        async with mcp.Client(server, mode=mode, elicitation_callback=on_question) as client:
            planted = await client.call_tool("plant", {"bed": "north", "kind": "tomato"})
            assert planted.structured_content == {
                "name": "north",
                "plant": "tomato",
                "count": 10,
                "day": 0,
                "litres": 0.0,
            }
            refused = await client.call_tool("plant", {"bed": "two words", "kind": "oak", "count": 0})
            assert refused.is_error
            text = refused.content[0].text  # pyright: ignore[reportAttributeAccessIssue]
            for part in ("one plain word", '"bean", "carrot", "tomato"', "at least 1"):
                assert part in text
            walked = await client.call_tool("survey", {}, progress_callback=on_progress)
            assert [block.type for block in walked.content] == ["text", "resource_link", "resource_link"]
            assert seen == [1, 2]
            harvested = await client.call_tool("harvest", {"bed": "north"})
            assert "10 plants" in harvested.content[0].text  # pyright: ignore[reportAttributeAccessIssue]
            with pytest.raises(mcp.MCPError, match="no bed"):
                await client.read_resource("garden://bed/north")
            beds = await client.complete(
                mcp.types.PromptReference(type="ref/prompt", name="plan"), {"name": "bed", "value": "s"}
            )
            assert beds.completion.values == ["south"]
