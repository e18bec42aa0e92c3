"""An answer on its last step: the id of its client, what its revision wants, and its HTTP status."""

from __future__ import annotations

import logging
import secrets

import msgspec
from msgspec import Raw

from mooring.errors import INTERNAL_ERROR, RpcError, UpstreamFailed, http_status_of
from mooring.gateway.exchange import Client, Exchange, Sink
from mooring.gateway.kept_answers import for_client
from mooring.gateway.upstream_session import error_code
from mooring.protocol import jsonrpc, translate
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)


def refuse(exchange: Exchange, error: RpcError, sink: Sink) -> None:
    """An error of our own."""
    client, raw = exchange.client, error.encode()
    if client.era is Era.LEGACY:
        raw = translate.error(exchange.method, raw, client.version, client.version)
    status = http_status_of(error.code) if client.era is Era.MODERN else 200
    sink.answer(jsonrpc.error(exchange.envelope.id, raw), status)


def send(exchange: Exchange, answer: Answer, sink: Sink) -> None:
    """What the server answered."""
    client, request_id = exchange.client, exchange.envelope.id
    if translate.needed(answer.version, client.version):
        try:
            _send_translated(exchange, answer, sink)
        except (RpcError, msgspec.DecodeError) as error:
            raise UpstreamFailed(f"the server's answer is not legal: {error}") from error
    elif answer.whole:
        status = answer.status if client.era is Era.MODERN else 200
        if answer.error and status == 200:  # it goes with the error, even if the server forgot
            status = _status(client, answer.error)
        sink.answer(answer.whole, status)
    elif answer.error:
        sink.answer(jsonrpc.error(request_id, answer.error), _status(client, answer.error))
    else:
        sink.answer(jsonrpc.result(request_id, answer.result))


def _send_translated(exchange: Exchange, answer: Answer, sink: Sink) -> None:
    client, request_id = exchange.client, exchange.envelope.id
    if answer.error:
        raw = translate.error(exchange.method, answer.error, answer.version, client.version)
        sink.answer(jsonrpc.error(request_id, raw), _status(client, raw))
    else:
        raw = translate.result(exchange.method, answer.result, client.version)
        sink.answer(jsonrpc.result(request_id, raw))


def send_kept(exchange: Exchange, answer: Answer, sink: Sink) -> bool:
    """Whether an answer on disk could be sent from there."""
    assert answer.kept is not None
    source, target = answer.version, exchange.client.version
    whole = for_client(answer.kept, exchange.envelope.id, exchange.method, source, target)
    if whole is not None:
        sink.keep(whole)
    return whole is not None


def _status(client: Client, error: Raw | bytes) -> int:
    if client.era is Era.LEGACY:
        return 200
    return http_status_of(error_code(Answer(version=client.version, error=error)))


def broken(server_id: str, method: str, error: Exception) -> RpcError:
    """What went wrong here, logged once; the client gets nothing but the number that it was logged under."""
    number = secrets.token_hex(6)
    log.error("%s: `%s` failed (exchange %s)", server_id, method, number, exc_info=error)
    return RpcError("internal error", code=INTERNAL_ERROR, data={"exchange": number})
