"""The life of a legacy connection, as a table: what may arrive in which state, and what it is answered with.

    CONNECTED ──initialize──▶ INITIALIZING ──answered──▶ INITIALIZED ──notifications/initialized──▶ READY
        └────────────────────────────── closed ─────────────────────────────────────▶ SHUTDOWN

`initialize` is legal exactly once. Between our answer and the client's `notifications/initialized` the
specification lets a client only ping; requests that come early are refused with -32600 and change nothing.
Many clients in the field send `tools/list` without ever sending `notifications/initialized`, so INITIALIZED
accepts requests on transports where the two messages may overtake each other (HTTP: each is its own POST).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from mooring.errors import InvalidRequest


class Phase(Enum):
    CONNECTED = "connected"
    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    READY = "ready"
    SHUTDOWN = "shutdown"


ALWAYS_LEGAL: Final = frozenset({"ping"})


def on_request(phase: Phase, method: str) -> Phase:
    """The phase after this request arrived, or the error it gets; an error leaves the phase as it was."""
    if phase is Phase.READY:
        if method == "initialize":
            raise InvalidRequest("`initialize` was already done on this connection")
        return phase
    if phase is Phase.SHUTDOWN:
        raise InvalidRequest("the connection is closed")
    if method == "initialize":
        if phase is Phase.CONNECTED:
            return Phase.INITIALIZING
        raise InvalidRequest("`initialize` was already sent on this connection")
    if method in ALWAYS_LEGAL:
        return phase
    if phase is Phase.INITIALIZED:
        return phase
    if phase is Phase.INITIALIZING:
        raise InvalidRequest(f"`{method}` before `initialize` was answered: wait for its answer")
    raise InvalidRequest(f"`{method}` before `initialize`: send `initialize` first")


def on_initialize_answered(phase: Phase, *, accepted: bool) -> Phase:
    """A refused handshake leaves the connection as if it had never been tried."""
    if phase is not Phase.INITIALIZING:
        return phase
    return Phase.INITIALIZED if accepted else Phase.CONNECTED


def on_notification(phase: Phase, method: str) -> Phase:
    """Notifications have no answer: one that is illegal in this phase is simply not acted upon."""
    if method == "notifications/initialized" and phase is Phase.INITIALIZED:
        return Phase.READY
    return phase


def may_act_on(phase: Phase, method: str) -> bool:
    """Whether a notification from the client counts in this phase."""
    return phase in (Phase.INITIALIZED, Phase.READY) or method == "notifications/cancelled"
