"""What storage format says about a node and ADF has no attribute for rides in the node's `localId`.

A plain id stays as it is. With anything more the `localId` reads `storage:` and a query string:
`storage:id=4c1f&@class=auto-cursor-target`. A key that begins with `@` is an attribute to write back,
one that begins with `:` a macro parameter, any other a note of the reader to the writer.
"""

from urllib.parse import parse_qsl, quote, urlencode

PREFIX = "storage:"
IDENTIFIER = "id"

Extras = dict[str, str]


def pack(identifier: str | None, extras: Extras) -> str | None:
    """The `localId` that holds both, or None when there is nothing to hold."""
    if not extras and (identifier is None or not identifier.startswith(PREFIX)):
        return identifier
    pairs = {**({} if identifier is None else {IDENTIFIER: identifier}), **extras}
    return PREFIX + urlencode(pairs, quote_via=quote, safe="@:;,/ ")


def unpack(local_id: object) -> tuple[str | None, Extras]:
    """The plain id and the extras of a `localId`; one that `pack` did not make is a plain id."""
    if not isinstance(local_id, str):
        return None, {}
    if not local_id.startswith(PREFIX):
        return local_id, {}
    extras = dict(parse_qsl(local_id.removeprefix(PREFIX), keep_blank_values=True))
    identifier = extras.pop(IDENTIFIER, None)
    return (identifier, extras) if pack(identifier, extras) == local_id else (local_id, {})


def attributes_in(extras: Extras) -> dict[str, str]:
    return {key[1:]: value for key, value in extras.items() if key.startswith("@")}


def parameters_in(extras: Extras) -> dict[str, str]:
    return {key[1:]: value for key, value in extras.items() if key.startswith(":")}
