"""Whether a call that may have run can be made again: only if its tool says that this does no harm."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.gateway.upstream_session import UpstreamSession

MAX_PAGES: Final = 100


class _Hints(msgspec.Struct):
    read_only: bool = msgspec.field(default=False, name="readOnlyHint")
    idempotent: bool = msgspec.field(default=False, name="idempotentHint")


class _Tool(msgspec.Struct):
    name: str
    annotations: _Hints = msgspec.field(default_factory=_Hints)


class _Page(msgspec.Struct):
    tools: list[_Tool]
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Where(msgspec.Struct, omit_defaults=True):
    cursor: str | None = None


async def is_harmless(session: UpstreamSession, tool: str) -> bool:
    """Asked of the server itself, and only when it matters: nothing is kept for every list that passes by."""
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        answer = await session.request("tools/list", msgspec.json.encode(_Where(cursor)))
        try:
            page = msgspec.json.decode(answer.result or b"{}", type=_Page)
        except msgspec.DecodeError:
            return False
        for entry in page.tools:
            if entry.name == tool:
                return entry.annotations.read_only or entry.annotations.idempotent
        cursor = page.next_cursor
        if cursor is None:
            break
    return False
