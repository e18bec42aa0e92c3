"""Audit in the chain: one line for every request, written before its answer leaves."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Raw

from mooring.errors import FORBIDDEN, RATE_LIMITED, RpcError, UpstreamFailed
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.principal import Caller, Principal
from mooring.gateway.tracing import redact
from mooring.policy.audit.delegation import DEPTH, delegation_of
from mooring.policy.audit.events import (
    HTTP_REQUEST,
    RECOVERED,
    TOOL_DRIFT,
    Actor,
    Source,
    Subjects,
    Target,
    Version,
    line,
    members_of,
    text_of,
    type_of,
)
from mooring.policy.audit.ledger import Sink, now_text
from mooring.policy.audit.streamed import AuditedRelay, FailureScan
from mooring.policy.catalogue import Catalogue
from mooring.policy.items import ABOUT, TOOLS, Absent, subject
from mooring.policy.tool_errors import failed_inside
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

SUCCESS: Final = "success"
FAILURE: Final = "failure"
ERROR: Final = "error"
DENIED: Final = "denied"
APPLICATION_ERROR: Final = "application_error"
_REMEMBERED: Final = 1_000
"""Callers, targets and versions whose text is kept."""
_LONGEST_ID: Final = 100


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
    max_delegation_depth: int = DEPTH
    claims: bool = False

    def wants(self, kind: str) -> bool:
        return kind not in self.excluded and (not self.types or kind in self.types)


class _ClientInfo(msgspec.Struct):
    name: str = ""
    version: str = ""


class Audit:
    """Writes events of all servers into one ledger."""

    def __init__(self, sink: Sink, policy: AuditPolicy, versions: Callable[[], tuple[str, str]]) -> None:
        self._sink = sink
        self._versions = versions
        self._run = secrets.token_hex(6)
        self._actor_of = lru_cache(maxsize=_REMEMBERED)(self._describe)
        self.policy = policy
        self.keeps_data = policy.request_data or policy.response_data
        self.failure: OSError | None = None

    def require(self) -> None:
        """Raise while nothing can be written down: what would leave no trace must not happen."""
        if self.failure is None:
            return
        sink = self._sink
        note = {"seq": sink.seq, "prev": sink.prev, "type": RECOVERED, "logged_at": now_text()}
        try:
            self._append(msgspec.json.encode(note))
        except OSError as error:
            raise RpcError("the audit log cannot be written, so nothing is let through") from error
        log.warning("the audit log can be written again")

    def trouble(self) -> str | None:
        """For the health report."""
        return None if self.failure is None else f"the audit log cannot be written: {self.failure.strerror}"

    def _append(self, line: bytes) -> None:
        try:
            self._sink.append(line)
        except OSError as error:
            if self.failure is None:
                log.error("the audit log cannot be written, requests are refused: %s", error)  # noqa: TRY400
            self.failure = error
            raise
        self.failure = None

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
        if not self.policy.wants(kind):
            return
        told = text_of(extra or {})
        self.append(kind, outcome, caller, text_of(target), client, told, definition_hash, data)

    def append(
        self,
        kind: str,
        outcome: str,
        caller: Caller,
        target: str,
        client: Client | None,
        extra: str,
        definition_hash: str,
        data: dict[str, Raw] | None,
    ) -> None:
        """One event of a type that is wanted; its target and the extra are encoded."""
        sink = self._sink
        policy_version, lock_hash = self._versions()
        info = client.info if client is not None else b""
        self._append(
            line(
                sink.seq,
                sink.prev,
                self._run,
                kind,
                now_text(),
                outcome,
                self._actor_of(caller.principal, caller.address, caller.user_agent, info),
                target,
                _version_text(policy_version, definition_hash, lock_hash),
                extra,
                data,
            )
        )

    def _describe(self, principal: Principal, address: str, user_agent: str, info: bytes) -> str:
        given = _client_info(info)
        claims = dict(principal.claims) if self.policy.claims and principal.claims else None
        name = principal.claims.get("name") or principal.claims.get("email") or principal.subject
        subjects = Subjects(str(name), principal.id, given.name, given.version, claims)
        extra = {"user_agent": user_agent} if user_agent else None
        kind = "local" if address in ("unix", "") else "network"
        source = Source(kind, address or "unknown", extra)
        delegation = delegation_of(principal.claims, self.policy.max_delegation_depth)
        return members_of(Actor(self.policy.component, source, subjects, delegation))

    def data(self, size: int, /, **parts: bytes | Raw) -> dict[str, Raw] | None:
        """Request and response (of so many bytes) as configured: cut to size, secrets blotted out."""
        if not self.keeps_data:
            return None
        wanted = {"request": self.policy.request_data, "response": self.policy.response_data}
        sizes = {"request": 0, "response": size}
        kept = {
            name: self._shortened(bytes(raw), sizes[name])
            for name, raw in parts.items()
            if wanted[name] and raw
        }
        return kept or None

    def _shortened(self, raw: bytes, size: int) -> Raw:
        limit = self.policy.max_data_bytes
        if len(raw) > limit:
            cut = redact(raw[: limit * 2])[:limit].decode("utf-8", "ignore")
            return Raw(msgspec.json.encode({"truncated": cut, "bytes": max(len(raw), size)}))
        shown = redact(raw)
        try:
            msgspec.json.decode(shown)
        except msgspec.DecodeError:
            return Raw(msgspec.json.encode(shown.decode("utf-8", "replace")))
        return Raw(shown)


def _client_info(raw: bytes) -> _ClientInfo:
    try:
        return msgspec.json.decode(raw, type=_ClientInfo) if raw else _ClientInfo()
    except msgspec.DecodeError:
        return _ClientInfo()


@lru_cache(maxsize=_REMEMBERED)
def _version_text(policy_version: str, definition_hash: str, lock_hash: str) -> str:
    return members_of(Version(policy_version, definition_hash, lock_hash))


class ServerAudit:
    """The observer of one server's exchanges."""

    def __init__(self, audit: Audit, server_id: str, catalogue: Catalogue, group: str = "") -> None:
        self.audit = audit
        self.server_id = server_id
        self._group = group
        self._catalogue = catalogue
        self._endpoint = f"/mcp/{server_id}"
        self._target_of = lru_cache(maxsize=_REMEMBERED)(self._describe_target)
        self._requests: dict[Exchange, tuple[str, Raw]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something has begun and is not written down yet."""
        return bool(self._requests)

    def began(self, exchange: Exchange) -> None:
        """Keep what the client asked for, before the rest of the chain rewrites it."""
        self._requests[exchange] = (_name_in(exchange), exchange.envelope.params)

    def check(self, exchange: Exchange) -> None:
        """Nothing goes on that could not be written down."""
        del exchange
        if self.audit.failure is not None:
            self.audit.require()

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        if answer is None:  # handed over to the exchange that it continues
            del self._requests[exchange]
            return None
        if answer.relay is not None:
            kept = self.audit.policy.max_data_bytes * 2 if self.audit.policy.response_data else 0
            done = partial(self._relayed, exchange)
            relay = AuditedRelay(answer.relay, done, self._scan_for(exchange), kept)
            return msgspec.structs.replace(answer, relay=relay)
        outcome = SUCCESS
        if answer.error:
            outcome = FAILURE
        elif self.audit.policy.application_errors and failed_inside(exchange, answer):
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
        if isinstance(why, RpcError) and why.by is not None:
            extra["refused_by"] = why.by
        try:
            self._write(exchange, outcome_of(error), 0, extra=extra)
        except OSError:
            log.info("that `%s` failed could not be written down", exchange.method)

    def _scan_for(self, exchange: Exchange) -> FailureScan | None:
        wanted = self.audit.policy.application_errors and exchange.method == "tools/call"
        return FailureScan() if wanted else None

    def _relayed(
        self, exchange: Exchange, size: int, failed: bool, error: Exception | None, head: bytes
    ) -> None:
        outcome = ERROR if error is not None else APPLICATION_ERROR if failed else SUCCESS
        self._write(exchange, outcome, size, response=head, extra={"streamed": True})

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
        audit, method = self.audit, exchange.method
        definition, own, hints = "", "", ""
        if method == "tools/call":
            own = name if exchange.asked is None else _name_in(exchange)
            view = self._catalogue.view(exchange, TOOLS)
            definition, hints = view.digest(own), view.annotations(own).text
        kind, target = self._target_of(method, name, own, hints)
        if not target:
            return
        milliseconds = (monotonic() - exchange.started) * 1000
        request_id = exchange.envelope.id
        shown_id = str(request_id, "utf-8") if 0 < len(request_id) <= _LONGEST_ID else "null"
        more = f",{text_of(extra)[1:-1]}" if extra is not None else ""
        task = ',"task":true' if exchange.guarded else ""
        details = (
            f'{{"duration_ms":{milliseconds:.3f},"transport":"{exchange.transport}",'
            f'"response_size_bytes":{size},"request_id":{shown_id}{more}{task}}}'
        )
        data = audit.data(size, request=params, response=response) if audit.keeps_data else None
        audit.append(kind, outcome, exchange.caller, target, exchange.client, details, definition, data)

    def _describe_target(self, method: str, name: str, own: str, hints: str) -> tuple[str, str]:
        """The type of an event, and its target; none if such events are not wanted."""
        kind, member = ABOUT.get(method, ("", ""))
        by_name, by_uri = (name if member == each else "" for each in ("name", "uri"))
        target = Target(
            self._endpoint,
            method,
            kind.removesuffix("s"),
            by_name,
            by_uri,
            own if own != name else "",
            self._group,
            msgspec.json.decode(hints, type=dict[str, Any]) if hints else None,
        )
        event = type_of(method)
        return event, text_of(target) if self.audit.policy.wants(event) else ""

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
    try:
        found = subject(exchange) if exchange.method in ABOUT else None
    except RpcError:  # which is said to the client where it matters
        return ""
    return "" if found is None else found[1]
