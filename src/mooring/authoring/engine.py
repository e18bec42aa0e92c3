"""The protocol of a server: takes decoded messages of clients, of either era, and answers them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from mooring.authoring.audience import Audience
from mooring.authoring.calls import Call, Json, Sink
from mooring.authoring.catalog import Catalog
from mooring.authoring.errors import ClientCannot, ClientRefused, ToolError
from mooring.authoring.identity import Cache, Identity
from mooring.authoring.listening import ListenStream
from mooring.authoring.methods import LISTS, Methods
from mooring.authoring.peers import ModernPeer, Session
from mooring.authoring.results import call_result, failure
from mooring.authoring.rounds import Rounds
from mooring.errors import (
    INTERNAL_ERROR,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    RpcError,
    http_status_of,
)
from mooring.protocol import jsonrpc, lifecycle, meta, translate
from mooring.protocol.jsonrpc import Envelope, RequestId
from mooring.protocol.versions import V2025_06_18
from mooring.transports.sealing import KEY_BYTES, Seal

LAST_ANSWERS_SECONDS: Final = 2.0
"""How long calls may wind up once they are cancelled; a handler that ignores it must not hold the server."""
_GONE_IN_MODERN: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
_NOT_IN_LEGACY: Final = frozenset({"server/discover", "subscriptions/listen"})
_EXPIRED: Final = "the interaction has expired; call again from the start"
_decode = msgspec.json.Decoder(dict[str, Any]).decode

log = logging.getLogger("mooring.authoring")


def _seal(key: bytes | None) -> Seal:
    """Processes that share a key open each other's seals."""
    return Seal(hashlib.sha256(key).digest() if key else secrets.token_bytes(KEY_BYTES))


class Engine:
    """One server, whatever transports lead to it."""

    def __init__(
        self, identity: Identity, catalog: Catalog, audience: Audience, cache: Cache, key: bytes | None
    ) -> None:
        self.audience = audience
        self.methods = Methods(identity, catalog, audience)
        self.rounds = Rounds(_seal(key), self._may_repeat)
        self._identity = identity
        self._catalog = catalog
        self._cache = cache
        self._calls: set[Call] = set()
        self._lists: dict[tuple[str, str], bytes] = {}
        self._listed_revision = -1

    async def close(self) -> None:
        """End streams in the orderly way, cancel what still runs, and give it a moment to wind up."""
        for listener in list(self.audience.listeners):
            if isinstance(listener, ListenStream):
                listener.end()
        await asyncio.sleep(0)
        self.rounds.close()
        tasks = [call.task for call in self._calls if call.task is not None]
        for call in list(self._calls):
            call.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_ANSWERS_SECONDS)

    # What transports hand over

    def open_session(self, push: Callable[[bytes], None]) -> Session:
        session = Session(push)
        self.audience.listeners.add(session)
        return session

    def close_session(self, session: Session) -> None:
        self.audience.listeners.discard(session)
        session.close()

    def legacy(self, session: Session, envelope: Envelope, sink: Sink) -> None:
        """A message in a session; `sink` is for the answer, if it is a request."""
        if envelope.method is None:
            session.answered(envelope)
        elif not envelope.id:
            self._notified(session, envelope)
        else:
            self._legacy_request(session, envelope, sink)

    def _legacy_request(self, session: Session, envelope: Envelope, sink: Sink) -> None:
        method = envelope.method or ""
        try:
            phase = lifecycle.on_request(session.phase, method)
            key = jsonrpc.id_key(envelope.id)
            if key in session.running:
                raise InvalidRequest("`id` is in use by another request that is still running")
            params = read_object(envelope)
            if method == "initialize":
                result = self.methods.initialize(session, params)
                session.phase = lifecycle.on_initialize_answered(phase, accepted=True)
                sink.answer(jsonrpc.result(envelope.id, msgspec.json.encode(result)))
                return
            if method in _NOT_IN_LEGACY:
                raise MethodNotFound(f"no method `{method}` in revision {session.version}")
        except RpcError as error:
            sink.answer(jsonrpc.error(envelope.id, error.encode()))
            return
        call = Call(session, bytes(envelope.id), method, params, sink, session.running, key)
        self._dispatch(call)

    def _notified(self, session: Session, envelope: Envelope) -> None:
        method = envelope.method or ""
        if not lifecycle.may_act_on(session.phase, method):
            return
        session.phase = lifecycle.on_notification(session.phase, method)
        if method == "notifications/cancelled":
            cancel(session.running, envelope)

    def modern(
        self,
        envelope: Envelope,
        read: meta.Meta,
        version: str,
        sink: Sink,
        running: dict[RequestId, Call],
        headers: bytes | None = None,
    ) -> Call | None:
        """A request that stands alone and whose metadata is in order; the call that works on it, if any."""
        method = envelope.method or ""
        try:
            key = jsonrpc.id_key(envelope.id)
            if key in running:
                raise InvalidRequest("`id` is in use by another request that is still running")
            if method in _GONE_IN_MODERN:
                raise MethodNotFound(f"no method `{method}` in revision {version}")
            params = read_object(envelope)
            peer = ModernPeer(
                version,
                msgspec.json.decode(read.capabilities),
                msgspec.json.decode(read.client_info) if read.client_info else {},
                meta.text(read.log_level),
                self.rounds,
            )
            call = Call(peer, bytes(envelope.id), method, params, sink, running, key, headers)
            if "requestState" in params and method in self.methods.slow:
                return self._resume(call)
        except RpcError as error:
            sink.answer(jsonrpc.error(envelope.id, error.encode()), http_status_of(error.code))
            return None
        self.rounds.volunteer(call)
        self._dispatch(call)
        return call

    def _resume(self, retry: Call) -> Call | None:
        call = self.rounds.resume(retry)
        if call is None:
            self._expired(retry)
        elif call is retry:
            self._dispatch(call)
        elif call.outcome is not None:
            call.answer(call.outcome(call.id))
        else:
            call.running[call.key] = call
        return call

    def _expired(self, retry: Call) -> None:
        if retry.method == "tools/call":
            members = call_result(failure(_EXPIRED), retry.peer.version, wraps=False)
            retry.answer(jsonrpc.result(retry.id, self._finished(retry, members)))
        else:
            retry.answer(jsonrpc.error(retry.id, RpcError(_EXPIRED).encode()))

    # Running a call

    def _dispatch(self, call: Call) -> None:
        quick = self.methods.quick.get(call.method)
        if quick is not None:
            try:
                call.answer(jsonrpc.result(call.id, self._quickly(call, quick)))
            except RpcError as error:
                self._fail(call, error)
            return
        if call.method not in self.methods.slow:
            self._fail(call, MethodNotFound(f"no method `{call.method}`"))
            return
        call.running[call.key] = call
        self._calls.add(call)
        task = call.task = asyncio.get_running_loop().create_task(self._run(call))
        task.add_done_callback(lambda _: self._ended(call))

    def _quickly(self, call: Call, method: Callable[[Call], Json]) -> bytes:
        """Lists are written once per revision, until they change."""
        if call.method not in LISTS or "cursor" in call.params:
            return self._finished(call, method(call))
        if self._listed_revision != self._catalog.revision:
            self._lists.clear()
            self._listed_revision = self._catalog.revision
        place = (call.method, call.peer.version)
        if place not in self._lists:
            self._lists[place] = self._finished(call, method(call))
        return self._lists[place]

    async def _run(self, call: Call) -> None:
        try:
            raw = self._finished(call, await self.methods.slow[call.method](call))
        except RpcError as error:
            self._fail(call, error)
        except ClientCannot as error:
            self._fail(call, _missing(call, error))
        except (ToolError, ClientRefused) as error:
            self._fail(call, RpcError(str(error)))
        except Exception:
            reference = secrets.token_hex(4)
            log.exception("`%s` failed (reference %s)", call.method, reference)
            self._fail(call, RpcError(f"internal error (reference {reference})", code=INTERNAL_ERROR))
        else:
            if call.sink is None:
                call.outcome = partial(jsonrpc.result, value=raw)
            else:
                call.answer(jsonrpc.result(call.id, raw))

    def _ended(self, call: Call) -> None:
        self._calls.discard(call)
        call.leave()
        if call.task is not None and call.task.cancelled() and call.sink is not None:
            call.sink.drop()

    def _fail(self, call: Call, error: RpcError) -> None:
        if call.sink is None:
            call.outcome = partial(jsonrpc.error, value=error.encode())
        else:
            status = http_status_of(error.code) if call.peer.is_modern else 200
            call.answer(jsonrpc.error(call.id, error.encode()), status)

    def _finished(self, call: Call, members: Json) -> bytes:
        """A complete result, as the client's revision has it."""
        if call.peer.is_modern:
            members = {"resultType": "complete", **members}
            members["_meta"] = {meta.SERVER_INFO: self._identity.info, **members.get("_meta", {})}
            if call.method in translate.CACHEABLE:
                members = {**self._cache.hints, **members}
        raw = msgspec.json.encode(members)
        version = call.peer.version
        return raw if version >= V2025_06_18 else translate.result(call.method, raw, version)

    def _may_repeat(self, call: Call) -> bool:
        if call.method != "tools/call":
            return True  # reading a resource or a prompt changes nothing
        tool = self._catalog.tools.get(str(call.params.get("name")))
        return tool is not None and tool.may_repeat


def cancel(running: dict[RequestId, Call], envelope: Envelope) -> None:
    """`notifications/cancelled`: unknown and finished requests are nobody's business any more."""
    try:
        raw = bytes(meta.read_params(envelope.params).request_id)
    except RpcError:
        return
    if raw and jsonrpc.is_request_id(raw):
        call = running.get(jsonrpc.id_key(raw))
        if call is not None:
            call.cancel()


def read_object(envelope: Envelope) -> Json:
    if not envelope.params:
        return {}
    try:
        return _decode(envelope.params)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidParams(f"`params` cannot be read: {error}") from None


def _missing(call: Call, error: ClientCannot) -> RpcError:
    if call.peer.is_modern:
        return MissingCapability(str(error), data={"requiredCapabilities": error.capabilities})
    return InvalidRequest(str(error))
