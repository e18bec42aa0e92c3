"""Walking a JSON Schema: only where a schema can stand, never into data that merely looks like one.

`title` is a note about a schema, but also a fine name for a property, and anything at all inside `enum`,
`const`, `default` or `examples`. So every walk goes from keyword to keyword, and leaves unknown ones alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast
from urllib.parse import unquote

Json = dict[str, Any]
Path = tuple[str | int, ...]

IN_MAPS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
"""Keywords that hold schemas by name."""
IN_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE: Final = frozenset(
    {
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "additionalItems", "unevaluatedItems", "contains"),
        *("not", "if", "then", "else", "contentSchema"),
    }
)
DEFINITIONS: Final = ("$defs", "definitions")


def subschemas(schema: Any, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """The schema and every schema in it, outermost first, each with the way to it."""
    if not isinstance(schema, dict):
        return
    node = cast("Json", schema)
    yield path, node
    for keyword, value in node.items():
        for step, child in children(keyword, value):
            yield from subschemas(child, (*path, keyword, *step))


def children(keyword: str, value: Any) -> Iterator[tuple[Path, Any]]:
    """The schemas directly below a keyword, each with the way from there."""
    if keyword in IN_MAPS and isinstance(value, dict):
        for name, child in cast("Json", value).items():
            yield (name,), child
    elif (keyword in IN_LISTS or keyword == "items") and isinstance(value, list):
        for index, child in enumerate(cast("list[Any]", value)):
            yield (index,), child
    elif keyword in SINGLE:
        yield (), value


def rebuilt(schema: Any, change: Callable[[Json], Json]) -> Any:
    """A copy in which every schema has gone through `change`, inner ones first."""
    if not isinstance(schema, dict):
        return schema
    return change(
        {keyword: _rebuilt(keyword, value, change) for keyword, value in cast("Json", schema).items()}
    )


def _rebuilt(keyword: str, value: Any, change: Callable[[Json], Json]) -> Any:
    if keyword in IN_MAPS and isinstance(value, dict):
        return {name: rebuilt(child, change) for name, child in cast("Json", value).items()}
    if (keyword in IN_LISTS or keyword == "items") and isinstance(value, list):
        return [rebuilt(child, change) for child in cast("list[Any]", value)]
    return rebuilt(value, change) if keyword in SINGLE else value


def resolve(root: Json, reference: str) -> Any:
    """What a reference within the same document leads to; LookupError if nowhere."""
    node: Any = root
    for step in steps_of(reference):
        if isinstance(node, dict):
            node = cast("Json", node)[step]
        elif isinstance(node, list) and step.isdigit():
            node = cast("list[Any]", node)[int(step)]
        else:
            raise LookupError(step)
    return node


def steps_of(reference: str) -> list[str]:
    """The steps of a `#/...` pointer."""
    pointer = unquote(reference.removeprefix("#"))
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def pointer(path: Path) -> str:
    """A way through a schema as people write it: `properties.filter.anyOf[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
