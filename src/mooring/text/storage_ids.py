"""What storage format says about a node and ADF has no attribute for rides in the node's `localId`.

A plain id stays as it is. With anything more the `localId` is a list of notes: `storage:bare`, or
`storage:id.4c1f:_40class.auto-cursor-target`. A key that begins with `@` is an attribute to write back, one
that begins with `:` a macro parameter, any other a note of the reader to the writer. Signs are written as
`_` and two digits, so that the whole is still an identifier everywhere.
"""

import re

PREFIX = "storage:"
IDENTIFIER = "id"
_YES = "1"
_SIGN = re.compile(r"[^A-Za-z0-9-]")
_BYTES = re.compile(r"(?:_[0-9a-f]{2})+")

Extras = dict[str, str]


def pack(identifier: str | None, extras: Extras) -> str | None:
    """The `localId` that holds both, or None when there is nothing to hold."""
    if not extras and (identifier is None or not identifier.startswith(PREFIX)):
        return identifier
    pairs = {**({} if identifier is None else {IDENTIFIER: identifier}), **extras}
    return PREFIX + ":".join(
        _quoted(key) if value == _YES else f"{_quoted(key)}.{_quoted(value)}" for key, value in pairs.items()
    )


def unpack(local_id: object) -> tuple[str | None, Extras]:
    """The plain id and the extras of a `localId`; one that `pack` did not make is a plain id."""
    if not isinstance(local_id, str):
        return None, {}
    if not local_id.startswith(PREFIX):
        return local_id, {}
    extras: Extras = {}
    for pair in local_id.removeprefix(PREFIX).split(":"):
        key, dot, value = pair.partition(".")
        extras[_unquoted(key)] = _unquoted(value) if dot else _YES
    identifier = extras.pop(IDENTIFIER, None)
    return (identifier, extras) if pack(identifier, extras) == local_id else (local_id, {})


def _quoted(value: str) -> str:
    return _SIGN.sub(
        lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass")), value
    )


def _unquoted(value: str) -> str:
    if "_" not in value:
        return value
    return _BYTES.sub(
        lambda found: bytes.fromhex(found[0].replace("_", "")).decode("utf-8", "replace"), value
    )


def attributes_in(extras: Extras) -> dict[str, str]:
    return {key[1:]: value for key, value in extras.items() if key.startswith("@")}


def parameters_in(extras: Extras) -> dict[str, str]:
    return {key[1:]: value for key, value in extras.items() if key.startswith(":")}
