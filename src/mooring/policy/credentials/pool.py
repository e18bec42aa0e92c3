"""A connection pool that adds a credential to every request, and gets a new one when the server wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mooring.errors import MooringError
from mooring.gateway.principal import NOBODY, Caller
from mooring.transports.http_client import ClientPool, Origin, TlsContext, shared_tls_context
from mooring.transports.http_errors import ConnectFailed
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_response import Response
from mooring.transports.http_upstream import UpstreamConnection

REFUSED: Final = frozenset({401, 403})
MOST_TRIES: Final = 3
"""Credentials that one request is sent with at most: the one we had, a fresh one, and one more."""
Clock = Callable[[], float]


class CredentialUnavailable(MooringError):
    """The credential could not be had; nothing was sent to the server."""


class Credential(Protocol):
    """Something that can be shown to a server."""

    personal: bool
    """Whether it depends on who calls."""

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        """The header lines for one request; raises `CredentialUnavailable`."""
        ...

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        """The server did not take it (401 or 403); whether another one is worth a try."""
        ...


class NoCredential:
    """For servers that are shown headers of the client and nothing of our own."""

    personal = True

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        del caller, method, target, body
        return b""

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        del caller, shown, response
        return False


class CredentialPool(ClientPool):
    """As `ClientPool`, with a credential in every request, also in handshakes and streams."""

    def __init__(
        self,
        origin: Origin,
        limits: ClientLimits,
        credential: Credential,
        *,
        forwards: bool = False,
        tls: TlsContext = shared_tls_context,
    ) -> None:
        super().__init__(origin, limits, tls)
        self._credential = credential
        self._forwards = forwards
        self.personal = forwards or credential.personal

    async def request(self, method: bytes, target: bytes, headers: bytes, body: bytes) -> Response:
        return await self.request_as(NOBODY, method, target, headers, body)

    async def request_as(
        self, caller: object, method: bytes, target: bytes, headers: bytes, body: bytes
    ) -> Response:
        who = caller if isinstance(caller, Caller) else NOBODY
        tries = 0
        while True:
            shown = await self._shown(who, method, target, body)
            response = await super().request(method, target, headers + who.forwarded + shown, body)
            tries += 1
            if response.status not in REFUSED or tries >= MOST_TRIES:
                return response
            try:
                again = await self._credential.refused(who, shown, response)
            except CredentialUnavailable as error:
                response.abort()
                raise ConnectFailed(str(error)) from error
            except BaseException:
                response.abort()
                raise
            if not again:
                return response
            response.abort()

    async def _shown(self, who: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        try:
            return await self._credential.headers(who, method, target, body)
        except CredentialUnavailable as error:
            raise ConnectFailed(str(error)) from error

    def take_idle(self) -> UpstreamConnection | None:
        """No short way: every request needs its credential."""
        return None

    def bound_to(self, caller: object) -> ClientPool:
        return BoundPool(self, caller) if self.personal else self

    def another(self) -> CredentialPool:
        return CredentialPool(
            self.origin, self.limits, self._credential, forwards=self._forwards, tls=self._tls_context
        )


class BoundPool(ClientPool):
    """A pool as one caller uses it: what belongs to no request goes in the name of who called last."""

    personal = True

    def __init__(self, pool: CredentialPool, caller: object, *, owned: bool = False) -> None:
        super().__init__(pool.origin, pool.limits)
        self._pool = pool
        self._caller = caller
        self._owned = owned

    async def request(self, method: bytes, target: bytes, headers: bytes, body: bytes) -> Response:
        return await self._pool.request_as(self._caller, method, target, headers, body)

    async def request_as(
        self, caller: object, method: bytes, target: bytes, headers: bytes, body: bytes
    ) -> Response:
        self._caller = caller
        return await self._pool.request_as(caller, method, target, headers, body)

    def take_idle(self) -> UpstreamConnection | None:
        return None

    def bound_to(self, caller: object) -> BoundPool:
        return BoundPool(self._pool, caller, owned=self._owned)

    def another(self) -> BoundPool:
        return BoundPool(self._pool.another(), self._caller, owned=True)

    def close(self) -> None:
        if self._owned:
            self._pool.close()
