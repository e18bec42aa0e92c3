"""The OpenAPI document, made from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from mooring.interfaces.rest.failures import ErrorAnswer
from mooring.interfaces.rest.operations import Operation

_REF: Final = "#/components/schemas/{name}"
ALWAYS: Final = (400, 401, 403, 405, 413, 500)
"""What any request may be answered, besides what its operation names."""


def openapi_of(operations: Iterable[Operation], prefix: str, version: str) -> dict[str, Any]:
    """OpenAPI 3.1 for these operations."""
    operations = tuple(operations)
    types = {ErrorAnswer, *(kind for row in operations for kind in (row.answers, _body(row)) if kind)}
    ordered = sorted(types, key=str)
    shapes, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    schemas = dict(zip(ordered, shapes, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in operations:
        paths.setdefault(prefix + row.path, {})[row.method.lower()] = _operation(row, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mooring",
            "version": version,
            "description": "On the Unix socket of the gateway always; over TCP only with authentication.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _body(row: Operation) -> Any:
    return row.documented or row.takes


def _operation(row: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": _identifier(row),
        "summary": row.summary,
        "parameters": [*_path_parameters(row), *_query_parameters(row)],
        "responses": _responses(row, schemas),
    }
    if (body := _body(row)) is not None:
        content = {"application/json": {"schema": schemas[body]}}
        document["requestBody"] = {"required": True, "content": content}
    return document


def _identifier(row: Operation) -> str:
    words = re.findall(r"[a-z0-9_]+", row.path)
    return "_".join([row.method.lower(), *words])


def _path_parameters(row: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", row.path)
    ]


def _query_parameters(row: Operation) -> list[dict[str, Any]]:
    shape = msgspec.json.schema(row.query)["$defs"][row.query.__name__]
    required = set(shape.get("required", []))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(found)}
        for name, found in shape.get("properties", {}).items()
    ]


def _without_null(shape: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is null; one that is given is text."""
    choices = [choice for choice in shape.get("anyOf", []) if choice != {"type": "null"}]
    return (
        {**{key: shape[key] for key in shape if key not in ("anyOf", "default")}, **choices[0]}
        if choices
        else shape
    )


def _responses(row: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    failed = {"application/json": {"schema": schemas[ErrorAnswer]}}
    answers: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, "content": failed}
        for status in sorted({*ALWAYS, *row.errors})
    }
    if row.answers is None:
        answers["204"] = {"description": "Done."}
    else:
        kind = "application/x-ndjson" if row.lines else "application/json"
        content: dict[str, Any] = {kind: {} if row.lines else {"schema": schemas[row.answers]}}
        if row.has_progress:
            content["text/event-stream"] = {}
        answers[str(row.status)] = {"description": "Done.", "content": content}
    if row.has_progress and row.answers is None:
        answers["200"] = {"description": "Events.", "content": {"text/event-stream": {}}}
    return answers
