"""A server as another program's file describes it, before it becomes one of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct, field

from mooring.errors import MooringError

Transport = Literal["stdio", "auto", "streamable_http", "sse"]


class CannotImport(MooringError):
    """The file holds nothing that can be imported; the message says why."""


class FoundServer(Struct, frozen=True):
    """One entry: a command or a URL."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str | None = None
    transport: Transport = "stdio"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    wanted_secrets: dict[str, str] = field(default_factory=dict[str, str])
    """`${secret:NAME}` the entry already needs: name -> what it is for. The person must store them."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else `mooring.yaml` shall say about the server."""
    notes: tuple[str, ...] = ()
    enabled: bool = True


class FoundFile(Struct, frozen=True):
    """All servers of a file."""

    kind: str
    """What the file is, for people."""
    servers: tuple[FoundServer, ...]
    problems: tuple[str, ...] = ()
    """What could not be understood; those entries are left out."""


def identifier(name: str, taken: Iterable[str]) -> str:
    """An id for a server of this name that fits in a URL and that nobody has yet."""
    used = set(taken)
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:64] or "server"
    candidate, number = plain, 2
    while candidate in used:
        suffix = f"-{number}"
        candidate, number = plain[: 64 - len(suffix)] + suffix, number + 1
    return candidate
