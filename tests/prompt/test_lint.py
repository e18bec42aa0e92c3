"""Lint finds what trips models and clients, says where, and is silent about what is fine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import running_gateway

from mooring.prompt.lint import lint

LIMIT_SECONDS = 30
FINE = {
    "name": "search_issues",
    "description": "Search issues with a query and give their keys.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, for example `status = open`."},
            "order": {"enum": ["newest", "oldest"], "description": "Which ones come first."},
            "level": {"enum": [1, 2], "description": "How urgent: 1 = low, 2 = high."},
            "limit": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": "Most keys to give 👩‍👧.",
            },
            "target": {
                "description": "Where to look.",
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "project", "description": "a project"}},
                    },
                    {"type": "object", "properties": {"kind": {"const": "board", "description": "a board"}}},
                ],
            },
        },
        "required": ["query"],
    },
}


def found(tools: list[Any], server: str = "") -> set[tuple[str, str, str]]:
    return {(entry.severity, entry.rule, entry.where) for entry in lint(tools, server)}


def with_schema(**members: Any) -> list[Any]:
    return [{**FINE, "inputSchema": {"type": "object", **members}}]


def with_property(**schema: Any) -> list[Any]:
    return with_schema(properties={"a": {"description": "What it is.", **schema}})


A = "inputSchema.properties.a"
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


def test_a_good_tool_passes_in_silence() -> None:
    assert lint([FINE], "jira") == []


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([7], ("error", "not-a-tool", "")),
        ([{**FINE, "name": ""}], ("error", "name-missing", "name")),
        ([{**FINE, "name": "n" * 65}], ("error", "name-too-long", "name")),
        ([{**FINE, "name": "n" * 60}], ("warning", "name-too-long", "name")),
        ([{**FINE, "name": "find it"}], ("error", "name-characters", "name")),
        ([{**FINE, "name": "find.it"}], ("warning", "name-characters", "name")),
        ([FINE, FINE], ("error", "name-duplicate", "name")),
        ([FINE, {**FINE, "name": "searchIssues"}], ("warning", "name-alike", "name")),
        ([{**FINE, "description": " "}], ("error", "description-missing", "description")),
        ([{**FINE, "description": "Search issues."}], ("warning", "description-empty", "description")),
        ([FINE, {**FINE, "name": "other"}], ("warning", "description-duplicate", "description")),
        ([{**FINE, "description": "long " * 300}], ("warning", "text-too-long", "description")),
        ([{**FINE, "description": "ok\u200b"}], ("error", "invisible-characters", "description")),
        ([{**FINE, "description": "ok\U000e0041"}], ("error", "invisible-characters", "description")),
        (with_property(enum=["a\u202eb"]), ("error", "invisible-characters", f"{A}.enum[0]")),
        ([{**FINE, "inputSchema": None}], ("error", "schema-not-object", "inputSchema")),
        ([{**FINE, "inputSchema": {"type": "string"}}], ("error", "schema-not-object", "inputSchema")),
        (with_schema(anyOf=[{}]), ("error", "schema-root-union", "inputSchema.anyOf")),
        (with_property(description=""), ("warning", "parameter-description-missing", A)),
        (with_property(description="long " * 200), ("warning", "text-too-long", A)),
        (with_property(title="A"), ("note", "title-noise", "inputSchema")),
        (
            with_schema(properties={"a": {"description": "Same."}, "b": {"description": "same"}}),
            ("warning", "parameter-description-duplicate", "inputSchema.properties.b"),
        ),
        (
            with_property(anyOf=[{"type": "string"}, {"type": "integer"}]),
            ("warning", "union-ambiguous", f"{A}.anyOf"),
        ),
        (with_property(type=["string", "integer", "null"]), ("warning", "union-ambiguous", f"{A}.type")),
        (with_property(**{"$ref": "#/$defs/Gone"}), ("error", "ref-broken", A)),
        (with_property(**{"$ref": "https://example.com/x.json"}), ("error", "ref-outside", A)),
        (
            with_schema(properties={"a": {"$ref": "#/$defs/X"}}, **{"$defs": {"X": {"type": "string"}}}),
            ("warning", "ref", "inputSchema"),
        ),
        (
            with_schema(properties={"a": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": NODE}}),
            ("warning", "recursion", "inputSchema"),
        ),
        (with_property(enum=[1, 2]), ("warning", "enum-unnamed", A)),
        (with_property(enum=["a", "b"]), ("warning", "enum-unnamed", A)),
        (with_property(type="array"), ("error", "array-without-items", A)),
        (
            with_schema(properties={"a b": {"description": "x y z"}}),
            ("error", "parameter-name", "inputSchema.properties"),
        ),
        (
            with_schema(properties={"a": {}}, required=["z"]),
            ("error", "required-unknown", "inputSchema.required"),
        ),
        ([{**FINE, "name": f"tool_number_{n}"} for n in range(41)], ("warning", "too-many-tools", "")),
    ],
)
def test_each_trap_is_found_where_it_is(tools: list[Any], expected: tuple[str, str, str]) -> None:
    assert expected in found(tools, "jira")


def test_a_reference_that_is_used_twice_is_no_circle() -> None:
    definitions = {"X": {"properties": {"y": {"$ref": "#/$defs/Y"}}}, "Y": {"type": "string"}}
    tools = with_schema(
        properties={"a": {"$ref": "#/$defs/X"}, "b": {"$ref": "#/$defs/X"}, "c": {"$ref": "#/$defs/Y"}},
        **{"$defs": definitions},
    )
    assert "recursion" not in {rule for _, rule, _ in found(tools)}


def test_every_finding_says_what_to_do() -> None:
    bad = {"name": "a b", "inputSchema": {"properties": {"x": {"type": "array", "enum": [1]}}}}
    assert all(entry.fix and entry.problem and entry.tool for entry in lint([bad]))


def mooring(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mooring.interfaces.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("wrap", [lambda tools: tools, lambda tools: {"result": {"tools": tools}}])
def test_a_file_is_read_and_errors_decide_the_exit_code(tmp_path: Path, wrap: Any) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(wrap([FINE])))
    assert (mooring("lint", str(file)).returncode, mooring("lint", str(file)).stdout) == (0, "")
    file.write_text(json.dumps(wrap([{**FINE, "description": "\u001b[2Jhidden"}])))
    done = mooring("lint", str(file))
    assert done.returncode == 1
    assert "U+001B" in done.stdout
    assert "fix: remove them" in done.stdout
    assert "\x1b" not in done.stdout
    shown = json.loads(mooring("lint", str(file), "--format", "json").stdout)
    assert [entry["rule"] for entry in shown["findings"]] == ["invisible-characters"]


def test_what_cannot_be_read_is_said_with_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text('{"other": 1}')
    assert "holds no tools" in mooring("lint", str(file)).stderr
    file.write_text('[{"a":' * 5000)
    done = mooring("lint", str(file))
    assert (done.returncode, done.stderr.count("Traceback")) == (1, 0)


@pytest.mark.e2e
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_command_of_either_era_is_started_and_read(tmp_path: Path, era: str) -> None:
    shelf = Shelf(tmp_path, tool("look", ""))
    done = mooring("lint", "--format", "json", "--", *shelf.command("stdio", era))
    assert done.returncode == 1, done.stderr
    assert {entry["rule"] for entry in json.loads(done.stdout)["findings"]} == {
        "description-missing",
        "parameter-description-missing",
    }
    assert done.stderr == ""


@pytest.mark.e2e
def test_a_server_at_a_url_is_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, tool("look", ""))
    with running_gateway(tmp_path, [shelf.stdio("one")]) as gateway:
        done = mooring("lint", gateway.url("one"))
        counted = mooring("tokens", gateway.url("one"), "--format", "json")
    assert "[description-missing]" in done.stdout
    assert done.stderr == "1 tool: 1 error, 1 warning\n"
    assert json.loads(counted.stdout)["servers"][0]["tokens_per_turn"] > 0, counted.stderr


@pytest.mark.e2e
def test_a_server_of_the_gateway_is_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, tool("look", "Looks  at it. And more."))
    with running_gateway(tmp_path, [shelf.stdio("one")]) as gateway:
        done = mooring("lint", "one", "--socket", str(gateway.socket))
    assert "[parameter-description-missing]" in done.stdout, done.stderr
    assert done.returncode == 0
