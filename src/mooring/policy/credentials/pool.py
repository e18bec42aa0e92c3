"""A connection pool that adds a credential to every request, and gets a new one when the server wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.errors import MooringError
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_errors import ConnectFailed
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_response import Response
from mooring.transports.http_upstream import UpstreamConnection


class CredentialUnavailable(MooringError):
    """The credential could not be had; nothing was sent to the server."""


class Credential(Protocol):
    """Something that can be shown to a server."""

    async def headers(self, method: bytes, target: bytes, body: bytes) -> bytes:
        """The header lines for one request; raises `CredentialUnavailable`."""
        ...

    def reject(self) -> bool:
        """The server did not take it; whether another one is worth a try."""
        ...


class CredentialPool(ClientPool):
    """As `ClientPool`, with a credential in every request, also in handshakes and streams."""

    def __init__(self, origin: Origin, limits: ClientLimits, credential: Credential) -> None:
        super().__init__(origin, limits)
        self._credential = credential

    async def request(self, method: bytes, target: bytes, headers: bytes, body: bytes) -> Response:
        response = await self._try(method, target, headers, body)
        if response.status == 401 and self._credential.reject():
            response.abort()
            response = await self._try(method, target, headers, body)
        return response

    async def _try(self, method: bytes, target: bytes, headers: bytes, body: bytes) -> Response:
        try:
            own = await self._credential.headers(method, target, body)
        except CredentialUnavailable as error:
            raise ConnectFailed(str(error)) from error
        return await super().request(method, target, headers + own, body)

    def take_idle(self) -> UpstreamConnection | None:
        """No short way: every request needs its credential."""
        return None

    def another(self) -> CredentialPool:
        return CredentialPool(self.origin, self.limits, self._credential)


Clock = Callable[[], float]
