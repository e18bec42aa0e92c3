"""The params of a call as nearly all of them are: a name and some arguments, written in the shortest way."""

from __future__ import annotations

import msgspec
from msgspec import Raw


class Call(msgspec.Struct, gc=False):
    """What is called, and with what; the arguments are undecoded but for their names."""

    name: str
    arguments: dict[str, Raw]
    meta: Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")

    def encode(self) -> bytes:
        """As params."""
        return _encode(self)


_decode = msgspec.json.Decoder(Call).decode
_encode = msgspec.json.encode


def read_call(params: bytes | Raw) -> Call | None:
    """The call that these params are and nothing else; None: they have to be looked at member by member.

    They are if we would write the same bytes ourselves: then there is no room for a further member, for one
    that is given twice, for white space, or for an escape that another parser might not know.
    """
    try:
        call = _decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return call if _encode(call) == bytes(params) else None
