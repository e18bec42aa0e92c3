"""Answers that wait on disk, made ready for their client: its id, and the members that its revision wants.

What cannot be done without looking further inside is left to the ordinary way, which reads the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from mooring.errors import UpstreamFailed
from mooring.protocol import translate
from mooring.protocol.versions import V2025_06_18, V2026_07_28
from mooring.transports.large_messages import KeptResult, LargeMessage
from mooring.transports.spool import Kept, Slice
from mooring.transports.wire import Relay

KEEPABLE: Final = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
"""Requests whose results are for their client alone; lists and the like are read here as well."""

Parts = list[bytes | Slice]


def for_client(
    kept: KeptResult, request_id: bytes | Raw, method: str, source: str, target: str
) -> Kept | None:
    """The whole answer, for a client of revision `target`; None if that takes a closer look."""
    if not translate.needed(source, target):
        parts: Parts | None = [kept.whole]
    elif target >= V2026_07_28:
        parts = _to_modern(kept, method)
    else:
        parts = _to_legacy(kept, target)
    if parts is None:
        return None
    return Kept(b'{"jsonrpc":"2.0","id":%b,"result":' % bytes(request_id), *parts, b"}")


def _to_modern(kept: KeptResult, method: str) -> Parts | None:
    members = kept.members
    if members is None:
        return None
    added = {name: value for name, value in translate.modern_members(method).items() if name not in members}
    return _assembled({**members, **added})


def _to_legacy(kept: KeptResult, target: str) -> Parts | None:
    """Older revisions lack kinds of content as well; where one is mentioned, somebody has to look."""
    members = kept.members
    if members is None or (target < V2025_06_18 and kept.mentions):
        return None
    structured = members.get("structuredContent")
    if structured is not None and structured[0].read(structured[1], 1) != b"{":
        return None
    return _assembled({name: value for name, value in members.items() if name not in translate.MODERN_ONLY})


def _assembled(members: dict[str, Slice | bytes]) -> Parts:
    parts: Parts = []
    for name, value in members.items():
        parts += (b"%b%b:" % (b"," if parts else b"{", msgspec.json.encode(name)), value)
    return [*parts, b"}" if parts else b"{}"]


def keep(relay: Relay, done: Callable[[Kept | None, Exception | None], None]) -> None:
    """Let an answer that is still arriving come to rest on disk first, since nobody can take it now."""
    large = LargeMessage()

    def on_end(error: Exception | None) -> None:
        try:
            done(None if error is not None else large.whole(), error)
        except UpstreamFailed as failure:
            done(None, failure)

    relay.attach(large.add, on_end)
