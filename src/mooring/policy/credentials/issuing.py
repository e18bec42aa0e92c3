"""Where tokens for a server are had: as configured, or as the server itself says when it refuses."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.policy.credentials.oauth.challenge import Challenge
from mooring.policy.credentials.oauth.discovery import Found, Reach, Settings, discover, issuer_document
from mooring.policy.credentials.pool import CredentialUnavailable


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A token endpoint, and who stands behind it."""

    url: str
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] | None = None
    methods: list[str] | None = None
    """How clients may prove who they are."""


class Issuing:
    """The token endpoint for one server, found once."""

    def __init__(self, server_url: str, settings: Settings) -> None:
        self._server_url = server_url
        self._settings = settings
        self._found: Endpoint | None = None
        if settings.token_url is not None:
            self._found = Endpoint(settings.token_url, settings.issuer)

    async def endpoint(self) -> Endpoint | None:
        """None while only the server can say: it has to be asked, and to refuse."""
        if self._found is None and self._settings.issuer is not None:
            reach = Reach(self._settings.issuer, allow_http=self._settings.allow_http)
            document = await issuer_document(self._settings.issuer, reach)
            self._found = _endpoint(Found(document))
        return self._found

    async def learn(self, challenge: Challenge) -> bool:
        """What the server said when it refused; whether that is news."""
        if self._found is not None:
            return False
        self._found = _endpoint(await discover(self._server_url, self._settings, challenge))
        return True


def _endpoint(found: Found) -> Endpoint:
    document = found.server
    if document.token_endpoint is None:
        raise CredentialUnavailable(f"`{document.issuer}` does not say where tokens are had: set `token_url`")
    methods = document.token_endpoint_auth_methods_supported
    return Endpoint(document.token_endpoint, document.issuer, found.resource, found.scopes, methods)
