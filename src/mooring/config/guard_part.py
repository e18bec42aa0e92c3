"""What a part of the guard is, and what the parts share for as long as the gateway runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct, field

from mooring.config.schema import Server
from mooring.gateway.exchange import Client
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Step
from mooring.policy.telemetry.metrics import Metrics
from mooring.policy.watching import Watch

LISTED_AND_CALLED: Final = frozenset({"tools/list", "tools/call"})
Steps = Callable[[Server, Catalogue, Watch], list[Step]]


class Part(Struct, frozen=True):
    """One part of the guard: its steps for a server, and what it has to do from time to time."""

    steps: Steps
    tidy: Callable[[], None] | None = None
    is_busy: Callable[[], bool] | None = None
    """Whether it is not done yet with what has passed."""
    close: Callable[[], None] | None = None
    """Called once, in a thread: it may wait for a disk or a peer."""
    finish: Callable[[], Awaitable[None]] | None = None
    """The same, for what is closed by waiting."""
    page: Callable[[], str] | None = None
    """What Prometheus reads."""
    policy_version: Callable[[], str] | None = None
    lock_hash: Callable[[], str] | None = None


class InForce(Struct):
    """The versions of what is in force, for the audit."""

    policy: Callable[[], str] = str
    lock: Callable[[], str] = str

    def versions(self) -> tuple[str, str]:
        return self.policy(), self.lock()


class Hooks(Struct):
    """What the guard may ask of the gateway around it, and what outlives a change of the configuration."""

    end_session: Callable[[Client], object] | None = None
    stop_server: Callable[[str, str], None] | None = None
    numbers: Metrics | None = None
    """What the page for Prometheus shows, if there is one."""
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a part goes on with when it is made anew, by the part's name."""

    def ended(self, client: Client) -> None:
        """A session is to end. The hook may be set after the guard was made."""
        if self.end_session is not None:
            self.end_session(client)

    def mismatched(self, server_id: str, reason: str) -> None:
        """A server is not what somebody approved: whoever runs it is to stop it."""
        if self.stop_server is not None:
            self.stop_server(server_id, reason)
