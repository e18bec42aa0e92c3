"""Whose token is exchanged: the caller's own, one that they granted us elsewhere, or one in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mooring.gateway.principal import Caller
from mooring.policy.credentials.oauth.flows import LoginWanted
from mooring.policy.credentials.own_token import read_token
from mooring.policy.credentials.pool import CredentialUnavailable
from mooring.policy.credentials.settings import SubjectTokenType
from mooring.policy.credentials.user_grants import Grants


@dataclass(frozen=True, slots=True)
class Subject:
    """A token that can be exchanged. It goes to the provider and to nobody else."""

    key: str
    """Who it speaks for, and how much they may do: two subjects with the same key are interchangeable."""
    token: str = field(repr=False)


class Subjects:
    """Where the tokens come from that are exchanged."""

    def __init__(
        self, kind: SubjectTokenType, grants: Grants | None = None, file: Path | None = None
    ) -> None:
        self._kind = kind
        self._grants = grants
        self._file = file

    @property
    def type_name(self) -> str:
        return f"urn:ietf:params:oauth:token-type:{self._kind}"

    async def of(self, caller: Caller) -> Subject:
        principal = caller.principal
        if self._file is not None:
            return Subject(f"file|{principal.id}", await read_token(self._file))
        if self._grants is not None:
            grant = await self._grants.of(principal)
            if grant is None:
                raise LoginWanted(self._grants.party)
            token = grant.id_token if self._kind == "id_token" else grant.access_token
            if token is None:
                raise CredentialUnavailable(
                    f"`{self._grants.party.name}` gives no ID token: ask for the scope `openid` there"
                )
            return Subject(f"grant|{principal.id}|{' '.join(grant.scopes)}", token)
        if not principal.credential:
            raise CredentialUnavailable(
                "the caller has no token that could be exchanged: set `auth.mode: oidc`, or a `provider`"
            )
        return Subject(f"caller|{principal.id}|{' '.join(sorted(principal.scopes))}", principal.credential)
