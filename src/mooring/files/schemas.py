"""JSON Schemas as programs write them: said in another place, or as a choice of something or nothing."""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import unquote

Json = dict[str, Any]
CHOICES: Final = ("anyOf", "oneOf", "allOf")
MOST_STEPS: Final = 8
"""A reference may lead to itself."""


def opened(holder: Json, key: str, root: Json) -> tuple[Json, Json]:
    """A schema in another one, and what it stands for, which may be the same. Both are copies in the place of
    what was there, to be changed."""
    outer = inner = holder[key] = _resolved(as_object(holder[key]), root)
    for _ in range(MOST_STEPS):
        chosen = choice(inner)
        if chosen is None:
            break
        at, name = chosen
        branches = inner[name] = list(inner[name])
        inner = branches[at] = _resolved(as_object(branches[at]), root)
    return outer, inner


def _resolved(schema: Json, root: Json) -> Json:
    """A copy, with what it refers to in the place of the reference."""
    for _ in range(MOST_STEPS):
        target = referred(schema, root)
        if target is None:
            break
        schema = {**target, **{name: value for name, value in schema.items() if name != "$ref"}}
    return dict(schema)


def choice(schema: Json) -> tuple[int, str] | None:
    """The only branch that is not nothing, and what it is a branch of."""
    for name in CHOICES:
        branches = cast("list[Any]", schema.get(name)) if isinstance(schema.get(name), list) else []
        something = [at for at, branch in enumerate(branches) if as_object(branch).get("type") != "null"]
        if len(something) == 1:
            return something[0], name
    return None


def referred(schema: Json, root: Json) -> Json | None:
    """What a reference within the same schema leads to."""
    path = schema.get("$ref")
    if not isinstance(path, str) or not path.startswith("#"):
        return None
    found: Any = root
    for step in path[1:].split("/")[1:]:
        found = as_object(found).get(unquote(step).replace("~1", "/").replace("~0", "~"))
    return cast("Json", found) if isinstance(found, dict) else None


def kind_of(schema: Json) -> str | None:
    """Its type, if there is one besides nothing."""
    kind = schema.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    something = [one for one in kinds if one != "null"]
    return something[0] if len(something) == 1 and isinstance(something[0], str) else None


def as_object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
