"""Which limits apply to a request, and what they count by."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from mooring.gateway.principal import Caller

NEVER_LIMITED: Final = frozenset({"notifications/cancelled", "notifications/initialized"})
"""Refusing these would keep work going that nobody wants, or break a session that was just let in."""


class Limit(Struct, frozen=True):
    """So many per time (`count` and `seconds`), or at the same time (`seconds` is 0)."""

    name: str
    per: tuple[str, ...]
    count: int
    seconds: float = 60.0
    burst: int = 0
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def key(self, server: str, caller: Caller, method: str, tool: str, own: str = "") -> str | None:
        """What this limit counts the request under; None: it does not concern it. `own` is the server's own
        name of the tool, where clients know it by another: a limit may use either."""
        if self.servers and not _matches(server, self.servers):
            return None
        if self.methods and not _matches(method, self.methods):
            return None
        if (self.tools or "tool" in self.per) and (
            method != "tools/call"
            or (self.tools and not (_matches(tool, self.tools) or (own and _matches(own, self.tools))))
        ):
            return None
        parts = [self.name]
        for part in self.per:
            match part:
                case "principal":
                    parts.append(caller.principal.id)
                case "server":
                    parts.append(server)
                case "tool":
                    parts += (server, tool)
                case "address":
                    parts.append(caller.address)
                case _:
                    pass
        return "|".join(parts)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
