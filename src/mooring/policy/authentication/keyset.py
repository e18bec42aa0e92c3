"""The public keys of an OpenID provider: found, fetched once at a time, fetched anew when they rotate."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, cast

import jwt

from mooring.policy import web
from mooring.policy.authentication.proof import ProviderUnavailable

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 600.0
"""Keys older than this are fetched again, in the background of somebody's request."""
STALE_SECONDS: Final = 24 * 3600.0
"""How long old keys still count while the provider cannot be reached."""
ASK_AGAIN_SECONDS: Final = 5.0
"""A token with an unknown key makes us look at most this often, whoever sends how many of them."""
MAX_KEYS: Final = 100


@dataclass(frozen=True, slots=True)
class Asking:
    """How a provider is asked."""

    allow_http: bool = False
    tls: ssl.SSLContext | None = None
    token_file: Path | None = None
    """A token that it wants to see before it shows its keys; read anew each time."""

    async def get(self, url: str) -> dict[str, Any]:
        if not web.is_safe(url, allow_http=self.allow_http):
            raise web.FetchFailed(f"`{url}` is not https; set `auth.insecure_allow_http` if that is meant")
        answer = await web.fetch(url, headers=self._headers(), tls=self.tls)
        if answer.status != 200:
            raise web.FetchFailed(f"`{url}` answered {answer.status}")
        return answer.json()

    def _headers(self) -> dict[str, str]:
        if self.token_file is None:
            return web.JSON
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise web.FetchFailed(f"`{self.token_file}` cannot be read: {error}") from error
        return {**web.JSON, "authorization": f"Bearer {token}"}


class KeySet:
    """All keys of one provider. `version` changes with them."""

    def __init__(self, issuer: str | None, jwks_url: str | None, asking: Asking) -> None:
        self._issuer = issuer
        self._url = jwks_url
        self._asking = asking
        self._keys: dict[str, jwt.PyJWK] = {}
        self._document: dict[str, Any] = {}
        self._fetched = -STALE_SECONDS
        self._tried = -ASK_AGAIN_SECONDS
        self._fetching: asyncio.Task[None] | None = None
        self.version = 0

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of this name; without one, the only key there is."""
        now = monotonic()
        found = self._find(key_id)
        if found is None or now - self._fetched > FRESH_SECONDS:
            if found is None or now - self._fetched > STALE_SECONDS:
                await self._refresh(now)
                if monotonic() - self._fetched > STALE_SECONDS:
                    raise ProviderUnavailable("the provider's keys cannot be fetched")
            elif self._may_try(now):
                self._start(now)
            found = self._find(key_id)
        return found

    def _find(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is not None:
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _may_try(self, now: float) -> bool:
        return self._fetching is not None or now - self._tried >= ASK_AGAIN_SECONDS

    async def _refresh(self, now: float) -> None:
        if self._may_try(now):
            await asyncio.shield(self._start(now))

    def _start(self, now: float) -> asyncio.Task[None]:
        if self._fetching is None:
            self._tried = now
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        try:
            if self._url is None:
                self._url = await self._discover()
            document = await self._asking.get(self._url)
            keys = _read(document)
        except web.FetchFailed as error:
            log.warning("the keys of `%s` cannot be fetched: %s", self._issuer or self._url, error)
        else:
            self._fetched = monotonic()
            if document != self._document:
                self._document = document
                self.version += 1
            self._keys = keys
        finally:
            self._fetching = None

    async def _discover(self) -> str:
        assert self._issuer is not None
        configuration = await discover(self._issuer, self._asking)
        url = configuration.get("jwks_uri")
        if not isinstance(url, str):
            raise web.FetchFailed("the provider's configuration names no `jwks_uri`")
        return url


async def discover(issuer: str, asking: Asking) -> dict[str, Any]:
    """The provider's own description: of OpenID Connect, or of an OAuth authorization server (RFC 8414)."""
    base = issuer.rstrip("/")
    scheme, _, rest = base.partition("://")
    host, slash, path = rest.partition("/")
    places = (
        f"{base}/.well-known/openid-configuration",
        f"{scheme}://{host}/.well-known/oauth-authorization-server{slash}{path}",
    )
    problem = web.FetchFailed("the provider has no configuration")
    for place in places:
        try:
            found = await asking.get(place)
        except web.FetchFailed as error:
            problem = error
            continue
        if found.get("issuer") != issuer:
            raise web.FetchFailed(f"`{place}` is the configuration of another issuer")
        return found
    raise problem


def _read(document: dict[str, Any]) -> dict[str, jwt.PyJWK]:
    """Public keys for signatures only: a shared secret that somebody published proves nothing."""
    keys: dict[str, jwt.PyJWK] = {}
    entries = document.get("keys")
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    for number, entry in enumerate(listed[:MAX_KEYS]):
        if not isinstance(entry, dict):
            continue
        described = cast("dict[str, Any]", entry)
        if described.get("kty") not in ("RSA", "EC", "OKP") or described.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(described)
        except jwt.PyJWTError as error:
            log.warning("a key of the provider cannot be used: %s", error)
            continue
        keys[str(described.get("kid", f"#{number}"))] = key
    return keys
