"""Whose files: a legacy session's, a principal's, or nobody's but whoever holds a handle."""

from __future__ import annotations

import hashlib
import hmac

from mooring.files.handles import scope_of
from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import ANONYMOUS, Client

SHARED_VIEW = "pool"
"""What a workload sees that serves callers nobody can tell apart."""
OF_SCOPE = "scope:"
"""How the key of a caller begins whose call belongs to the scope of its handle."""


class Scopes:
    """Names scopes. The names are the same after a restart, and say nothing about whom they belong to."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.new(key, b"mooring:scopes", hashlib.sha256).digest()

    def of_session(self, alias: str) -> str:
        return scope_of(self._key, "session", alias)

    def of_principal(self, principal: str, server: str) -> str:
        return scope_of(self._key, "principal", principal, server)

    def of_client(self, client: Client, server: str) -> str | None:
        """The scope of a caller; none for anonymous modern ones, who bring it in a handle."""
        if isinstance(client, LegacyClient):
            return self.of_session(client.alias)
        if client.principal != ANONYMOUS:
            return self.of_principal(client.principal, server)
        return None

    def view_of(self, client: Client, server: str) -> str:
        """What a process sees that is started for this caller."""
        scope = self.of_client(client, server)
        if scope is None and client.key.startswith(OF_SCOPE):
            scope = client.key.removeprefix(OF_SCOPE)
        return scope or SHARED_VIEW
