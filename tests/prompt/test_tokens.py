"""Tokens are counted for real: parts add up, layouts show what hosts show, savings are what is saved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.policy.shelf import Shelf
from tests.support.gateway import running_gateway

from mooring.prompt.counting import count_block, count_frame, count_tool, encoding
from mooring.prompt.layouts import FIELDS, LAYOUTS, TITLES, render

LIMIT_SECONDS = 60
SEARCH = {
    "name": "search_jira",
    "description": "Search Jira issues.   Naïve 検索 included. This says more than anybody has to know.",
    "inputSchema": {
        "type": "object",
        "title": "SearchArguments",
        "properties": {
            "project": {"type": "string", "title": "Project", "description": "Project key, e.g. PROJ"},
            "limit": {"type": "integer", "title": "Limit", "default": 50, "description": "Most results"},
            "order": {"enum": ["newest", "oldest"]},
        },
        "required": ["project"],
        "$defs": {"Unused": {"type": "string"}},
    },
}
GET = {"name": "get_issue", "description": "Get one.", "inputSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("name", LAYOUTS)
def test_fields_and_tools_add_up_to_what_the_tokenizer_says_of_the_block(name: str) -> None:
    layout = LAYOUTS[name]
    text = "".join(piece for _, piece in layout.tool(SEARCH))
    counts = count_tool(layout, SEARCH)
    assert counts.total() == len(encoding().encode_ordinary(text))
    assert set(counts) <= set(FIELDS)
    whole = len(encoding().encode_ordinary(render(layout, [SEARCH, GET])))
    assert count_block(layout, [SEARCH, GET]) == pytest.approx(whole, abs=8)  # seams between tools
    assert count_block(layout, [SEARCH, GET]) == sum(
        (count_tool(layout, SEARCH).total(), count_tool(layout, GET).total(), count_frame(layout))
    )


@pytest.mark.parametrize("name", ["functions", "chat"])
def test_json_layouts_hold_the_whole_schema(name: str) -> None:
    text = "".join(piece for _, piece in LAYOUTS[name].tool(SEARCH))
    line = text.strip().removeprefix("<function>").removesuffix("</function>")
    value = json.loads(line)
    assert value.get("function", value)["parameters"] == SEARCH["inputSchema"]
    assert count_tool(LAYOUTS[name], SEARCH)[TITLES] > 0


def test_the_other_layouts_look_as_hosts_write_them() -> None:
    assert render(LAYOUTS["typescript"], [SEARCH]).splitlines()[3:12] == [
        "type search_jira = (_: {",
        "// Project key, e.g. PROJ",
        "project: string,",
        "// Most results",
        "limit?: number, // default: 50",
        'order?: "newest" | "oldest",',
        "}) => any;",
        "",
        "} // namespace functions",
    ]
    listing = render(LAYOUTS["listing"], [SEARCH])
    assert "  project (string, required): Project key, e.g. PROJ\n" in listing
    assert "  limit (integer, optional, default 50): Most results\n" in listing


def mooring(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "mooring.interfaces.cli.main", "tokens", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
        env={"PYTHONUTF8": "1", "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_is_counted_with_what_could_be_saved(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"tools": [SEARCH, GET]}))
    words = [str(file), "--deny", "get_*", "--description-limit", "40"]
    (report,) = json.loads(mooring(*words, "--format", "json"))["servers"]
    layout = LAYOUTS["functions"]
    assert report["tokens_per_turn"] == count_block(layout, [SEARCH, GET]) == sum(report["fields"].values())
    assert report["tokens_over_ten_turns"] == 10 * report["tokens_per_turn"]
    assert report["savings"]["filter"] == count_tool(layout, GET).total()
    for measure in ("strip_titles", "collapse_whitespace", "description_limit: 40", "drop_unused_defs"):
        assert 0 < report["savings"][measure] < report["savings"]["all of these"]
    shown = mooring(*words)
    assert "█" in shown
    assert f"{report['tokens_per_turn']:,} tokens per turn" in shown


@pytest.mark.e2e
def test_configured_savings_are_shown_before_and_after_for_all_servers(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, SEARCH, GET)
    servers = [shelf.stdio("full"), shelf.stdio("short", savings={"strip_titles": True})]
    with running_gateway(tmp_path, servers) as gateway:
        reports = json.loads(mooring("all", "--format", "json", "--socket", str(gateway.socket)))["servers"]
        text = mooring("short", "--socket", str(gateway.socket))
    full, short = reports
    assert full["tokens_without_configured_savings"] == full["tokens_per_turn"]
    assert short["tokens_without_configured_savings"] == full["tokens_per_turn"]
    assert short["tokens_per_turn"] == full["tokens_per_turn"] - full["savings"]["strip_titles"]
    assert f"{full['tokens_per_turn']:,} before, {short['tokens_per_turn']:,} after" in text
