"""Which tools look as if they took or made files, by what their schemas say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from mooring.files.schemas import CHOICES, as_object, kind_of, opened

Json = dict[str, Any]
MOST_DEEP: Final = 3
"""Steps on the way to an argument; schemas that are made of themselves have no end."""
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_FILE_WORDS: Final = frozenset(
    ("file", "files", "path", "paths", "filepath", "filepaths", "document", "attachment", "upload")
)
_CONTENT_WORDS: Final = frozenset(("image", "images", "pdf", "audio", "video", "attachments", "documents"))
_OUTPUT_WORDS: Final = frozenset(
    ("output", "out", "save", "destination", "dest", "target", "export", "filename")
)
_MAKING_WORDS: Final = frozenset(
    ("screenshot", "pdf", "export", "save", "render", "generate", "download", "draw", "plot", "convert")
)
_CHANGING_WORDS: Final = frozenset(
    ("write", "edit", "append", "create", "delete", "remove", "move", "rename", "patch", "update")
)
_NOT_FILES: Final = frozenset(
    ("url", "query", "pattern", "glob", "directory", "folder", "dir", "json", "xpath", "selector")
)
_SPEAKS_OF_FILES: Final = frozenset(("file", "saves", "saved", "image", "pdf", "disk"))
_PATH_FORMATS: Final = {"path", "file-path", "filepath", "binary", "byte"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """An adapter that somebody should look at: for which tool, and why."""

    tool: str
    type: Literal["upload_consumer", "artifact_producer"]
    argument: str | None
    why: str
    delivery: str = "auto"
    locator: str = "none"

    def as_config(self) -> Json:
        entry: Json = {"type": self.type, "tools": [self.tool]}
        if self.type == "upload_consumer":
            entry["file_path_argument"] = self.argument
            if self.delivery != "auto":
                entry["delivery"] = self.delivery
            return entry
        if self.argument is not None:
            entry["output_path_argument"] = self.argument
        if self.locator != "none":
            entry["output_locator"] = {"mode": self.locator}
        return entry


@dataclass(frozen=True, slots=True)
class Hints:
    """What a tool says about itself, in its name and its annotations."""

    makes: bool
    reads: bool
    changes: bool
    """It writes to what it is pointed at: that has to be where it was meant to be."""

    @classmethod
    def of(cls, tool: Json) -> Hints:
        annotations = as_object(tool.get("annotations"))
        titles = (tool.get("title"), annotations.get("title"))
        name = _words(str(tool.get("name")))
        words = name.union(*(_words(str(title)) for title in titles if title))
        return cls(
            makes=bool(words & _MAKING_WORDS),
            reads=annotations.get("readOnlyHint") is True,
            changes=annotations.get("destructiveHint") is True and bool(name & _CHANGING_WORDS),
        )


def proposals(tools: list[Json]) -> list[Proposal]:
    """For every tool what its schema suggests."""
    return [found for tool in tools for found in _of_tool(tool)]


def _of_tool(tool: Json) -> Iterator[Proposal]:
    name = str(tool.get("name"))
    hints = Hints.of(tool)
    any_output = False
    root = as_object(tool.get("inputSchema"))
    for path, schema in _leaves(root, "", root):
        found = _judge(name, path, schema, hints)
        if found is not None:
            any_output |= found.type == "artifact_producer"
            yield found
    if hints.makes and not any_output and _says_file(tool):
        yield Proposal(name, "artifact_producer", None, "its description speaks of a file", locator="regex")


def _judge(tool: str, path: str, schema: Json, hints: Hints) -> Proposal | None:
    words = _words(re.split(r"[.\[\]*]+", path.rstrip("[]*."))[-1])
    if "x-mcp-file" in schema:
        return Proposal(tool, "upload_consumer", path, "`x-mcp-file`")
    if schema.get("contentEncoding") == "base64":
        return Proposal(tool, "upload_consumer", path, "base64 content", delivery="base64")
    if words & _NOT_FILES:
        return None
    says_path = schema.get("format") in _PATH_FORMATS
    is_output = bool(words & _OUTPUT_WORDS)
    if is_output and (words & _FILE_WORDS or "filename" in words or hints.makes):
        return Proposal(tool, "artifact_producer", path, f"it writes to `{path}`", locator="regex")
    if hints.changes:
        return None
    if says_path or words & _FILE_WORDS or (words & _CONTENT_WORDS and _speaks_of_path(schema)):
        why = f"`format: {schema['format']}`" if says_path else f"the argument `{path}` names a file"
        delivery = "file_uri" if "uri" in words else "auto"
        why = f"it only reads, and {why}" if hints.reads else why
        return Proposal(tool, "upload_consumer", path, why, delivery)
    return None


def _leaves(schema: Json, path: str, root: Json) -> Iterator[tuple[str, Json]]:
    """Every text among the arguments, with its dotted path; lists of texts count as one."""
    properties = dict(as_object(schema.get("properties")))
    if path.count(".") > MOST_DEEP:
        return
    for name in list(properties):
        here = f"{path}.{name}".lstrip(".")
        outer, found = opened(properties, name, root)
        said = {key: value for key, value in outer.items() if key != "type" and key not in CHOICES}
        kind = kind_of(found)
        if kind == "object":
            yield from _leaves(found, here, root)
        elif kind == "array" and isinstance(found.get("items"), dict):
            _, items = opened(found, "items", root)
            if kind_of(items) == "object":
                yield from _leaves(items, f"{here}[*]", root)
            elif kind_of(items) == "string":
                own = {key: value for key, value in found.items() if key not in ("type", "items")}
                yield here, {**items, **own, **said}
        elif kind == "string" or _may_be_text(found):
            yield here, {**found, **said}


def _may_be_text(schema: Json) -> bool:
    """One text or several, as it pleases the caller."""
    kinds = schema.get("type")
    branches = [branch for name in CHOICES for branch in cast("list[Any]", schema.get(name) or [])]
    return (isinstance(kinds, list) and "string" in kinds) or any(
        as_object(branch).get("type") == "string" for branch in branches
    )


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(text)}


def _speaks_of_path(schema: Json) -> bool:
    return bool(_words(str(schema.get("description") or "")) & {"path", "file", "filename", "local"})


def _says_file(tool: Json) -> bool:
    return bool(_words(str(tool.get("description") or "")) & _SPEAKS_OF_FILES)
