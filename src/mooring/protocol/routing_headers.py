"""The headers that mirror a 2026-07-28 request (`Mcp-Method`, `Mcp-Name`, `Mcp-Param-*`): writing and
checking."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, cast

from mooring.errors import HeaderMismatch, MethodNotFound

VERSION_HEADER: Final = b"mcp-protocol-version"
METHOD_HEADER: Final = b"mcp-method"
NAME_HEADER: Final = b"mcp-name"
PARAM_PREFIX: Final = b"mcp-param-"

NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Which member of the params `Mcp-Name` repeats, by method."""

_SENTINEL_HEAD: Final = "=?base64?"
_SENTINEL_TAIL: Final = "?="
_SENTINEL_BYTES: Final = len(_SENTINEL_HEAD + _SENTINEL_TAIL)
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,3})?")
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SAFE_INTEGER: Final = 2**53 - 1
_PRIMITIVES: Final = ("string", "integer", "boolean")

Path = tuple[str, ...]


class InvalidHeaderAnnotation(ValueError):
    """A tool whose `x-mcp-header` breaks a rule; clients must not use such a tool."""


def encode_value(value: str) -> bytes:
    """A header value, in the sentinel form when plain ASCII cannot carry it."""
    plain = value.isascii() and value.isprintable() and value == value.strip(" \t")
    # Even where head and tail share their question mark: others may read that as a sentinel.
    if plain and not (value.startswith(_SENTINEL_HEAD) and value.endswith(_SENTINEL_TAIL)):
        return value.encode("ascii")
    return f"{_SENTINEL_HEAD}{base64.b64encode(value.encode()).decode()}{_SENTINEL_TAIL}".encode("ascii")


def decode_value(header: bytes) -> str:
    """The value that a header stands for; one that cannot be read is a mismatch, never a guess."""
    try:
        text = header.decode("ascii")
    except UnicodeDecodeError:
        raise HeaderMismatch("a header value has characters outside ASCII") from None
    is_sentinel = text.startswith(_SENTINEL_HEAD) and text.endswith(_SENTINEL_TAIL)
    if not is_sentinel or len(text) < _SENTINEL_BYTES:
        return text
    try:
        return base64.b64decode(text[len(_SENTINEL_HEAD) : -len(_SENTINEL_TAIL)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise HeaderMismatch("a header value is not valid base64") from None


def check(headers: Sequence[tuple[bytes, bytes]], version: object, method: str, name: object) -> None:
    """Refuse a request whose headers do not say what its body says."""
    _check_one(headers, VERSION_HEADER, "MCP-Protocol-Version", version)
    _check_one(headers, METHOD_HEADER, "Mcp-Method", method)
    if method in NAMED_BY and isinstance(name, str):
        _check_one(headers, NAME_HEADER, "Mcp-Name", name)


def _check_one(headers: Sequence[tuple[bytes, bytes]], key: bytes, label: str, expected: object) -> None:
    values = [value for name, value in headers if name == key]
    if not values:
        raise HeaderMismatch(f"header mismatch: `{label}` is missing")
    if len(values) > 1:
        raise HeaderMismatch(f"header mismatch: `{label}` is given more than once")
    # Only the name may come in the sentinel form.
    actual = decode_value(values[0]) if key == NAME_HEADER else values[0].decode("latin-1")
    if actual != expected:
        raise HeaderMismatch(f"header mismatch: `{label}` says {actual!r}, the body says {expected!r}")


def write(version: str, method: str, name: str | None) -> bytes:
    """The header block for a request of ours."""
    if not (method.isascii() and method.isprintable() and " " not in method):
        raise MethodNotFound(
            "no such method"
        )  # a line break in it would write headers of its sender's choice
    block = b"mcp-protocol-version: %b\r\nmcp-method: %b\r\n" % (
        version.encode(),
        method.encode("ascii", "replace"),
    )
    if name is not None:
        block += b"mcp-name: %b\r\n" % encode_value(name)
    return block


def annotated(schema: object) -> dict[Path, str]:
    """The `x-mcp-header` names of an input schema by path of properties, or the rule they break."""
    found: dict[Path, str] = {}
    if isinstance(schema, dict):
        _collect(cast("dict[str, Any]", schema), found)
        if _count(cast("dict[str, Any]", schema)) != len(found):
            raise InvalidHeaderAnnotation("`x-mcp-header` where it cannot be reached by properties alone")
    lowered = [name.lower() for name in found.values()]
    if len(set(lowered)) != len(lowered):
        raise InvalidHeaderAnnotation("two `x-mcp-header` names differ only in case, or not at all")
    return found


def _collect(root: dict[str, Any], found: dict[Path, str]) -> None:
    """Those that can be reached by properties alone; without recursion, since schemas may nest deeply."""
    waiting: list[tuple[Path, dict[str, Any]]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            continue
        for key, value in cast("dict[str, Any]", properties).items():
            if not isinstance(value, dict):
                continue
            child = cast("dict[str, Any]", value)
            if "x-mcp-header" in child:
                found[(*path, key)] = _checked_name(child)
            waiting.append(((*path, key), child))


def _checked_name(schema: dict[str, Any]) -> str:
    name = schema["x-mcp-header"]
    if not isinstance(name, str) or not name or not set(name) <= _TOKEN:
        raise InvalidHeaderAnnotation("an `x-mcp-header` name is not a header token")
    if schema.get("type") not in _PRIMITIVES:
        raise InvalidHeaderAnnotation(
            f"`x-mcp-header` {name!r} is on something else than a string, integer or boolean"
        )
    return name


def _count(value: object) -> int:
    """How many annotations stand anywhere in a schema."""
    total = 0
    stack: list[tuple[object, bool]] = [(value, True)]
    while stack:
        item, is_schema = stack.pop()
        if isinstance(item, dict):
            mapping = cast("dict[str, object]", item)
            total += is_schema and "x-mcp-header" in mapping
            for key, child in mapping.items():
                # A property may itself be called `x-mcp-header` or `default`: names are not keywords.
                names = key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
                data = key in ("default", "const", "enum", "examples", "x-mcp-header")
                if not (is_schema and data):
                    stack.append((child, not (is_schema and names)))
        elif isinstance(item, list):
            stack.extend((child, True) for child in cast("list[object]", item))
    return total


def param_headers(annotations: Mapping[Path, str], arguments: object) -> bytes:
    """The `Mcp-Param-*` block of one call; absent and null values have no header."""
    block = b""
    for path, name in annotations.items():
        value = _value_at(arguments, path)
        if value is not None:
            block += b"mcp-param-%b: %b\r\n" % (name.lower().encode("ascii"), encode_value(_spelled(value)))
    return block


def check_params(annotations: Mapping[Path, str], arguments: object, block: bytes) -> None:
    """Refuse a call whose `Mcp-Param-*` headers do not say what its arguments say."""
    given: dict[bytes, bytes] = {}
    for line in block.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        given[name] = value
    for path, name in annotations.items():
        value = _value_at(arguments, path)
        header = given.get(PARAM_PREFIX + name.lower().encode("ascii"))
        if value is None and header is None:
            continue
        if header is None or value is None:
            missing = "is missing" if header is None else "has no counterpart in the arguments"
            raise HeaderMismatch(f"header mismatch: `Mcp-Param-{name}` {missing}")
        if not _says(decode_value(header), value):
            raise HeaderMismatch(f"header mismatch: `Mcp-Param-{name}` does not match the arguments")


def _says(header: str, value: object) -> bool:
    """Integers are compared as numbers, exactly: 42.0 and 42 are one, 2**53 and 2**53 + 1 are two."""
    if header == _spelled(value):
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return _NUMBER.fullmatch(header) is not None and Decimal(header) == value


def _value_at(arguments: object, path: Path) -> object:
    value = arguments
    for key in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(key)
    return value if isinstance(value, str | int | float | bool) else None


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) <= _SAFE_INTEGER:
        return str(int(value))
    return str(value)
