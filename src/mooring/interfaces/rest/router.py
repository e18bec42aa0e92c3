"""From a request to an operation and back: paths, parameters, bodies, errors, progress."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from mooring.errors import MooringError
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import NOBODY, Caller
from mooring.interfaces.rest.failures import described, failure_of
from mooring.interfaces.rest.openapi import openapi_of
from mooring.interfaces.rest.operations import JSON, TAKEN, ApiError, Call, Operation
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

log = logging.getLogger(__name__)
PREFIX: Final = "/api/v1"
OPENAPI: Final = b"/api/openapi.json"
EVENTS: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"))


class RestApi:
    """All operations behind `/api/v1`."""

    def __init__(self, dispatcher: Dispatcher, operations: Iterable[Operation], version: str) -> None:
        self.operations = tuple(operations)
        self._dispatcher = dispatcher
        self._version = version

    def handle(self, request: Request, reply: Reply, caller: Caller = NOBODY) -> None:
        """Answer a request, now or when its work is done."""
        if request.path == OPENAPI and request.method == b"GET":
            reply.send(200, JSON, msgspec.json.encode(openapi_of(self.operations, PREFIX, self._version)))
            return
        try:
            operation, path = self._find(request)
            call = Call(request, reply, path, caller=caller)
            call.query = _read_query(request, operation)
            call.body = _read_body(request, operation)
        except ApiError as error:
            _send_error(reply, error)
            return
        self._dispatcher.spawn(_run(operation, call))

    def _find(self, request: Request) -> tuple[Operation, dict[str, str]]:
        whole = request.path.decode("latin-1")
        path = whole.removeprefix(PREFIX) if whole.startswith(f"{PREFIX}/") else ""
        method = request.method.decode("latin-1")
        allowed: set[str] = set()
        for operation in self.operations:
            found = _match(operation.path, path)
            if found is None:
                continue
            if operation.method == method:
                if operation.local and request.peer != "unix":
                    raise ApiError(403, "local_only", "this is answered on the Unix socket only")
                return operation, found
            allowed.add(operation.method)
        if allowed:
            verbs = ", ".join(sorted(allowed))
            raise ApiError(405, "method_not_allowed", f"`{method}` is not possible here; use {verbs}")
        raise ApiError(404, "no_such_operation", "nothing is here", "see /api/openapi.json for what there is")


def _match(pattern: str, path: str) -> dict[str, str] | None:
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    found: dict[str, str] = {}
    for word, part in zip(wanted, given, strict=True):
        if word.startswith("{"):
            found[word[1:-1]] = unquote(part)
        elif word != part:
            return None
    return found if all(found.values()) else None


def _read_query(request: Request, operation: Operation) -> Any:
    pairs = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True)
    given: dict[str, Any] = {}
    lists = {found.encode_name for found in msgspec.structs.fields(operation.query) if _is_list(found.type)}
    for name, value in pairs:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ApiError(400, "invalid_query", f"`{name}` is given twice")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, operation.query, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise ApiError(400, "invalid_query", f"the query cannot be used: {error}") from error


def _is_list(kind: Any) -> bool:
    found = msgspec.inspect.type_info(kind)
    while isinstance(found, msgspec.inspect.Metadata):
        found = found.type
    return isinstance(found, msgspec.inspect.ListType)


def _read_body(request: Request, operation: Operation) -> Any:
    if operation.takes is None:
        return None
    try:
        return msgspec.json.decode(request.body, type=operation.takes)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        code = "invalid_body" if isinstance(error, msgspec.ValidationError) else "invalid_json"
        raise ApiError(400, code, f"the body cannot be used: {error}") from error


async def _run(operation: Operation, call: Call) -> None:
    stream = _Progress(call.reply) if operation.has_progress and _wants_events(call.request) else None
    if stream is not None:
        call.tell = stream.tell
    try:
        answer = await operation.handler(call)
    except MooringError as error:
        failure = failure_of(error)
    except Exception:
        log.exception("%s %s failed", operation.method, operation.path)
        failure = ApiError(500, "internal_error", "internal error", "see the log of the daemon")
    else:
        if stream is not None:
            stream.end("done", answer)
        elif answer is not TAKEN:
            _send(call.reply, operation, answer)
        return
    if stream is not None:
        stream.end("failed", described(failure))
    else:
        _send_error(call.reply, failure)


def _send(reply: Reply, operation: Operation, answer: object) -> None:
    if reply.closed:
        return
    if operation.answers is None:
        reply.send(204, (), b"")
    else:
        reply.send(operation.status, JSON, msgspec.json.encode(answer))


def _send_error(reply: Reply, error: ApiError) -> None:
    if not reply.closed and not reply.started:
        reply.send(error.status, JSON, msgspec.json.encode(described(error)))


def _wants_events(request: Request) -> bool:
    return b"text/event-stream" in (request.header(b"accept") or b"")


class _Progress:
    """Events for somebody who waits: `progress` any number of times, then `done` or `failed`."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        reply.start(HTTPStatus.OK, EVENTS, compress=False)

    def tell(self, name: str, text: str) -> None:
        # Whoever does not read misses progress, not the end.
        if not self._reply.closed and self._reply.writable:
            self._write("progress", {"name": name, "text": text})

    def end(self, event: str, value: object) -> None:
        if not self._reply.closed:
            self._write(event, value)
            self._reply.end()

    def _write(self, event: str, value: object) -> None:
        self._reply.write(b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(value)))
