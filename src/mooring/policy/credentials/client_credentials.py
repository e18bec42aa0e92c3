"""A token for the gateway itself, by OAuth client credentials (RFC 6749 §4.4)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from mooring.policy import web
from mooring.policy.credentials.pool import Clock, CredentialUnavailable

EARLY_SECONDS: Final = 30.0
"""A token is not used any more shortly before it expires: it must still count when it arrives."""
DEFAULT_SECONDS: Final = 300.0
YOUNG_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Who we are at the provider, and what the token is for."""

    token_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None


class ClientCredentials:
    """Gets one token for all requests, once at a time, and a new one before it expires."""

    def __init__(self, settings: ClientSettings, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._token = ""
        self._expires = 0.0
        self._getting: asyncio.Task[None] | None = None
        self._since = 0.0

    async def headers(self, method: bytes, target: bytes, body: bytes) -> bytes:
        del method, target, body
        if not self._token or self._clock() >= self._expires:
            if self._getting is None:
                self._getting = asyncio.get_running_loop().create_task(self._get())
                self._getting.add_done_callback(self._got)
            await asyncio.shield(self._getting)
        return b"authorization: Bearer %b\r\n" % self._token.encode("ascii")

    def reject(self) -> bool:
        """Another token, unless this one is quite new: then it is not about the token."""
        if self._clock() - self._since < YOUNG_SECONDS:
            return False
        self._token = ""
        return True

    def _got(self, task: asyncio.Task[None]) -> None:
        self._getting = None
        if not task.cancelled():
            task.exception()  # whoever waits hears of it

    async def _get(self) -> None:
        settings = self._settings
        form = {"grant_type": "client_credentials"}
        if settings.scopes:
            form["scope"] = " ".join(settings.scopes)
        wanted = {"audience": settings.audience, "resource": settings.resource}
        form |= {name: value for name, value in wanted.items() if value is not None}
        secret = {"authorization": web.basic(settings.client_id, settings.client_secret)}
        try:
            answer = await web.post_form(settings.token_url, form, secret)
            content = answer.json()
        except web.FetchFailed as error:
            raise CredentialUnavailable(f"no token for the server: {error}") from error
        token = content.get("access_token")
        if (
            answer.status != 200
            or not isinstance(token, str)
            or not token.isascii()
            or not token.isprintable()
        ):
            why = content.get("error", f"HTTP {answer.status}")
            raise CredentialUnavailable(f"no token for the server: the provider answered {why}")
        seconds = content.get("expires_in", DEFAULT_SECONDS)
        lasting = float(seconds) if isinstance(seconds, (int, float)) else DEFAULT_SECONDS
        self._token = token
        self._since = self._clock()
        self._expires = self._clock() + max(1.0, lasting - EARLY_SECONDS)
