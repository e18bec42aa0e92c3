"""Traces with OpenTelemetry: a span for each request, joined to the caller's trace and passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mooring.errors import INTERNAL_ERROR, RpcError
from mooring.gateway.exchange import Exchange
from mooring.policy.items import ABOUT, set_params, subject
from mooring.policy.tool_errors import failed_inside
from mooring.protocol import jsonrpc, meta
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

_CARRIED: Final = ("traceparent", "tracestate")
_LONGEST_ID: Final = 100
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class Tracing:
    """The tracer of a gateway."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], service_name: str, sampling: float) -> None:
        sampler = ParentBased(TraceIdRatioBased(sampling))
        resource = Resource.create({"service.name": service_name})
        self._provider = TracerProvider(resource=resource, sampler=sampler)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", headers=dict(headers))
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
        self.tracer = self._provider.get_tracer("mooring")

    def close(self) -> None:
        self._provider.shutdown()


class ServerTracing:
    """The observer of one server's exchanges."""

    def __init__(self, tracing: Tracing, server_id: str) -> None:
        self._tracer = tracing.tracer
        self._server_id = server_id
        self._spans: dict[Exchange, Span] = {}

    def began(self, exchange: Exchange) -> None:
        found = _carried(exchange)
        carried = found[1] if found is not None else {}
        context = _PROPAGATOR.extract(carried)
        subject = _subject(exchange)
        span = self._tracer.start_span(
            f"{exchange.method} {subject}".strip(),
            context=context,
            kind=SpanKind.SERVER,
            attributes=self._attributes(exchange, subject),
        )
        self._spans[exchange] = span
        if found is not None and (span.is_recording() or carried):
            self._pass_on(exchange, span, found[0])

    def _attributes(self, exchange: Exchange, subject: str) -> dict[str, str]:
        found = {
            "mcp.method.name": exchange.method,
            "mcp.protocol.version": exchange.client.version,
            "mooring.server": self._server_id,
            "enduser.id": exchange.caller.principal.id,
            "network.transport": "pipe" if exchange.transport == "stdio" else "tcp",
        }
        if exchange.caller.address and exchange.transport != "stdio":
            found["client.address"] = exchange.caller.address
        if exchange.envelope.id:
            found["jsonrpc.request.id"] = bytes(exchange.envelope.id)[:_LONGEST_ID].decode().strip('"')
        if exchange.client.era is Era.LEGACY and exchange.client.key:
            found["mcp.session.id"] = exchange.client.key.removeprefix("session:")  # an alias of it
        if exchange.method == "tools/call":
            found["gen_ai.tool.name"] = subject
            found["gen_ai.operation.name"] = "execute_tool"
        elif exchange.method == "prompts/get":
            found["gen_ai.prompt.name"] = subject
        elif subject:
            found["mcp.resource.uri"] = subject
        return found

    def _pass_on(self, exchange: Exchange, span: Span, parts: dict[str, Raw]) -> None:
        """The server's own spans hang below ours."""
        if exchange.method == "initialize" or not exchange.envelope.id:
            return
        given = meta.entries(parts)
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(span))
        given.update((name, Raw(msgspec.json.encode(value))) for name, value in carrier.items())
        parts["_meta"] = Raw(jsonrpc.assemble(given))
        set_params(exchange, parts)

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        span = self._spans.pop(exchange)
        if answer is not None and answer.error:
            code = _code_in(answer.error)
            span.set_status(Status(StatusCode.ERROR))
            span.set_attribute("error.type", code)
            span.set_attribute("rpc.response.status_code", code)
        elif answer is not None and failed_inside(exchange, answer):
            span.set_status(Status(StatusCode.ERROR))
            span.set_attribute("error.type", "tool_error")
        span.end()
        return answer

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        span = self._spans.pop(exchange, None)
        if span is None:
            return
        if not isinstance(error, asyncio.CancelledError):
            words = str(error) if isinstance(error, RpcError) else "internal error"
            span.set_status(Status(StatusCode.ERROR, words))
            span.set_attribute("error.type", type(error).__name__)
            if isinstance(error, RpcError):
                span.set_attribute("error.type", str(error.code))
                span.set_attribute("rpc.response.status_code", str(error.code))
        span.end()


def _carried(exchange: Exchange) -> tuple[dict[str, Raw], dict[str, Any]] | None:
    """The params, and the trace that the caller is in; None: there is no place for one in them."""
    try:
        parts = jsonrpc.members(exchange.envelope.params)
        given = meta.entries(parts)
    except RpcError:  # which is said where it matters
        return None
    found = {name: meta.text(given[name]) for name in _CARRIED if name in given}
    return parts, {name: value for name, value in found.items() if value is not None}


class _Coded(msgspec.Struct):
    code: int = INTERNAL_ERROR


def _code_in(error: bytes | Raw) -> str:
    try:
        return str(msgspec.json.decode(error, type=_Coded).code)
    except msgspec.DecodeError:
        return str(INTERNAL_ERROR)


def _subject(exchange: Exchange) -> str:
    try:
        found = subject(exchange) if exchange.method in ABOUT else None
    except RpcError:
        return ""
    return "" if found is None else found[1]
