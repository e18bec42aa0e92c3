"""Is a tree valid against the published ADF JSON schema?"""

import json
from functools import cache
from importlib import resources
from typing import Any, cast

import jsonschema_rs

from mooring.text.tree import Node


def is_valid(document: Node) -> bool:
    return _validator("doc").is_valid(document)


def is_valid_node(item: Node) -> bool:
    """Does this node, wherever it may stand, follow one of the definitions for its type?"""
    kind = item.get("type")
    return isinstance(kind, str) and kind in known_types() and _validator(kind).is_valid(item)


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
