"""What a model reads about arguments that take files, however their schemas are written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.files import argument_paths
from mooring.files.adapters import Consumer, Delivery, ToolFiles
from mooring.files.descriptions import adapted

PATH = {"type": "string", "pattern": "^/", "description": "The file."}
DOC = {"type": "object", "properties": {"path": PATH}}
NOTE = "The file. (an `upload://` handle from `where`, nothing else)"


def taking(path: str) -> ToolFiles:
    return ToolFiles(consumers=(Consumer((argument_paths.parse(path),), Delivery.PATH),))


@pytest.mark.parametrize(
    ("properties", "path", "place"),
    [
        ({"file": {"$ref": "#/$defs/Path"}}, "file", ["file"]),
        (
            {"doc": {"anyOf": [{"$ref": "#/$defs/Doc"}, {"type": "null"}]}},
            "doc.path",
            ["doc", "anyOf", 0, "properties", "path"],
        ),
        (
            {"docs": {"type": "array", "items": {"$ref": "#/$defs/Doc"}}},
            "docs[*].path",
            ["docs", "items", "properties", "path"],
        ),
    ],
)
def test_arguments_that_are_defined_elsewhere_say_it_too(
    properties: dict[str, Any], path: str, place: list[str | int]
) -> None:
    schema = {"type": "object", "properties": properties, "$defs": {"Path": PATH, "Doc": DOC}}
    tool = {"name": "read", "inputSchema": schema}
    before = copy.deepcopy(tool)
    files = taking(path)
    found: Any = adapted(tool, files, "where", captures=False)[0]["inputSchema"]["properties"]
    for step in place:
        found = found[step]
    assert found == {"type": "string", "description": NOTE}
    assert tool == before


def test_an_argument_that_may_be_left_out_still_may() -> None:
    maybe = {"anyOf": [{"type": "string", "pattern": "^/"}, {"type": "null"}], "default": None}
    tool = {"name": "read", "inputSchema": {"type": "object", "properties": {"file": maybe}}}
    found = adapted(tool, taking("file"), "where", captures=False)[0]["inputSchema"]["properties"]["file"]
    assert found.pop("description").startswith("An `upload://` handle")
    assert found == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
