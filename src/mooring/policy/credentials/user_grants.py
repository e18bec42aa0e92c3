"""The token that a user granted for a server, refreshed in time; without one, the user is asked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec

from mooring.gateway.principal import Caller, Principal
from mooring.policy.credentials.grants import Grant, GrantStore, grant_name
from mooring.policy.credentials.oauth.challenge import Challenge, read_challenge
from mooring.policy.credentials.oauth.flows import LoginWanted, Party
from mooring.policy.credentials.oauth.tokens import (
    NONCE_HEADER,
    NONCE_WANTED,
    ClientIdentity,
    TokenRefused,
    request_token,
)
from mooring.policy.credentials.settings import ClientAuthentication
from mooring.transports.http_response import Response

log = logging.getLogger(__name__)

EARLY_SECONDS: Final = 30.0
YOUNG_SECONDS: Final = 5.0
LOST: Final = frozenset({"invalid_grant", "unauthorized_client", "invalid_client"})
"""Answers to a refresh after which only the user can help."""


class Grants:
    """The grants for one party, each fresh when it is asked for."""

    def __init__(self, party: Party, store: GrantStore, clock: Callable[[], float] = time.time) -> None:
        self.party = party
        self._store = store
        self._clock = clock
        self._refreshing: dict[str, asyncio.Task[Grant]] = {}

    async def of(self, principal: Principal) -> Grant | None:
        """The user's grant with a token that still counts; None: they have to agree first."""
        grant = await self._store.read(grant_name(self.party.key, principal.id), Grant)
        if grant is None or not self.party.has_given(grant):
            return None
        if self._clock() < grant.expires - EARLY_SECONDS:
            return grant
        if grant.refresh_token is None:
            return grant if self._clock() < grant.expires else None
        return await self.refreshed(principal, grant)

    async def refreshed(self, principal: Principal, old: Grant) -> Grant | None:
        """Another token in place of this one, asked for once, whoever else in whatever process wants it."""
        task = self._refreshing.get(principal.id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._refresh(principal, old))
            self._refreshing[principal.id] = task
            task.add_done_callback(lambda done: self._refreshed(principal.id, done))
        try:
            return await asyncio.shield(task)
        except _Gone:
            return None

    def is_new(self, grant: Grant) -> bool:
        """Whether it was refreshed just now: then another token would not do either."""
        return self._clock() - grant.renewed_at < YOUNG_SECONDS

    def _refreshed(self, principal: str, task: asyncio.Task[Grant]) -> None:
        del self._refreshing[principal]
        if not task.cancelled():
            task.exception()  # whoever waits hears of it

    async def _refresh(self, principal: Principal, old: Grant) -> Grant:
        name = grant_name(self.party.key, principal.id)
        async with self._store.lock(name):
            grant = await self._store.read(name, Grant)
            if grant is None:
                raise _Gone
            if grant.access_token != old.access_token and self._clock() < grant.expires - EARLY_SECONDS:
                return grant  # another process was quicker; what it replaced is void
            if grant.refresh_token is None:
                raise _Gone
            try:
                new = await self._renew(grant, grant.refresh_token)
            except TokenRefused as refused:
                if refused.error not in LOST:
                    raise
                log.warning("%s: a grant cannot be renewed: %s", self.party.name, refused)
                await self._store.delete(name)
                raise _Gone from refused
            await self._store.write(name, new)
            return new

    async def _renew(self, grant: Grant, refresh_token: str) -> Grant:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        if grant.resource is not None:
            form["resource"] = grant.resource
        method = cast("ClientAuthentication | None", grant.method)
        own = self.party.identity
        identity = ClientIdentity(
            grant.client_id, grant.client_secret, method, own.private_key, own.algorithm
        )
        token = await request_token(grant.token_url, form, identity, grant.issuer or None, grant.proof_key)
        return msgspec.structs.replace(
            grant,
            access_token=token.access_token,
            expires=self._clock() + token.seconds,
            renewed_at=self._clock(),
            refresh_token=token.refresh_token or refresh_token,
            id_token=token.id_token or grant.id_token,
        )


class _Gone(Exception):
    """There is nothing to refresh with any more."""


class UserGrant:
    """A credential: each user's own grant for the server."""

    personal = True

    def __init__(self, grants: Grants, header: str = "Authorization") -> None:
        self._grants = grants
        self._header = header
        self._nonce: str | None = None
        """What the server wants to find in the next proof."""

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        """Nothing without a grant: the server is to say what it wants first."""
        del body
        grant = await self._grants.of(caller.principal)
        if grant is None:
            if self._grants.party.url is None:
                raise LoginWanted(self._grants.party)
            return b""
        return self._line(grant) + self._proof(grant, method.decode(), target.decode("latin-1"))

    def _line(self, grant: Grant) -> bytes:
        if grant.proof_key is not None and self._header.lower() == "authorization":
            return f"authorization: DPoP {grant.access_token}\r\n".encode("ascii")
        return token_line(self._header, grant.access_token)

    def _proof(self, grant: Grant, method: str, target: str) -> bytes:
        if grant.proof_key is None or grant.url is None:
            return b""
        from mooring.policy.credentials.oauth.dpop import proof  # noqa: PLC0415 - loaded by those who sign

        parts = urlsplit(grant.url)
        url = f"{parts.scheme}://{parts.netloc}{target}"
        made = proof(grant.proof_key, method, url, token=grant.access_token, nonce=self._nonce)
        return f"dpop: {made}\r\n".encode("ascii")

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        challenge = challenge_of(response)
        if challenge.error == NONCE_WANTED and self._takes_nonce(response):
            return True
        if response.status == 403 and not challenge.wants_more_scopes:
            return False
        if response.status == 401 and shown:
            grant = await self._grants.of(caller.principal)
            if grant is not None and not shown.startswith(self._line(grant)):
                return True  # it was refreshed meanwhile
            if grant is not None and grant.refresh_token is not None and not self._grants.is_new(grant):
                grant = await self._grants.refreshed(caller.principal, grant)
                if grant is not None:
                    return True
        raise LoginWanted(self._grants.party, challenge)

    def _takes_nonce(self, response: Response) -> bool:
        """Whether the server gave something new to prove with."""
        given = [value for name, value in response.headers if name.lower() == NONCE_HEADER.encode()]
        nonce = given[0].decode("latin-1") if given else None
        before, self._nonce = self._nonce, nonce or self._nonce
        return nonce is not None and nonce != before


def token_line(header: str, token: str) -> bytes:
    """A header line with a token; `Bearer` where that is what the header is for."""
    kind = "Bearer " if header.lower() == "authorization" else ""
    return f"{header.lower()}: {kind}{token}\r\n".encode("ascii")


def challenge_of(response: Response) -> Challenge:
    """What the server says in a response that refuses."""
    return read_challenge(
        value.decode("latin-1") for name, value in response.headers if name.lower() == b"www-authenticate"
    )
