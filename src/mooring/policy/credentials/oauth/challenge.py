"""What a server says in `WWW-Authenticate` when it refuses (RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PARAMETER = re.compile(r'([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(r"(?:^|,)\s*([A-Za-z][A-Za-z0-9_-]*)(?=\s+[A-Za-z0-9_-]+\s*=|\s*$|\s*,)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """The parameters of a `Bearer` or `DPoP` challenge that matter to a client."""

    resource_metadata: str | None = None
    scopes: tuple[str, ...] | None = None
    """None: it named none."""
    error: str | None = None
    wants_proof: bool = False
    """It takes only tokens that come with a proof (RFC 9449)."""

    @property
    def wants_more_scopes(self) -> bool:
        return self.error == "insufficient_scope"


NOTHING_SAID = Challenge()


def read_challenge(headers: Iterable[str]) -> Challenge:
    """The first `Bearer` challenge of a response, else the `DPoP` one; without any, nothing was said."""
    given = [challenge for header in headers for challenge in _schemes(header)]
    found = {scheme.lower(): rest for scheme, rest in reversed(given)}
    for scheme in ("bearer", "dpop"):
        if scheme in found:
            return _read(found[scheme], wants_proof=scheme == "dpop")
    return NOTHING_SAID


def _read(text: str, *, wants_proof: bool) -> Challenge:
    found = {
        match[1].lower(): re.sub(r"\\(.)", r"\1", match[2]) if match[2] is not None else match[3]
        for match in _PARAMETER.finditer(text)
    }
    scope = found.get("scope")
    return Challenge(
        found.get("resource_metadata"),
        tuple(scope.split()) if scope is not None else None,
        found.get("error"),
        wants_proof,
    )


def _schemes(header: str) -> list[tuple[str, str]]:
    """Each scheme with the text up to the next one; quoted text is never a scheme."""
    hidden = re.sub(r'"(?:[^"\\]|\\.)*"', lambda quoted: "_" * len(quoted[0]), header)
    starts = [(match[1], match.start(1), match.end(1)) for match in _SCHEME.finditer(hidden)]
    ends = [start for _, start, _ in starts[1:]] + [len(header)]
    return [(name, header[end:until]) for (name, _, end), until in zip(starts, ends, strict=True)]
