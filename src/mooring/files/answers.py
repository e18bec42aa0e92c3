"""Answers of our own, and answers of servers that we change: the JSON of both."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.errors import RESOURCE_NOT_FOUND, InvalidParams, RpcError
from mooring.gateway.exchange import Exchange
from mooring.protocol.versions import LATEST_LEGACY, Era
from mooring.transports.wire import Answer

Json = dict[str, Any]


def own(result: Json) -> Answer:
    """A result that we made: in the latest legacy form, from which every client's own is derived."""
    return Answer(version=LATEST_LEGACY, result=msgspec.json.encode(result))


def own_tool_result(structured: Json) -> Answer:
    text = msgspec.json.encode(structured).decode()
    return own({"content": [{"type": "text", "text": text}], "structuredContent": structured})


def own_tool_error(message: str) -> Answer:
    """What the model should read: the call failed, and what to do next."""
    return own({"content": [{"type": "text", "text": message}], "isError": True})


def changed(answer: Answer, result: Json) -> Answer:
    """A server's answer with another result."""
    return Answer(version=answer.version, result=msgspec.json.encode(result))


def resource_not_found(exchange: Exchange, message: str) -> RpcError:
    if exchange.client.era is Era.MODERN:
        return InvalidParams(message)
    return RpcError(message, code=RESOURCE_NOT_FOUND)
