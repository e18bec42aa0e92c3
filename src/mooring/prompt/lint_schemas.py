"""Input schemas: what models cannot choose between, and what clients cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from mooring.prompt.findings import Finding
from mooring.prompt.lint_names import name_of
from mooring.prompt.schemas import Json, pointer, resolve, subschemas

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SELF_EXPLAINING: Final = 3
"""Letters that a value of an enum needs at least to say something by itself."""
_ROOT_UNIONS: Final = ("anyOf", "oneOf", "allOf")


def of(tool: Json) -> Iterator[Finding]:
    name = name_of(tool) or "?"
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or cast("Json", schema).get("type") != "object":
        problem = 'is no schema of `"type": "object"`'
        fix = 'give `{"type": "object", "properties": {...}}`, also for a tool without arguments'
        yield Finding("error", "schema-not-object", name, "inputSchema", problem, fix)
    if not isinstance(schema, dict):
        return
    root = cast("Json", schema)
    yield from _root(root, name)
    yield from _references(root, name)
    for path, node in subschemas(root, ("inputSchema",)):
        where = pointer(path)
        yield from _unions(root, node, name, where)
        yield from _enums(node, name, where)
        yield from _parts(node, name, where)


def _root(root: Json, name: str) -> Iterator[Finding]:
    for keyword in _ROOT_UNIONS:
        if keyword in root:
            problem = f"has `{keyword}` at the top, which several model APIs refuse"
            fix = "list all properties in one object, and say in descriptions which belong together"
            yield Finding("error", "schema-root-union", name, f"inputSchema.{keyword}", problem, fix)


# References


def _references(root: Json, name: str) -> Iterator[Finding]:
    plain: list[str] = []
    for path, node in subschemas(root, ("inputSchema",)):
        reference = node.get("$ref", node.get("$dynamicRef"))
        if not isinstance(reference, str):
            continue
        where = pointer(path)
        if not reference.startswith("#"):
            problem = f"refers to another document, `{reference}`, which clients do not fetch"
            yield Finding("error", "ref-outside", name, where, problem, "copy the definition into `$defs`")
        elif reference.startswith("#/") and not _leads_somewhere(root, reference):
            problem, fix = (
                f"refers to `{reference}`, which is not there",
                "add the definition, or mend the name",
            )
            yield Finding("error", "ref-broken", name, where, problem, fix)
        else:
            plain.append(where)
    if circle := _circle(root):
        problem = f"`{circle}` contains itself: clients that write references out never end"
        fix = "bound the depth, or take the nested part as JSON text"
        yield Finding("warning", "recursion", name, "inputSchema", problem, fix)
    if plain:
        more = f" and {len(plain) - 1} more" if len(plain) > 1 else ""
        problem = f"`$ref` at `{plain[0]}`{more}: some clients do not resolve it, some strip it"
        yield Finding("warning", "ref", name, "inputSchema", problem, "write the definition out in its place")


def _leads_somewhere(root: Json, reference: str) -> bool:
    try:
        resolve(root, reference)
    except LookupError:
        return False
    return True


def _circle(root: Json) -> str | None:
    """A reference that leads back to itself; each is followed once."""
    leads: dict[str, set[str]] = {}
    waiting = ["#"]
    while waiting:
        reference = waiting.pop()
        if reference in leads:
            continue
        leads[reference] = set(_directly(root, reference))
        waiting.extend(leads[reference])
    finished: set[str] = set()
    for start in leads:
        if found := _back_to_itself(start, leads, finished):
            return found
    return None


def _directly(root: Json, reference: str) -> Iterator[str]:
    try:
        target = resolve(root, reference) if reference != "#" else root
    except LookupError:
        return
    inner = cast("Json", target) if isinstance(target, dict) else {}
    # What merely stands among the definitions is not used yet.
    used = {key: value for key, value in inner.items() if key not in ("$defs", "definitions")}
    for _, node in subschemas(used):
        if isinstance(found := node.get("$ref"), str) and (found == "#" or found.startswith("#/")):
            yield found


def _back_to_itself(start: str, leads: dict[str, set[str]], finished: set[str]) -> str | None:
    way: list[tuple[str, list[str]]] = [(start, sorted(leads[start]))]
    active = {start}
    while way:
        here, rest = way[-1]
        if not rest:
            active.discard(here)
            finished.add(here)
            way.pop()
            continue
        following = rest.pop()
        if following in active:
            return following
        if following not in finished:
            active.add(following)
            way.append((following, sorted(leads[following])))
    return None


# Choices


def _unions(root: Json, node: Json, name: str, where: str) -> Iterator[Finding]:
    fix = (
        "take one shape, or add a property with a different `const` to each branch and say when to use which"
    )
    for keyword in ("anyOf", "oneOf"):
        branches = node.get(keyword)
        if not isinstance(branches, list):
            continue
        shapes = [_followed(root, branch) for branch in cast("list[Any]", branches)]
        real = [
            shape for shape in shapes if shape.get("type") != "null" and shape.get("const", 0) is not None
        ]
        if len(real) > 1 and not _told_apart(real):
            problem = f"`{keyword}` of {len(real)} shapes that nothing tells apart: models struggle to choose"
            yield Finding("warning", "union-ambiguous", name, f"{where}.{keyword}", problem, fix)
    kinds = node.get("type")
    if isinstance(kinds, list):
        several = [str(kind) for kind in cast("list[Any]", kinds) if kind != "null"]
        if len(several) > 1:
            problem = f"may be {' or '.join(several)}: models struggle to choose, some clients refuse it"
            yield Finding("warning", "union-ambiguous", name, f"{where}.type", problem, "take one type")


def _followed(root: Json, branch: Any) -> Json:
    """The branch itself, through at most a few references."""
    for _ in range(10):
        if not isinstance(branch, dict):
            return {}
        node = cast("Json", branch)
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return node
        try:
            branch = resolve(root, reference)
        except LookupError:
            return {}
    return {}


def _told_apart(shapes: list[Json]) -> bool:
    """All constants, or objects each with its own value of the same property."""
    if all("const" in shape or "enum" in shape for shape in shapes):
        return True
    tags = [_tags(shape) for shape in shapes]
    common = set(tags[0]).intersection(*tags)
    return any(len({tag[key] for tag in tags}) == len(tags) for key in common)


def _tags(shape: Json) -> dict[str, str]:
    properties = shape.get("properties")
    found: dict[str, str] = {}
    for key, value in (cast("Json", properties) if isinstance(properties, dict) else {}).items():
        if isinstance(value, dict):
            node = cast("Json", value)
            if "const" in node or "enum" in node:
                found[key] = repr(node.get("const", node.get("enum")))
    return found


def _enums(node: Json, name: str, where: str) -> Iterator[Finding]:
    values = node.get("enum")
    if not isinstance(values, list):
        return
    given = str(node.get("description") or "")
    mute = [
        value for value in cast("list[Any]", values) if not _speaks(value) and not _mentions(given, value)
    ]
    if mute and not any(key in node for key in ("enumNames", "x-enumNames", "enumDescriptions")):
        shown = ", ".join(f"`{value}`" for value in mute[:4])
        fix = "use words as values, or say in the description what each means: `1 = low, 2 = high`"
        problem = f"values {shown} do not say what they mean"
        yield Finding("warning", "enum-unnamed", name, where, problem, fix)


def _speaks(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    return isinstance(value, str) and sum(character.isalpha() for character in value) >= _SELF_EXPLAINING


def _mentions(text: str, value: Any) -> bool:
    return re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text) is not None


def _parts(node: Json, name: str, where: str) -> Iterator[Finding]:
    properties = node.get("properties")
    names = cast("Json", properties) if isinstance(properties, dict) else {}
    for key in names:
        if not _KEY.fullmatch(key):
            problem = f"`{key[:80]}` has characters or a length that model APIs refuse in names of parameters"
            fix = "use 1 to 64 letters, digits, `_`, `.` and `-`"
            yield Finding("error", "parameter-name", name, f"{where}.properties", problem, fix)
    required = node.get("required")
    for key in cast("list[Any]", required) if isinstance(required, list) else []:
        if names and key not in names:
            problem, fix = (
                f"requires `{key}`, which it does not describe",
                "add it to `properties`, or mend the name",
            )
            yield Finding("error", "required-unknown", name, f"{where}.required", problem, fix)
    if node.get("type") == "array" and not ({"items", "prefixItems"} & node.keys()):
        problem, fix = (
            "is an array of anything, which some model APIs refuse",
            "say what stands in it with `items`",
        )
        yield Finding("error", "array-without-items", name, where, problem, fix)
