"""What does not pass the chain is watched too: notifications, streams, the ends of sessions."""

from __future__ import annotations

from mooring.gateway.exchange import Client
from mooring.policy.audit.events import SSE_CONNECTION
from mooring.policy.audit.observing import ServerAudit


class Watch:
    """The guard of one server, for whatever is not a request."""

    def __init__(self, audit: ServerAudit | None) -> None:
        self.audit = audit

    def admits(self, client: Client, method: str) -> bool:
        """Whether a notification may go on."""
        if self.audit is not None:
            self.audit.notification(client, method)
        return True

    def connected(self, client: Client) -> None:
        """A stream for changes was opened."""
        if self.audit is not None:
            self.audit.connection(client, SSE_CONNECTION)
