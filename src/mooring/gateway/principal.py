"""Who calls, after authentication, and where the request came from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field

NEVER: Final = float("inf")


def _no_claims() -> Mapping[str, Any]:
    return MappingProxyType({})


class Principal(Struct, frozen=True, eq=False):
    """Somebody who proved who they are. One object per verified credential: it compares by identity.

    `id` is unique among all issuers: sessions, handles, tasks and suspended calls are bound to it. `subject`
    is how policies name the principal.
    """

    id: str
    subject: str
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=_no_claims)
    audiences: frozenset[str] | None = None
    """What the credential is for; None: everything here."""
    expires: float = NEVER
    """Unix time after which the credential no longer counts."""
    credential: str = ""
    """The token itself, for exchanging it for another one. It never goes to a server."""

    def __repr__(self) -> str:
        return f"Principal({self.id!r})"  # and not its credential


ANONYMOUS: Final = Principal("anonymous", "anonymous")
"""Everybody, while authentication is off."""


class Caller(Struct, frozen=True, eq=False):
    """The sender of one request: the principal, and what is known of the place it came from."""

    principal: Principal
    address: str = ""
    user_agent: str = ""
    forwarded: bytes = b""
    """Headers of the request that go on to the server, as lines; only those that its configuration names."""


NOBODY: Final = Caller(ANONYMOUS)
"""Whoever it is: nothing was asked."""
