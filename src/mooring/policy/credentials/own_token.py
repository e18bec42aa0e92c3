"""A token for the gateway itself: OAuth client credentials (RFC 6749 §4.4), or an assertion (RFC 7523)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from mooring.gateway.principal import Caller
from mooring.policy.credentials.cache import ExpiringCache, Made
from mooring.policy.credentials.issuing import Endpoint, Issuing
from mooring.policy.credentials.oauth.tokens import JWT_BEARER, ClientIdentity, request_token
from mooring.policy.credentials.pool import Clock, CredentialUnavailable
from mooring.policy.credentials.user_grants import challenge_of, token_line
from mooring.transports.http_response import Response


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a token is to be for."""

    scopes: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None

    def form(self, endpoint: Endpoint) -> dict[str, str]:
        scopes = self.scopes or endpoint.scopes or ()
        given = {
            "scope": " ".join(scopes) or None,
            "audience": self.audience,
            "resource": self.resource or endpoint.resource,
        }
        return {name: value for name, value in given.items() if value is not None}


class OwnToken:
    """Gets one token for all requests, once at a time, and a new one before it expires."""

    personal = False

    def __init__(
        self,
        issuing: Issuing,
        identity: ClientIdentity,
        wanted: Wanted,
        *,
        assertion: Path | None = None,
        header: str = "Authorization",
        clock: Clock = time.monotonic,
    ) -> None:
        """With `assertion`, a file, the token in it is what proves who we are."""
        self._issuing = issuing
        self._identity = identity
        self._wanted = wanted
        self._assertion = assertion
        self._header = header
        self._cache: ExpiringCache[str] = ExpiringCache(clock)

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        del caller, method, target, body
        endpoint = await self._issuing.endpoint()
        if endpoint is None:
            return b""
        token = await self._cache.get("", lambda: self._get(endpoint))
        return token_line(self._header, token)

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        """Another token, unless this one is quite new: then it is not about the token."""
        del caller, shown
        if response.status != 401:
            return False
        if await self._issuing.learn(challenge_of(response)):
            return True
        return self._cache.drop("", unless_young=True)

    async def _get(self, endpoint: Endpoint) -> Made[str]:
        form = {"grant_type": "client_credentials", **self._wanted.form(endpoint)}
        if self._assertion is not None:
            form["grant_type"] = JWT_BEARER
            form["assertion"] = await read_token(self._assertion)
        identity = self._identity.chosen(endpoint.methods)
        token = await request_token(endpoint.url, form, identity, endpoint.issuer)
        return token.access_token, token.seconds


async def read_token(file: Path) -> str:
    """The token in a file, as it is now: whoever put it there replaces it from time to time."""
    try:
        text = await asyncio.to_thread(file.read_text)
    except OSError as error:
        raise CredentialUnavailable(f"the token in `{file}` cannot be read: {error.strerror}") from error
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise CredentialUnavailable(f"there is no token in `{file}`")
    return token
