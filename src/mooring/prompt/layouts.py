"""The tool block as models see it: the layouts in which hosts write tools in front of a conversation.

Hosts differ and change; these four are the families they belong to. Each is written as pieces of text, and
each piece says which field of the definition it is there for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from mooring.prompt.schemas import IN_LISTS, IN_MAPS, SINGLE, Json

Piece = tuple[str, str]
"""A field, and text that is there because of it."""
FRAME: Final = "frame"
NAME: Final = "name"
DESCRIPTION: Final = "description"
PARAMETER_NAMES: Final = "parameter names"
PARAMETER_DESCRIPTIONS: Final = "parameter descriptions"
TITLES: Final = "titles"
TYPES: Final = "types"
VALUES: Final = "enums and defaults"
DEFINITIONS: Final = "definitions"
FIELDS: Final = (
    *(NAME, DESCRIPTION, PARAMETER_NAMES, PARAMETER_DESCRIPTIONS),
    *(TITLES, TYPES, VALUES, DEFINITIONS, FRAME),
)
_FIELD_OF: Final = {
    "title": TITLES,
    "description": PARAMETER_DESCRIPTIONS,
    **dict.fromkeys(("enum", "const", "default", "examples"), VALUES),
    **dict.fromkeys(("$ref", "$defs", "definitions"), DEFINITIONS),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How one family of hosts writes tools."""

    about: str
    begin: str
    tool: Callable[[Json], Iterator[Piece]]
    end: str


def render(layout: Layout, tools: list[Json]) -> str:
    """The whole block as text."""
    return layout.begin + "".join(text for tool in tools for _, text in layout.tool(tool)) + layout.end


# As JSON


def _functions(tool: Json) -> Iterator[Piece]:
    yield FRAME, '<function>{"description": '
    yield DESCRIPTION, _json(_description(tool))
    yield FRAME, ', "name": '
    yield NAME, _json(_name(tool))
    yield FRAME, ', "parameters": '
    yield from _schema(tool.get("inputSchema", {}))
    yield FRAME, "}</function>\n"


def _chat(tool: Json) -> Iterator[Piece]:
    yield FRAME, '{"type": "function", "function": {"name": '
    yield NAME, _json(_name(tool))
    yield FRAME, ', "description": '
    yield DESCRIPTION, _json(_description(tool))
    yield FRAME, ', "parameters": '
    yield from _schema(tool.get("inputSchema", {}))
    yield FRAME, "}}\n"


def _schema(schema: Any) -> Iterator[Piece]:
    """A schema as JSON, keyword by keyword."""
    if not isinstance(schema, dict):
        yield TYPES, _json(schema)
        return
    yield TYPES, "{"
    comma = ""
    for keyword, value in cast("Json", schema).items():
        field = _FIELD_OF.get(keyword, TYPES)
        yield field, f"{comma}{_json(keyword)}: "
        yield from _value(keyword, value, field)
        comma = ", "
    yield TYPES, "}"


def _value(keyword: str, value: Any, field: str) -> Iterator[Piece]:
    comma = ""
    if keyword in IN_MAPS and isinstance(value, dict):
        names = PARAMETER_NAMES if keyword == "properties" else DEFINITIONS
        yield field, "{"
        for name, child in cast("Json", value).items():
            yield names, f"{comma}{_json(name)}: "
            yield from _schema(child)
            comma = ", "
        yield field, "}"
    elif (keyword in IN_LISTS or keyword == "items") and isinstance(value, list):
        yield field, "["
        for child in cast("list[Any]", value):
            yield field, comma
            yield from _schema(child)
            comma = ", "
        yield field, "]"
    elif keyword in SINGLE:
        yield from _schema(value)
    else:
        yield field, _json(value)


# As declarations


def _typescript(tool: Json) -> Iterator[Piece]:
    for line in _description(tool).splitlines():
        yield DESCRIPTION, f"// {line}\n"
    yield FRAME, "type "
    yield NAME, _name(tool)
    yield FRAME, " = (_: {\n"
    for name, schema, required in _parameters(tool):
        for line in str(schema.get("description") or "").splitlines():
            yield PARAMETER_DESCRIPTIONS, f"// {line}\n"
        yield PARAMETER_NAMES, name if required else f"{name}?"
        yield TYPES, ": "
        yield _typed(schema, _typescript_type(schema))
        yield TYPES, ","
        if "default" in schema:
            yield VALUES, f" // default: {_json(schema['default'])}"
        yield TYPES, "\n"
    yield FRAME, "}) => any;\n\n"


def _typescript_type(schema: Json) -> str:
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"{_typescript_type(cast('Json', items)) if isinstance(items, dict) else 'any'}[]"
    if kind == "object" and isinstance(schema.get("properties"), dict):
        inner = (
            f"{name}: {_typescript_type(child)}" for name, child, _ in _parameters({"inputSchema": schema})
        )
        return f"{{ {', '.join(inner)} }}"
    return {"integer": "number", "object": "object"}.get(str(kind), str(kind)) if kind else "any"


# As a list in words


def _listing(tool: Json) -> Iterator[Piece]:
    yield FRAME, "<tool>\n<name>"
    yield NAME, _name(tool)
    yield FRAME, "</name>\n<description>"
    yield DESCRIPTION, _description(tool)
    yield FRAME, "</description>\n<parameters>\n"
    for name, schema, required in _parameters(tool):
        yield PARAMETER_NAMES, f"  {name} "
        yield TYPES, "("
        yield _typed(schema, str(schema.get("type") or "any"))
        yield TYPES, f", {'required' if required else 'optional'}"
        if "default" in schema:
            yield VALUES, f", default {_json(schema['default'])}"
        yield TYPES, "): "
        yield PARAMETER_DESCRIPTIONS, f"{schema.get('description') or ''}\n"
    yield FRAME, "</parameters>\n</tool>\n\n"


def _typed(schema: Json, otherwise: str) -> Piece:
    values = schema.get("enum")
    if isinstance(values, list):
        return VALUES, " | ".join(_json(value) for value in cast("list[Any]", values))
    return TYPES, otherwise


def _parameters(tool: Json) -> Iterator[tuple[str, Json, bool]]:
    schema = tool.get("inputSchema")
    root = cast("Json", schema) if isinstance(schema, dict) else {}
    properties, required = root.get("properties"), root.get("required")
    for name, child in (cast("Json", properties) if isinstance(properties, dict) else {}).items():
        wanted = isinstance(required, list) and name in cast("list[Any]", required)
        yield name, cast("Json", child) if isinstance(child, dict) else {}, wanted


def _name(tool: Json) -> str:
    return str(tool.get("name") or "")


def _description(tool: Json) -> str:
    return str(tool.get("description") or "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


LAYOUTS: Final = {
    "functions": Layout(
        "one JSON schema per `<function>`",
        "You can call these functions:\n<functions>\n",
        _functions,
        "</functions>\n",
    ),
    "chat": Layout(
        "one line of JSON per tool, as templates of open models do",
        "# Tools\n\nFunctions you may call:\n<tools>\n",
        _chat,
        "</tools>\n",
    ),
    "typescript": Layout(
        "declarations in a namespace", "namespace functions {\n\n", _typescript, "} // namespace functions\n"
    ),
    "listing": Layout("a list of parameters in words", "You have these tools:\n\n", _listing, ""),
}
"""By name; the first is the default."""
