"""Who issues tokens for a server: its resource metadata (RFC 9728), then the issuer's (RFC 8414, OpenID).

Every address here comes from a stranger. It must be `https://` (or on this machine, if the server is), and a
server elsewhere cannot make us ask a machine of our own network.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from mooring.policy import web
from mooring.policy.credentials.oauth.challenge import NOTHING_SAID, Challenge
from mooring.policy.credentials.pool import CredentialUnavailable
from mooring.transports.loopback import is_loopback

RESOURCE: Final = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"


class DiscoveryFailed(CredentialUnavailable):
    """It could not be found out who issues tokens for a server, or what was said makes no sense."""


class ResourceDocument(msgspec.Struct, frozen=True):
    """What a server says about itself."""

    resource: str = ""
    authorization_servers: list[str] = msgspec.field(default_factory=list[str])
    scopes_supported: list[str] | None = None
    dpop_bound_access_tokens_required: bool = False


class ServerDocument(msgspec.Struct, frozen=True):
    """What an authorization server says about itself."""

    issuer: str = ""
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    dpop_signing_alg_values_supported: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Who issues tokens for a server, and what the server wants in them."""

    server: ServerDocument
    resource: str | None = None
    scopes: tuple[str, ...] | None = None
    described: bool = True
    """Whether the issuer describes itself; else its endpoints are where 2025-03-26 expects them."""
    wants_proof: bool = False
    """Whether the server takes only tokens that come with a proof (RFC 9449)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was configured instead of being found out."""

    issuer: str | None = None
    authorize_url: str | None = None
    token_url: str | None = None
    allow_http: bool = False


async def discover(url: str, settings: Settings, challenge: Challenge = NOTHING_SAID) -> Found:
    """Find out, from a server's address and what it said when it refused."""
    reach = Reach(url, allow_http=settings.allow_http)
    resource = await _resource(url, challenge, reach)
    scopes = challenge.scopes
    if scopes is None and resource is not None and resource.scopes_supported is not None:
        scopes = tuple(resource.scopes_supported)
    named = resource.resource if resource is not None else None
    if settings.token_url is not None:
        document = ServerDocument(
            settings.issuer or "",
            settings.authorize_url,
            settings.token_url,
            code_challenge_methods_supported=["S256"],
        )
        return Found(document, named, scopes, described=False)
    bound = challenge.wants_proof or (resource is not None and resource.dpop_bound_access_tokens_required)
    if settings.issuer is not None:
        return Found(await issuer_document(settings.issuer, reach), named, scopes, wants_proof=bound)
    if resource is not None:
        if not resource.authorization_servers:
            raise DiscoveryFailed("the server names nobody who issues tokens for it: set `auth.issuer`")
        issuer = await issuer_document(resource.authorization_servers[0], reach)
        return Found(issuer, named, scopes, wants_proof=bound)
    return await _as_in_the_beginning(url, scopes, reach)


async def _resource(url: str, challenge: Challenge, reach: Reach) -> ResourceDocument | None:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    places = [f"{RESOURCE}{path}", RESOURCE] if path else [RESOURCE]
    candidates = [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]
    if challenge.resource_metadata is not None:
        candidates.insert(0, challenge.resource_metadata)
    for candidate in candidates:
        data = await reach.get(candidate)
        if data is None:
            continue
        document = _decoded(data, ResourceDocument, candidate)
        if not covers(document.resource, url):
            raise DiscoveryFailed(
                f"the server's metadata are about `{document.resource}`, which it is not: nobody is asked"
            )
        return document
    return None


def covers(resource: str, url: str) -> bool:
    """Whether a resource identifier is this server's, or that of a place which it is part of."""
    named, own = urlsplit(resource), urlsplit(url)
    if (named.scheme.lower(), named.netloc.lower()) != (own.scheme.lower(), own.netloc.lower()):
        return False
    above = named.path.rstrip("/")
    return own.path.rstrip("/") == above or own.path.startswith(f"{above}/")


async def issuer_document(issuer: str, reach: Reach) -> ServerDocument:
    """The metadata of an issuer. They must be its own: `issuer` has to be the very same text."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    places = [f"{AUTHORIZATION_SERVER}{path}", f"{OPENID}{path}"]
    if path:
        places.append(f"{path}{OPENID}")
    for place in places:
        address = urlunsplit((parts.scheme, parts.netloc, place, "", ""))
        data = await reach.get(address)
        if data is None:
            continue
        document = _decoded(data, ServerDocument, address)
        if document.issuer != issuer:
            raise DiscoveryFailed(f"the metadata of `{issuer}` are those of another issuer: nobody is asked")
        return await _checked(document, reach)
    raise DiscoveryFailed(
        f"`{issuer}` does not say where tokens are had: set `authorize_url` and `token_url`"
    )


async def _as_in_the_beginning(url: str, scopes: tuple[str, ...] | None, reach: Reach) -> Found:
    """2025-03-26: the server itself issues tokens; without metadata, at addresses that everybody knew."""
    parts = urlsplit(url)
    origin = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    data = await reach.get(f"{origin}{AUTHORIZATION_SERVER}")
    if data is not None:
        document = _decoded(data, ServerDocument, origin)
        if document.issuer.rstrip("/") != origin:
            raise DiscoveryFailed(f"the metadata of `{origin}` are those of another issuer: nobody is asked")
        return Found(await _checked(document, reach), None, scopes)
    document = ServerDocument(
        origin,
        f"{origin}/authorize",
        f"{origin}/token",
        f"{origin}/register",
        code_challenge_methods_supported=["S256"],
    )
    return Found(document, None, scopes, described=False)


async def _checked(document: ServerDocument, reach: Reach) -> ServerDocument:
    for url in (document.authorization_endpoint, document.token_endpoint, document.registration_endpoint):
        if url is not None:
            await reach.check(url)
    return document


class Reach:
    """Which addresses a server may lead us to."""

    def __init__(self, url: str, *, allow_http: bool) -> None:
        self._host = urlsplit(url).hostname or ""
        self._allow_http = allow_http
        self._inside: bool | None = None

    async def get(self, url: str) -> bytes | None:
        """The document at this address; None if there is none."""
        await self.check(url)
        try:
            answer = await web.fetch(url)
        except web.FetchFailed as error:
            raise DiscoveryFailed(f"`{url}` cannot be read: {error}") from error
        if answer.status == 200:
            return answer.body
        if answer.status >= 500:
            raise DiscoveryFailed(f"`{url}` cannot be read: HTTP {answer.status}")
        return None

    async def check(self, url: str) -> None:
        """Raise for an address that this server may not lead us to."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if self._inside is None:
            self._inside = self._allow_http or await _is_inside(self._host)
        secure = parts.scheme == "https" or (parts.scheme == "http" and self._allow_http)
        if not secure and not (parts.scheme == "http" and is_loopback(host) and self._inside):
            raise DiscoveryFailed(f"`{url}` is not an `https://` address: nobody is asked there")
        if not self._inside and await _is_inside(host):
            raise DiscoveryFailed(
                f"`{url}` is in our own network, and the server is not: nobody is asked there"
            )


async def _is_inside(host: str) -> bool:
    """Whether a host is this machine or one of a private network."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # a name that leads nowhere leads nowhere inside either
    addresses = {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found}
    return any(not address.is_global for address in addresses)


D = TypeVar("D", ResourceDocument, ServerDocument)


def _decoded(data: bytes, kind: type[D], url: str) -> D:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise DiscoveryFailed(f"the metadata at `{url}` cannot be read: {error}") from None
