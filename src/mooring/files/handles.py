"""The references to bytes that we keep (`upload://`, `artifact://`, `result://`), and the scopes in them."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import quote, unquote

Kind = Literal["upload", "artifact", "result"]
_WORD: Final = r"[0-9a-f]{16,64}"
_PATTERN: Final = re.compile(
    rf"(upload|artifact|result)://sessions/({_WORD})/({_WORD})(?:/([^/?#\s]{{1,600}}))?", re.ASCII
)
MAX_CHARS: Final = 800
"""More than the pattern can match."""
_SCOPE: Final = re.compile(_WORD, re.ASCII)


@dataclass(frozen=True, slots=True)
class Handle:
    """One reference. Whether it leads anywhere is for the store to say."""

    kind: Kind
    scope: str
    id: str
    name: str | None = None

    def __str__(self) -> str:
        return uri(self.kind, self.scope, self.id, self.name)


def uri(kind: Kind, scope: str, identifier: str, name: str | None) -> str:
    base = f"{kind}://sessions/{scope}/{identifier}"
    return base if name is None else f"{base}/{quoted(name)}"


@lru_cache(maxsize=1024)
def quoted(name: str) -> str:
    """As one component of a path."""
    return quote(name, safe="")


def parse(text: str) -> Handle | None:
    """What this text refers to, if it is a handle at all."""
    return _parse(text) if len(text) <= MAX_CHARS else None  # nothing longer is worth remembering


@lru_cache(maxsize=1024)
def _parse(text: str) -> Handle | None:
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    kind, scope, identifier, name = match.groups()
    return Handle(kind, scope, identifier, None if name is None else unquote(name))  # type: ignore[arg-type]


def looks_like(text: str) -> bool:
    """Whether somebody meant a handle, however badly it is spelled."""
    return text.startswith(("upload://", "artifact://", "result://"))


def is_scope(text: str) -> bool:
    return _SCOPE.fullmatch(text) is not None


def new_id() -> str:
    """128 bits that nobody can guess."""
    return os.urandom(16).hex()


@lru_cache(maxsize=4096)
def scope_of(key: bytes, *facts: str) -> str:
    """The alias of a session or principal: always the same, and telling nothing about it."""
    return hmac.new(key, "\0".join(("scope", *facts)).encode(), hashlib.sha256).hexdigest()[:32]
