"""The caller's token for one that the server takes: token exchange (RFC 8693), on-behalf-of, ID-JAG."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mooring.gateway.principal import Caller
from mooring.policy.credentials.cache import ExpiringCache, Made
from mooring.policy.credentials.issuing import Endpoint, Issuing
from mooring.policy.credentials.oauth.tokens import (
    JWT_BEARER,
    TOKEN_EXCHANGE,
    ClientIdentity,
    Token,
    request_token,
)
from mooring.policy.credentials.own_token import Wanted
from mooring.policy.credentials.pool import Clock, CredentialUnavailable
from mooring.policy.credentials.subjects import Subject, Subjects
from mooring.policy.credentials.user_grants import challenge_of, token_line
from mooring.transports.http_response import Response

ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
Trade = Callable[[Subject, Endpoint, Wanted], Awaitable[Token]]
"""One way of getting a token for another one."""


class Exchanged:
    """A credential: a token for each caller, kept by who it is for, for what, and with which scopes."""

    personal = True

    def __init__(
        self,
        issuing: Issuing,
        subjects: Subjects,
        trade: Trade,
        wanted: Wanted,
        *,
        header: str = "Authorization",
        clock: Clock = time.monotonic,
    ) -> None:
        self._issuing = issuing
        self._subjects = subjects
        self._trade = trade
        self._wanted = wanted
        self._header = header
        self._cache: ExpiringCache[str] = ExpiringCache(clock)

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        del method, target, body
        endpoint = await self._issuing.endpoint()
        if endpoint is None:
            return b""
        subject = await self._subjects.of(caller)
        token = await self._cache.get(self._key(subject), lambda: self._get(subject, endpoint))
        return token_line(self._header, token)

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        del shown
        if response.status != 401:
            return False
        if await self._issuing.learn(challenge_of(response)):
            return True
        return self._cache.drop(self._key(await self._subjects.of(caller)), unless_young=True)

    def _key(self, subject: Subject) -> tuple[object, ...]:
        return subject.key, self._wanted.audience, self._wanted.resource, self._wanted.scopes

    async def _get(self, subject: Subject, endpoint: Endpoint) -> Made[str]:
        token = await self._trade(subject, endpoint, self._wanted)
        return token.access_token, token.seconds


@dataclass(frozen=True, slots=True)
class TokenExchange:
    """RFC 8693: a token of one kind for a token of another."""

    identity: ClientIdentity
    subject_type: str
    requested_type: str | None = None

    async def __call__(self, subject: Subject, endpoint: Endpoint, wanted: Wanted) -> Token:
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": subject.token,
            "subject_token_type": self.subject_type,
            **wanted.form(endpoint),
        }
        if self.requested_type is not None:
            form["requested_token_type"] = self.requested_type
        return await request_token(
            endpoint.url, form, self.identity.chosen(endpoint.methods), endpoint.issuer
        )


@dataclass(frozen=True, slots=True)
class OnBehalfOf:
    """Entra's way: the caller's token as an assertion, for a token that still speaks for the caller."""

    identity: ClientIdentity

    async def __call__(self, subject: Subject, endpoint: Endpoint, wanted: Wanted) -> Token:
        form = {
            "grant_type": JWT_BEARER,
            "assertion": subject.token,
            "requested_token_use": "on_behalf_of",
            **wanted.form(endpoint),
        }
        return await request_token(
            endpoint.url, form, self.identity.chosen(endpoint.methods), endpoint.issuer
        )


@dataclass(frozen=True, slots=True)
class IdentityAssertion:
    """Two steps: the identity provider asserts who the user is (ID-JAG), the server's issuer believes it."""

    identity: ClientIdentity
    subject_type: str
    provider: Issuing
    provider_identity: ClientIdentity

    async def __call__(self, subject: Subject, endpoint: Endpoint, wanted: Wanted) -> Token:
        provider = await self.provider.endpoint()
        if provider is None:
            raise CredentialUnavailable("the identity provider has no token endpoint: set its `issuer`")
        first = Wanted(
            wanted.scopes, wanted.audience or endpoint.issuer, wanted.resource or endpoint.resource
        )
        exchange = TokenExchange(self.provider_identity, self.subject_type, ID_JAG)
        assertion = await exchange(subject, Endpoint(provider.url, provider.issuer), first)
        form = {"grant_type": JWT_BEARER, "assertion": assertion.access_token}
        if wanted.scopes:
            form["scope"] = " ".join(wanted.scopes)
        return await request_token(
            endpoint.url, form, self.identity.chosen(endpoint.methods), endpoint.issuer
        )
