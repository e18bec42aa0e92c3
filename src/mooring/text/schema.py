"""Is a tree valid against the published ADF JSON schema?

Strict for what we write. Tolerant for what we read: products run ahead of the published schema, so unknown
node types, marks and attributes pass.
"""

import json
from functools import cache
from importlib import resources
from typing import Any, cast

import jsonschema_rs

from mooring.text.errors import InvalidDocument, Position
from mooring.text.report import format_path
from mooring.text.tree import INLINE_TYPES, MARK_RANK, Node, attributes, children, marks_of, walk


def is_valid(document: Node) -> bool:
    return _validator("doc").is_valid(document)


def is_tolerable(document: Node) -> bool:
    """Valid once everything the schema has never heard of is set aside."""
    return is_valid(_without_unknown(document))


def require_valid(document: Node) -> None:
    """Raise `InvalidDocument` with the path of the smallest node that breaks the schema."""
    if not is_valid(document):
        raise _fault(document)


def require_tolerable(document: Node) -> None:
    known = _without_unknown(document)
    if not is_valid(known):
        raise _fault(known)


def is_valid_node(item: Node) -> bool:
    """Does this node, wherever it may stand, follow one of the definitions for its type?"""
    kind = item.get("type")
    return isinstance(kind, str) and kind in known_types() and _validator(kind).is_valid(item)


def _fault(document: Node) -> InvalidDocument:
    """Names the deepest node that no definition accepts; else the node whose parent does not admit it."""
    path: tuple[int | str, ...] = ()
    current = document
    while True:
        wrong = [(index, child) for index, child in enumerate(children(current)) if not is_valid_node(child)]
        if not wrong:
            break
        path, current = (*path, "content", wrong[0][0]), wrong[0][1]
    return InvalidDocument(_reason(current), Position(path=format_path(path) or "."))


def _reason(item: Node) -> str:
    kind = item.get("type")
    if kind not in known_types():
        return f"the schema has no node type `{kind}`"
    error = next(iter(_validator(str(kind)).iter_errors(item)), None)
    if error is None:
        return f"`{kind}` holds something it may not hold here"
    message = error.message
    return f"`{kind}` does not follow the schema: {message if len(message) < 200 else message[:200] + '…'}"


@cache
def schema() -> dict[str, Any]:
    found = resources.files("mooring.text").joinpath("data/adf-schema.json").read_text("utf-8")
    return cast(dict[str, Any], json.loads(found))


@cache
def _definitions() -> dict[str, list[str]]:
    """Node type -> the definitions that describe it."""
    found: dict[str, list[str]] = {}
    for name, body in schema()["definitions"].items():
        kind = _type_of(body)
        if kind and name.endswith("_node"):
            found.setdefault(kind, []).append(name)
    return found


def _type_of(definition: dict[str, Any]) -> str | None:
    if "allOf" in definition:
        reference = definition["allOf"][0].get("$ref", "").rpartition("/")[2]
        return _type_of(schema()["definitions"][reference]) if reference else None
    kinds = definition.get("properties", {}).get("type", {}).get("enum", [])
    return kinds[0] if kinds else None


@cache
def known_types() -> frozenset[str]:
    return frozenset(_definitions())


@cache
def known_attributes(kind: str) -> frozenset[str]:
    """Every attribute some definition of this node type admits."""
    names: set[str] = set()
    for definition in _definitions().get(kind, []):
        attrs = schema()["definitions"][definition].get("properties", {}).get("attrs", {})
        for variant in attrs.get("anyOf", [attrs]):
            names |= set(variant.get("properties", {}))
    return frozenset(names)


@cache
def mark_attributes(kind: str) -> frozenset[str]:
    """Every attribute a mark of this type may have."""
    definition = schema()["definitions"].get(f"{kind}_mark", {})
    return frozenset(definition.get("properties", {}).get("attrs", {}).get("properties", {}))


def is_valid_mark(mark: dict[str, Any]) -> bool:
    kind = str(mark.get("type"))
    return f"{kind}_mark" in schema()["definitions"] and _mark_validator(kind).is_valid(mark)


@cache
def _mark_validator(kind: str) -> jsonschema_rs.Draft4Validator:
    reference = {"$ref": f"#/definitions/{kind}_mark"}
    return jsonschema_rs.Draft4Validator({"allOf": [reference], "definitions": schema()["definitions"]})


@cache
def _validator(kind: str) -> jsonschema_rs.Draft4Validator:
    references = [{"$ref": f"#/definitions/{name}"} for name in _definitions()[kind]]
    return jsonschema_rs.Draft4Validator({"anyOf": references, "definitions": schema()["definitions"]})


_STAND_IN = {"extensionType": "unknown", "extensionKey": "unknown"}


def _without_unknown(item: Node) -> Node:
    """A copy in which unknown types, marks and attributes are replaced by what the schema knows."""
    if all(_is_known(current) for _, current in walk(item)):
        return item
    kind = item.get("type")
    if kind not in known_types():
        inline = kind in INLINE_TYPES or str(kind).lower().startswith("inline")
        return {"type": "inlineExtension" if inline else "extension", "attrs": dict(_STAND_IN)}
    made = dict(item)
    if "attrs" in made:
        known = known_attributes(str(kind))
        made["attrs"] = {name: value for name, value in attributes(item).items() if name in known}
    if "marks" in made:
        made["marks"] = [each for each in marks_of(item) if each.get("type") in MARK_RANK]
    if "content" in made:
        made["content"] = [_without_unknown(child) for child in children(item)]
    return made


def _is_known(item: Node) -> bool:
    kind = item.get("type")
    return (
        kind in known_types()
        and all(each.get("type") in MARK_RANK for each in marks_of(item))
        and known_attributes(str(kind)).issuperset(attributes(item))
    )
