"""Definitions that say the same in fewer words. What validates never changes: only notes about it do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from mooring.prompt.schemas import DEFINITIONS, Json, rebuilt, steps_of, subschemas
from mooring.prompt.wording import collapse_whitespace, shorten

SCHEMAS: Final = ("inputSchema", "outputSchema")
_MOVES_REFERENCES: Final = frozenset(
    {"$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
)
"""With one of these in it, only a full resolver can say which definitions of a schema are used."""


@dataclass(frozen=True, slots=True)
class Savings:
    """What to leave out. A description that holds one of `kept_whole` is not shortened."""

    strip_titles: bool = False
    collapse_whitespace: bool = False
    description_limit: int | None = None
    drop_unused_defs: bool = False
    kept_whole: tuple[str, ...] = ()

    def applied(self, tool: Json) -> Json:
        """The tool in fewer words; the very same members where there is nothing to save."""
        saved = dict(tool)
        if isinstance(tool.get("description"), str):
            saved["description"] = self._description(tool["description"])
        for name in SCHEMAS:
            if isinstance(tool.get(name), dict):
                saved[name] = self._schema(tool[name])
        return saved

    def _schema(self, schema: Json) -> Json:
        if self.drop_unused_defs:
            schema = without_unused_definitions(schema)
        return cast("Json", rebuilt(schema, self._notes))

    def _notes(self, node: Json) -> Json:
        if self.strip_titles and isinstance(node.get("title"), str):
            del node["title"]
        if isinstance(node.get("description"), str):
            node["description"] = self._description(node["description"])
        return node

    def _description(self, text: str) -> str:
        if self.collapse_whitespace:
            text = collapse_whitespace(text)
        if self.description_limit is not None and not any(word in text for word in self.kept_whole):
            text = shorten(text, self.description_limit)
        return text


def without_unused_definitions(schema: Json) -> Json:
    """Without the definitions that nothing leads to. In doubt everything stays."""
    defined = {
        (keyword, name)
        for keyword in DEFINITIONS
        if isinstance(schema.get(keyword), dict)
        for name in cast("Json", schema[keyword])
    }
    if not defined or any(_MOVES_REFERENCES & node.keys() for _, node in subschemas(schema)):
        return schema
    used = _used(schema, defined)
    if used is None or used == defined:
        return schema
    kept = dict(schema)
    for keyword in DEFINITIONS:
        if isinstance(schema.get(keyword), dict):
            names = cast("Json", schema[keyword])
            kept[keyword] = {name: names[name] for name in names if (keyword, name) in used}
            if not kept[keyword]:
                del kept[keyword]
    return kept


def _used(schema: Json, defined: set[tuple[str, str]]) -> set[tuple[str, str]] | None:
    """The definitions that the rest leads to, directly or through others; None: cannot be told."""
    used: set[tuple[str, str]] = set()
    waiting: list[Any] = [value for keyword, value in schema.items() if keyword not in DEFINITIONS]
    waiting.append({"$ref": schema.get("$ref")})
    while waiting:
        for reference in _references(waiting.pop()):
            if reference == "#":
                continue
            if not reference.startswith("#/"):
                return None
            steps = steps_of(reference)
            if steps[0] not in DEFINITIONS:
                continue
            if len(steps) == 1:
                return None
            found = (steps[0], steps[1])
            if found in defined and found not in used:
                used.add(found)
                waiting.append(schema[steps[0]][steps[1]])
    return used


def _references(value: Any) -> Iterator[str]:
    """Everything that could be a reference, wherever it stands: one too many only keeps a definition."""
    waiting: list[Any] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            for key, child in cast("Json", node).items():
                if key == "$ref" and isinstance(child, str):
                    yield child
                else:
                    waiting.append(child)
        elif isinstance(node, list):
            waiting.extend(cast("list[Any]", node))
