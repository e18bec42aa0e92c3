"""What every way of authentication has in common: a credential becomes a principal, or a refusal."""

from __future__ import annotations

from typing import Protocol

from mooring.errors import MooringError
from mooring.gateway.principal import Principal


class NotAuthenticated(MooringError):
    """The credential proves nothing. The message may be shown to whoever sent it."""


class ProviderUnavailable(MooringError):
    """It cannot be found out now: the provider does not answer. Nobody is let in meanwhile."""


class Authenticator(Protocol):
    """One way to prove who somebody is."""

    def known(self, credential: str) -> Principal | None:
        """Who presents this, if it takes no waiting to say so."""
        ...

    async def verify(self, credential: str) -> Principal:
        """Who presents this; raises `NotAuthenticated` or `ProviderUnavailable`."""
        ...

    def holds(self, principal: Principal) -> bool:
        """Whether the credential of somebody who was let in earlier would still let them in."""
        ...
