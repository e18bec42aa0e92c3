"""Renders `docs/reference/configuration.md` from the schema, so that the two cannot disagree.

`python -m mooring.config.reference FILE` writes it; a test compares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import NODEFAULT, inspect

from mooring.config.absent import ABSENT
from mooring.config.problems import key_text
from mooring.config.reading import bare_type, description_of, unit_of
from mooring.config.schema import Config

_INTRODUCTION = """\
# Configuration

`mooring serve --config FILE` reads YAML (or JSON, by its ending `.json`). An unknown key, a wrong type or a
missing environment variable is an error that names the key, its place and what to do; all problems of a file
are reported at once.

- Paths are relative to the file. `~` is your home folder.
- `${NAME}` in a value is an environment variable; `${NAME:-default}` has a default; `$${NAME}` is left alone.
- Sizes are numbers of bytes, or `8Ki`, `8Mi`, `8Gi` (powers of 1024), `8KB`, `8MB`, `8GB` (powers of 1000).
- A file with `mcpServers` as desktop clients write it (in VS Code: `servers`) is taken as it is; see
  [Use your client's file](../guides/desktop-files.md).

This page is generated from `src/mooring/config/schema.py`.
"""

_ABSENT_INTRODUCTION = """\
## Not in this version

These keys belong to the format. This version accepts them while they are off (`null`, `false`, `none`, empty)
and refuses everything else, so that nobody relies on a guard that is not there:
"""


def render() -> str:
    """The whole page."""
    root = cast("inspect.StructType", inspect.type_info(Config))
    tables = "\n".join(_section(name, kind) for name, kind in _sections("", root))
    absent = "\n".join(f"- `{key_text(path).replace('.*', '[]')}`" for path in ABSENT)
    return f"{_INTRODUCTION}\n{tables}\n{_ABSENT_INTRODUCTION}\n{absent}\n"


def _sections(name: str, kind: inspect.StructType) -> Iterator[tuple[str, inspect.StructType]]:
    yield name, kind
    for entry in kind.fields:
        inner, suffix = _inner(entry.type)
        if isinstance(inner, inspect.StructType):
            yield from _sections(f"{name}.{entry.name}{suffix}".lstrip("."), inner)


def _inner(kind: inspect.Type) -> tuple[inspect.Type, str]:
    """The type behind optional and list, and how a path shows that."""
    found = bare_type(kind)
    if isinstance(found, inspect.ListType):
        return bare_type(found.item_type), "[]"
    if isinstance(found, inspect.DictType) and isinstance(bare_type(found.value_type), inspect.StructType):
        return bare_type(found.value_type), ".<name>"
    if isinstance(found, inspect.UnionType):
        return next(item for item in found.types if not isinstance(item, inspect.NoneType)), ""
    return found, ""


def _section(name: str, kind: inspect.StructType) -> str:
    title = f"## `{name}`" if name else "## The top level"
    rows = "\n".join(
        f"| `{entry.name}` | {_type_name(entry.type)} | {_default(entry)} | {description_of(entry.type)} |"
        for entry in kind.fields
    )
    head = "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    return f"{title}\n\n{kind.cls.__doc__}\n\n{head}\n{rows}\n"


def _type_name(kind: inspect.Type) -> str:
    if unit := unit_of(kind):
        return _UNITS[unit]
    match bare_type(kind):
        case inspect.UnionType() as union:
            return " or ".join(_type_name(item) for item in union.types)
        case inspect.LiteralType(values):
            return ", ".join(f"`{value}`" for value in values)
        case inspect.DictType(_, value) if isinstance(bare_type(value), inspect.StructType):
            return "names and sections"
        case inspect.VarTupleType(item):
            return "list of numbers" if isinstance(bare_type(item), inspect.IntType) else "list of texts"
        case inspect.ListType(item):
            return "list of sections" if isinstance(bare_type(item), inspect.StructType) else "list of texts"
        case found:
            return _NAMES[type(found)]


_UNITS: dict[str, str] = {
    "bytes": "size",
    "command": "list or text",
    "profile": "name, file or section",
    "texts": "text or list of texts",
}
_NAMES: dict[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.IntType: "whole number",
    inspect.FloatType: "number",
    inspect.BoolType: "`true`, `false`",
    inspect.NoneType: "`null`",
    inspect.CustomType: "path",
    inspect.DictType: "names and texts",
    inspect.StructType: "section",
}


def _default(entry: inspect.Field) -> str:
    if entry.required:
        return "required"
    if entry.default is NODEFAULT or entry.default == ():
        made: Any = () if entry.default_factory is NODEFAULT else entry.default_factory()
        return f"`{json.dumps(made)}`" if made and isinstance(made, list) else "empty"
    if isinstance(_inner(entry.type)[0], inspect.StructType):
        return "none" if entry.default is None else "see below"
    if unit_of(entry.type) == "bytes":
        return f"`{_size(entry.default)}`"
    return (
        f"`{entry.default}`" if isinstance(entry.default, (str, Path)) else f"`{json.dumps(entry.default)}`"
    )


def _size(number: int) -> str:
    """A size as one would write it."""
    for power, unit in ((2, "Mi"), (1, "Ki")):
        if number and number % 1024**power == 0:
            return f"{number // 1024**power}{unit}"
    return str(number)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
