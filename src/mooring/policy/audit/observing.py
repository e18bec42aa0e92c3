"""Audit in the chain: one line for every request, written before its answer leaves."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Raw

from mooring.errors import FORBIDDEN, RATE_LIMITED, RpcError, UpstreamFailed
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.principal import Caller, Principal
from mooring.gateway.tracing import redact
from mooring.policy.audit.events import HTTP_REQUEST, TOOL_DRIFT, Event, Source, Subjects, Target, type_of
from mooring.policy.audit.ledger import Sink, now_text
from mooring.policy.audit.streamed import AuditedRelay, FailureScan
from mooring.policy.items import ABOUT, Absent
from mooring.protocol import meta
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

SUCCESS: Final = "success"
FAILURE: Final = "failure"
ERROR: Final = "error"
DENIED: Final = "denied"
APPLICATION_ERROR: Final = "application_error"
_REMEMBERED_CLIENTS: Final = 1_000
_IS_ERROR: Final = b'"isError"'


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """What is written down."""

    component: str = "mooring"
    types: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    request_data: bool = False
    response_data: bool = False
    application_errors: bool = True
    max_data_bytes: int = 1024
    claims: bool = False

    def wants(self, kind: str) -> bool:
        return kind not in self.excluded and (not self.types or kind in self.types)


class _ClientInfo(msgspec.Struct):
    name: str = ""
    version: str = ""


class _Result(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")


class Audit:
    """Writes events of all servers into one ledger."""

    def __init__(self, sink: Sink, policy: AuditPolicy, versions: Callable[[], tuple[str, str]]) -> None:
        self._sink = sink
        self._policy = policy
        self._versions = versions
        self._run = secrets.token_hex(6)
        self._clients: dict[bytes, _ClientInfo] = {}
        self._known: dict[tuple[Principal, bytes], Subjects] = {}
        self._keeps_data = policy.request_data or policy.response_data

    def tidy(self) -> None:
        self._sink.tidy()

    def write(
        self,
        kind: str,
        outcome: str,
        caller: Caller,
        target: Target,
        *,
        client: Client | None = None,
        extra: dict[str, Any] | None = None,
        definition_hash: str = "",
        data: dict[str, Raw] | None = None,
    ) -> None:
        """One event, if its type is wanted."""
        if not self._policy.wants(kind):
            return
        sink = self._sink
        policy_version, lock_hash = self._versions()
        event = Event(
            seq=sink.seq,
            prev=sink.prev,
            audit_id=f"{self._run}-{sink.seq}",
            type=kind,
            logged_at=now_text(),
            outcome=outcome,
            component=self._policy.component,
            source=_source(caller),
            subjects=self._subjects(caller.principal, client),
            target=target,
            metadata={"extra": extra or {}},
            policy_version=policy_version,
            definition_hash=definition_hash,
            lock_hash=lock_hash,
            data=data,
        )
        line = msgspec.json.encode(event)
        sink.append(line if line.isascii() else _one_line(line))

    def _subjects(self, principal: Principal, client: Client | None) -> Subjects:
        key = (principal, client.info if client is not None else b"")
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_CLIENTS:
                self._known.clear()
            known = self._known[key] = self._describe(principal, client)
        return known

    def _describe(self, principal: Principal, client: Client | None) -> Subjects:
        info = self._client_info(client.info) if client is not None else _ClientInfo()
        claims = dict(principal.claims) if self._policy.claims and principal.claims else None
        name = principal.claims.get("name") or principal.claims.get("email") or principal.subject
        return Subjects(str(name), principal.id, info.name, info.version, claims)

    def _client_info(self, raw: bytes) -> _ClientInfo:
        found = self._clients.get(raw)
        if found is None:
            try:
                found = msgspec.json.decode(raw, type=_ClientInfo) if raw else _ClientInfo()
            except msgspec.DecodeError:
                found = _ClientInfo()
            if len(self._clients) >= _REMEMBERED_CLIENTS:
                self._clients.clear()
            self._clients[raw] = found
        return found

    def data(self, **parts: bytes | Raw) -> dict[str, Raw] | None:
        """Request and response as configured: cut to size, secrets blotted out."""
        if not self._keeps_data:
            return None
        wanted = {"request": self._policy.request_data, "response": self._policy.response_data}
        kept = {name: self._shortened(bytes(raw)) for name, raw in parts.items() if wanted[name] and raw}
        return kept or None

    def _shortened(self, raw: bytes) -> Raw:
        limit = self._policy.max_data_bytes
        if len(raw) > limit:
            cut = redact(raw[: limit * 2])[:limit].decode("utf-8", "ignore")
            return Raw(msgspec.json.encode({"truncated": cut, "bytes": len(raw)}))
        shown = redact(raw)
        try:
            msgspec.json.decode(shown)
        except msgspec.DecodeError:
            return Raw(msgspec.json.encode(shown.decode("utf-8", "replace")))
        return Raw(shown)

    @property
    def policy(self) -> AuditPolicy:
        return self._policy


def _one_line(line: bytes) -> bytes:
    """Some readers end a line at more characters than JSON does; a name must not begin one for them."""
    for character in ("\u2028", "\u2029", "\u0085"):
        line = line.replace(character.encode(), b"\\u%04x" % ord(character))
    return line


def _source(caller: Caller) -> Source:
    extra = {"user_agent": caller.user_agent} if caller.user_agent else None
    kind = "local" if caller.address in ("unix", "") else "network"
    return Source(kind, caller.address or "unknown", extra)


class ServerAudit:
    """The observer of one server's exchanges."""

    def __init__(self, audit: Audit, server_id: str, definition_of: Callable[[Exchange, str], str]) -> None:
        self.audit = audit
        self.server_id = server_id
        self._endpoint = f"/mcp/{server_id}"
        self._definition_of = definition_of
        self._requests: dict[Exchange, tuple[str, Raw]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something has begun and is not written down yet."""
        return bool(self._requests)

    def began(self, exchange: Exchange) -> None:
        """Keep what the client asked for, before the rest of the chain rewrites it."""
        self._requests[exchange] = (_name_in(exchange), exchange.envelope.params)

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        if answer is None:  # handed over to the exchange that it continues
            del self._requests[exchange]
            return None
        if answer.relay is not None:
            relay = AuditedRelay(answer.relay, partial(self._relayed, exchange), self._scan_for(exchange))
            return msgspec.structs.replace(answer, relay=relay)
        outcome = SUCCESS
        if answer.error:
            outcome = FAILURE
        elif self.audit.policy.application_errors and _failed_inside(exchange, answer):
            outcome = APPLICATION_ERROR
        if answer.kept is not None:
            response = answer.kept.load() if self.audit.policy.response_data else b""
            self._write(exchange, outcome, answer.kept.length, response=response)
            return answer
        size = len(answer.whole or answer.error or answer.result)
        self._write(exchange, outcome, size, response=answer.error or answer.result)
        return answer

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        if exchange not in self._requests:
            return  # it was the writing itself that failed
        why = exchange.failure if isinstance(error, asyncio.CancelledError) else error
        extra = {"error": str(why) if isinstance(why, RpcError) else type(error).__name__}
        self._write(exchange, outcome_of(error), 0, extra=extra)

    def _scan_for(self, exchange: Exchange) -> FailureScan | None:
        wanted = self.audit.policy.application_errors and exchange.method == "tools/call"
        return FailureScan() if wanted else None

    def _relayed(self, exchange: Exchange, size: int, failed: bool, error: Exception | None) -> None:
        outcome = ERROR if error is not None else APPLICATION_ERROR if failed else SUCCESS
        self._write(exchange, outcome, size, extra={"streamed": True})

    def _write(
        self,
        exchange: Exchange,
        outcome: str,
        size: int,
        *,
        response: bytes | Raw = b"",
        extra: dict[str, Any] | None = None,
    ) -> None:
        name, params = self._requests.pop(exchange)
        kind = type_of(exchange.method)
        if not self.audit.policy.wants(kind):
            return
        details: dict[str, Any] = {
            "duration_ms": round((monotonic() - exchange.started) * 1000, 3),
            "transport": _transport(exchange),
            "response_size_bytes": size,
            **(extra or {}),
        }
        if exchange.guarded:
            details["task"] = True
        about = ABOUT.get(exchange.method)
        member = about[1] if about is not None else ""
        target = Target(
            self._endpoint,
            exchange.method,
            about[0].removesuffix("s") if about is not None else "",
            name=name if member == "name" else "",
            uri=name if member == "uri" else "",
        )
        definition = self._definition_of(exchange, name) if exchange.method == "tools/call" else ""
        data = self.audit.data(request=params, response=response)
        self.audit.write(
            kind,
            outcome,
            exchange.caller,
            target,
            client=exchange.client,
            extra=details,
            definition_hash=definition,
            data=data,
        )

    # What does not pass the chain

    def notification(self, client: Client, method: str) -> None:
        target = Target(self._endpoint, method, "")
        self.audit.write(type_of(method), SUCCESS, client.caller, target, client=client)

    def connection(self, client: Client, kind: str) -> None:
        """A stream was opened, or a session ended."""
        self.audit.write(kind, SUCCESS, client.caller, Target(self._endpoint, "", ""), client=client)

    def drifted(self, exchange: Exchange, details: dict[str, Any]) -> None:
        """Tool definitions are not what they were."""
        target = Target(self._endpoint, exchange.method, "tool")
        self.audit.write(TOOL_DRIFT, FAILURE, exchange.caller, target, client=exchange.client, extra=details)

    def files(self, caller: Caller, kind: str, status: int, details: dict[str, Any]) -> None:
        """A file was sent or fetched, or was meant to be."""
        outcome = SUCCESS if status < 400 else DENIED if status in (401, 403, 429) else FAILURE
        target = Target(self._endpoint, "", "file")
        self.audit.write(kind, outcome, caller, target, extra={"status": status, **details})

    def refused(self, caller: Caller, status: int, reason: str) -> None:
        """Somebody was not let in."""
        target = Target(self._endpoint, "", "")
        self.audit.write(HTTP_REQUEST, DENIED, caller, target, extra={"status": status, "reason": reason})


def outcome_of(error: BaseException) -> str:
    """How an exception reads in the audit."""
    if isinstance(error, Absent):
        return DENIED if error.hidden else FAILURE
    if isinstance(error, RpcError) and error.code in (FORBIDDEN, RATE_LIMITED):
        return DENIED
    if isinstance(error, RpcError) and not isinstance(error, UpstreamFailed):
        return FAILURE
    return ERROR


def _name_in(exchange: Exchange) -> str:
    about = ABOUT.get(exchange.method)
    if about is None:
        return ""
    try:
        params = exchange.read_params()
    except RpcError:  # which is said to the client where it matters
        return ""
    return meta.text(params.name if about[1] == "name" else params.uri) or ""


def _failed_inside(exchange: Exchange, answer: Answer) -> bool:
    if answer.kept is not None:
        return answer.kept.short("isError") == b"true"
    if exchange.method != "tools/call" or _IS_ERROR not in bytes(answer.result):
        return False
    try:
        return msgspec.json.decode(answer.result, type=_Result).is_error
    except msgspec.DecodeError:
        return False


def _transport(exchange: Exchange) -> str:
    if exchange.caller.address == "unix":
        return "stdio"
    if exchange.client.era is Era.LEGACY and getattr(exchange.client, "channel", None) is not None:
        return "sse"
    return "streamable-http"
