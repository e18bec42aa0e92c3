"""Who we are at an authorization server: as configured, by a document of ours (CIMD), or registered."""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mooring.policy import web
from mooring.policy.credentials.grants import GrantStore
from mooring.policy.credentials.oauth.discovery import DiscoveryFailed, ServerDocument
from mooring.policy.credentials.oauth.tokens import ClientIdentity
from mooring.policy.credentials.settings import ClientAuthentication
from mooring.transports.loopback import is_loopback

CLIENT_NAME: Final = "Mooring"
EARLY_SECONDS: Final = 600.0
"""A secret that is about to expire would not outlive the login it is needed for."""
METHODS: Final[tuple[ClientAuthentication, ...]] = ("none", "client_secret_basic", "client_secret_post")
"""How we can prove to be a client that was registered, what we like best first."""


class Registration(msgspec.Struct, frozen=True):
    """Us at one authorization server, as it is kept."""

    client_id: str
    client_secret: str | None = None
    method: ClientAuthentication = "none"
    client_secret_expires_at: float = 0
    """Unix time; 0: it never does."""

    def is_good(self, now: float) -> bool:
        expires = self.client_secret_expires_at
        return self.client_secret is None or not expires or now < expires - EARLY_SECONDS


class Registrar:
    """Registers once at each authorization server, for all users."""

    def __init__(self, store: GrantStore, redirect_uri: str, document_url: str | None) -> None:
        """`document_url` is where our own client metadata can be read from everywhere, if they can."""
        self._store = store
        self.redirect_uri = redirect_uri
        self.document_url = document_url

    async def identity(
        self, server: ServerDocument, configured: ClientIdentity, document_url: str | None = None
    ) -> ClientIdentity:
        """Who we are there. What another authorization server gave us is never used."""
        if configured.client_id is not None:
            return configured.chosen(server.token_endpoint_auth_methods_supported)
        own = document_url or self.document_url
        if server.client_id_metadata_document_supported and own is not None:
            return ClientIdentity(own, method="none")
        if server.registration_endpoint is None:
            raise DiscoveryFailed(
                f"`{server.issuer}` knows no clients that register themselves: register one there with the "
                f"redirect address {self.redirect_uri}, and set `auth.client_id`"
            )
        name = f"client {server.issuer} {self.redirect_uri}"
        kept = await self._store.read(name, Registration)
        if kept is None or not kept.is_good(time.time()):
            async with self._store.lock(name):
                kept = await self._store.read(name, Registration)
                if kept is None or not kept.is_good(time.time()):
                    kept = await self._register(server, server.registration_endpoint)
                    await self._store.write(name, kept)
        return ClientIdentity(kept.client_id, kept.client_secret, kept.method)

    async def forget(self, server: ServerDocument) -> None:
        """The authorization server does not know us any more: register anew the next time."""
        await self._store.delete(f"client {server.issuer} {self.redirect_uri}")

    async def _register(self, server: ServerDocument, endpoint: str) -> Registration:
        supported = server.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        method = next((known for known in METHODS if known in supported), "client_secret_basic")
        wanted = {**client_metadata(self.redirect_uri), "token_endpoint_auth_method": method}
        headers = {"accept": "application/json", "content-type": "application/json"}
        body = msgspec.json.encode(wanted)
        try:
            answer = await web.fetch(endpoint, method="POST", headers=headers, body=body)
            content = answer.json()
        except web.FetchFailed as error:
            raise DiscoveryFailed(f"registering at `{server.issuer}` failed: {error}") from error
        if answer.status not in (200, 201):
            why = content.get("error_description") or content.get("error") or f"HTTP {answer.status}"
            raise DiscoveryFailed(f"`{server.issuer}` did not register us: {why}; set `auth.client_id`")
        given: dict[str, Any] = {**content, "method": content.get("token_endpoint_auth_method")}
        if given["method"] is None:
            given["method"] = method if given.get("client_secret") or method == "none" else "none"
        try:
            return msgspec.convert(given, Registration)
        except msgspec.ValidationError as error:
            raise DiscoveryFailed(f"`{server.issuer}` registered us in words of its own: {error}") from None


def client_metadata(redirect_uri: str) -> dict[str, Any]:
    """What we say about ourselves, in a registration or in the document that is our `client_id`."""
    is_local = is_loopback(urlsplit(redirect_uri).hostname or "")
    return {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native" if is_local else "web",
    }
