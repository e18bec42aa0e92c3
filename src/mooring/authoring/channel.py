"""A client with one channel for everything: stdio, or HTTP+SSE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.authoring.calls import Call, Sink
from mooring.authoring.engine import Engine, cancel
from mooring.errors import InvalidRequest, RpcError
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import Envelope, RequestId
from mooring.protocol.versions import allows_batches

_MODERN_META: Final = meta.PROTOCOL_VERSION.encode()


class ChannelSink:
    """Answers go where everything goes."""

    __slots__ = ("_send",)

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send

    def emit(self, message: bytes) -> None:
        self._send(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        del status  # there is no HTTP response to put it on
        self._send(message)

    def drop(self) -> None:
        """A cancelled call gets no answer."""

    def close_stream(self, retry_milliseconds: int | None) -> None:
        """There is no stream of its own to close."""


class BatchSink:
    """Collects the answers to a batch (2025-03-26) and sends them as one."""

    def __init__(self, inner: Sink, requests: int) -> None:
        self._inner = inner
        self._missing = requests
        self._answers: list[bytes] = []

    def emit(self, message: bytes) -> None:
        self._inner.emit(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        del status
        self._answers.append(message)
        self._one_less()

    def drop(self) -> None:
        self._one_less()

    def close_stream(self, retry_milliseconds: int | None) -> None:
        """Batches are older than this."""

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            if self._answers:
                self._inner.answer(b"[" + b",".join(self._answers) + b"]")
            else:
                self._inner.drop()


class Channel:
    """`initialize` makes its client a legacy one; a request with modern metadata always stands alone."""

    def __init__(self, engine: Engine, send: Callable[[bytes], None]) -> None:
        self._engine = engine
        self._send = send
        self._sink = ChannelSink(send)
        self.session = engine.open_session(send)
        self.modern: dict[RequestId, Call] = {}

    @property
    def owes_an_answer(self) -> bool:
        """A stream of changes does not count: it is answered when it ends, with its client."""
        modern = any(call.method != "subscriptions/listen" for call in self.modern.values())
        return modern or bool(self.session.running)

    def receive(self, data: bytes) -> None:
        """One line, or one POST."""
        try:
            if jsonrpc.is_batch(data):
                self._receive_batch(data)
            else:
                self._take(jsonrpc.decode(data), self._sink)
        except RpcError as error:
            self.refuse(error)

    def refuse(self, error: RpcError, request_id: bytes = b"") -> None:
        self._send(jsonrpc.error(request_id, error.encode()))

    def _receive_batch(self, data: bytes) -> None:
        if not allows_batches(self.session.version):
            raise InvalidRequest("this revision has no batches; send one message at a time")
        messages = [jsonrpc.decode(part) for part in jsonrpc.split_batch(data)]
        if any(envelope.method == "initialize" for envelope in messages):
            raise InvalidRequest("`initialize` cannot be part of a batch")
        sink = BatchSink(self._sink, sum(1 for envelope in messages if envelope.is_request))
        for envelope in messages:
            self._engine.legacy(self.session, envelope, sink)

    def _take(self, envelope: Envelope, sink: Sink) -> None:
        if envelope.is_request and envelope.method != "initialize" and _is_modern(envelope):
            self._take_modern(envelope)
            return
        if envelope.method == "notifications/cancelled":
            cancel(self.modern, envelope)
        self._engine.legacy(self.session, envelope, sink)

    def _take_modern(self, envelope: Envelope) -> None:
        try:
            read = meta.read_meta(meta.read_params(envelope.params))
            version = meta.require_modern(read)
            meta.require_spoken(version)
        except RpcError as error:
            self.refuse(error, bytes(envelope.id))
            return
        self._engine.modern(envelope, read, version, self._sink, self.modern)

    def close(self) -> None:
        """The client is gone, and so is the reason for its calls."""
        for call in list(self.modern.values()):
            call.cancel()
        self._engine.close_session(self.session)


def _is_modern(envelope: Envelope) -> bool:
    return bool(envelope.params) and _MODERN_META in bytes(envelope.params)
