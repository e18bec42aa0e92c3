"""The addresses of a server on its way out: what concerns its last calls reaches it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mooring.errors import RpcError
from mooring.gateway.clients import STANDALONE
from mooring.gateway.principal import Caller
from mooring.gateway.server import LEGACY_TASK_METHODS, Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.mcp_http import Headers
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import Envelope
from mooring.transports.event_streams import parse_event_id
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

Handler: TypeAlias = Callable[[Request, Reply, Headers, Caller], None]
SessionOf: TypeAlias = Callable[[Request], bytes]
CANCELLED: Final = "notifications/cancelled"


class WayOut:
    """Tells what concerns the calls of one such server from what is for whoever took its place."""

    def __init__(self, server: Server, sessions: SessionTable) -> None:
        self._server = server
        self._sessions = sessions

    def for_sessions(self, session_of: SessionOf, own: Handler, otherwise: Handler) -> Handler:
        """Lets legacy clients through to the calls of their sessions."""

        def handle(request: Request, reply: Reply, extra: Headers, caller: Caller) -> None:
            is_known = self._sessions.alias_of(session_of(request), self._server) is not None
            chosen = own if is_known and _begins_nothing(request) else otherwise
            chosen(request, reply, extra, caller)

        return handle

    def for_retries(self, own: Handler, otherwise: Handler) -> Handler:
        """Lets modern clients through to their calls and tasks. Only where nobody took its place: whoever
        did knows these too, and has the rules that hold now."""

        def handle(request: Request, reply: Reply, extra: Headers, caller: Caller) -> None:
            (own if self._is_retry(request) else otherwise)(request, reply, extra, caller)

        return handle

    def _is_retry(self, request: Request) -> bool:
        try:
            jsonrpc.check_text(request.body)
            envelope = jsonrpc.decode(request.body)
            return self._server.awaits(envelope.method, meta.read_params(envelope.params))
        except RpcError:
            return False


def _begins_nothing(request: Request) -> bool:
    """Whether it answers, cancels, asks for a task, ends the session, or picks up the stream of a call."""
    if request.method == b"GET":
        place = parse_event_id(request.header(b"last-event-id") or b"")
        return place is not None and place[0] != STANDALONE
    if request.method == b"DELETE":
        return True
    body = request.body
    try:
        messages = jsonrpc.split_batch(body) if jsonrpc.is_batch(body) else [body]
        return all(_concerns_a_call(jsonrpc.decode(message)) for message in messages)
    except RpcError:
        return False


def _concerns_a_call(envelope: Envelope) -> bool:
    if envelope.is_request:
        return envelope.method in LEGACY_TASK_METHODS
    return envelope.is_response or envelope.method == CANCELLED
