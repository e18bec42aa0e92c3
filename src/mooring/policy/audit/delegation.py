"""On whose behalf: the chain of actors in a token (`act`, RFC 8693 §4.1), the current one first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

DEPTH: Final = 10
"""Actors that are named, unless it is configured otherwise."""
_COUNTED: Final = 1_000


class Actor(Struct, frozen=True, omit_defaults=True):
    """Somebody who acts for the one before."""

    sub: str
    iss: str = ""


class Delegation(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Who acts for the caller; a chain that cannot be read is said to be so."""

    chain: list[Actor]
    truncated: bool = False
    omitted: int = 0
    malformed: bool = False
    malformed_reason: str = ""


def delegation_of(claims: Mapping[str, Any], depth: int = DEPTH) -> Delegation | None:
    """The actors that a token names; None: nobody but the caller."""
    actor: Any = claims.get("act")
    if actor is None:
        return None
    chain: list[Actor] = []
    count = 0
    reason = ""
    while actor is not None and count < _COUNTED:
        given: Mapping[str, Any] = cast("Mapping[str, Any]", actor) if isinstance(actor, Mapping) else {}
        subject, issuer = given.get("sub"), given.get("iss", "")
        if not isinstance(subject, str) or not isinstance(issuer, str):
            reason = "an actor is no object with `sub` and `iss`"
            break
        if count < depth:
            chain.append(Actor(subject, issuer))
        count += 1
        actor = given.get("act")
    omitted = count - len(chain)
    return Delegation(chain, omitted > 0, omitted, bool(reason), reason)
