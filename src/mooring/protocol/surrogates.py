r"""Half a character in a JSON string: `"\ud800"` alone is legal JSON, and stands for no text at all.

Our decoder refuses it, wherever it is; but what we only pass on must come out as it went in. So where
decoding has failed, it is tried again on a copy in which such an escape is replaced by another of the same
length, and the slices are then taken from the original at the same places. This costs nothing as long as
nobody does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from mooring.errors import ParseFailed
from mooring.protocol.spans import ObjectScanner

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair, which is a character
    rb"|\\(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


def readable(data: bytes | Raw) -> bytes | None:
    """A copy of the same length without half characters; None if there are none."""
    original = bytes(data)
    copy = _ESCAPES.sub(lambda found: rb"\ufffd" if found["half"] else found[0], original)
    return None if copy == original else copy


def members(data: bytes | Raw) -> dict[str, Raw] | None:
    """The members of an object whose strings hold half characters; None if that was not what is wrong."""
    copy = readable(data)
    if copy is None:
        return None
    names = _decode_members(copy)  # or it says what else is wrong
    scanner = ObjectScanner(most=len(copy))
    original = bytes(data)
    scanner.feed(original)
    scanner.finish()
    if scanner.members.keys() != names.keys():
        raise ParseFailed("a name has half a character in it, or is very long")
    return {name: Raw(original[span.start : span.end]) for name, span in scanner.members.items()}


def decoded(data: bytes | Raw, strictly: Callable[[bytes], S]) -> S | None:
    """The same as a struct: its raw members are the original's, the others must be readable as they are."""
    copy = readable(data)
    found = members(data)
    if copy is None or found is None:
        return None
    struct = strictly(copy)
    slices: dict[str, Raw] = {}
    for field in msgspec.structs.fields(struct):
        raw = found.get(field.encode_name)
        if raw is None:
            continue
        if isinstance(getattr(struct, field.name), Raw):
            slices[field.name] = raw
        elif readable(raw) is not None:
            raise ParseFailed(f"`{field.encode_name}` is no text: it has half a character in it")
    return msgspec.structs.replace(struct, **slices)


def items(data: bytes | Raw, strictly: Callable[[bytes], list[Raw]]) -> list[Raw] | None:
    """The same for an array."""
    copy = readable(data)
    if copy is None:
        return None
    original, place = bytes(data), 0
    found: list[Raw] = []
    for item in strictly(copy):
        text = bytes(item)
        place = copy.index(text, place)  # between two items are only a comma and blanks
        found.append(Raw(original[place : place + len(text)]))
        place += len(text)
    return found
