"""Which role at AWS a caller gets, from the claims of their token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from mooring.errors import MooringError
from mooring.policy.credentials.settings import RoleMapping

Matcher = Callable[[Mapping[str, Any]], bool]


class MatcherMistake(MooringError):
    """The expression cannot be used."""


def compiled(expression: str) -> Matcher:
    """A CEL expression over `claims`. Whatever goes wrong in it means that it does not fit."""
    try:
        import cel  # noqa: PLC0415 - slow, and only for matchers
    except ImportError:
        raise MatcherMistake("needs one more package: install `mooring[cel]`") from None
    try:
        program = cast("Any", cel).compile(expression)
    except ValueError as error:
        raise MatcherMistake(f"is no CEL expression: {str(error).splitlines()[0]}") from None

    def fits(claims: Mapping[str, Any]) -> bool:
        try:
            return program.execute({"claims": dict(claims)}) is True
        except (KeyError, TypeError, ValueError, RuntimeError):
            return False  # a claim that is not there, or of another kind

    return fits


class Roles:
    """The mappings of one server, in the order in which they count."""

    def __init__(self, mappings: Sequence[RoleMapping], claim: str, fallback: str | None) -> None:
        ordered = sorted(mappings, key=lambda mapping: mapping.priority)
        self._rules = [(self._matcher(mapping, claim), mapping.role_arn) for mapping in ordered]
        self._fallback = fallback

    def role_of(self, claims: Mapping[str, Any]) -> str | None:
        """The role for whoever has these claims; None: they get none."""
        return next((role for fits, role in self._rules if fits(claims)), self._fallback)

    @staticmethod
    def _matcher(mapping: RoleMapping, claim: str) -> Matcher:
        if mapping.matcher is not None:
            return compiled(mapping.matcher)
        wanted = mapping.claim

        def has(claims: Mapping[str, Any]) -> bool:
            value = claims.get(claim)
            return wanted in cast("list[object]", value) if isinstance(value, list) else value == wanted

        return has
