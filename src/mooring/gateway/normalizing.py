"""Params that every parser reads alike: written anew wherever one could read them otherwise than we did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from mooring.errors import InvalidParams
from mooring.gateway.exchange import Exchange
from mooring.protocol import jsonrpc

_BRACE: Final = ord("{")
_RULED: Final = frozenset({"name", "arguments", "uri", "ref", "argument", "task"})
"""Members of params that rules look at."""


def normalize(exchange: Exchange) -> None:
    """Write the params anew from what we read of them, so that the server reads the same.

    A member given twice means the first to one parser and the last to another: a rule that looked at one of
    them must not let the other one through. Tool arguments are what rules look at, one level deep. What has
    no room for a second member goes on as it came. Some servers (all that use Go's decoder) read names of
    members whatever their case: there, `Name` beside `name` is a second one, so it is refused.
    """
    raw = exchange.envelope.params
    if not raw:
        return
    call = exchange.read_call()
    if call is not None:
        if len(call.arguments) > 1:
            _refuse_alike(call.arguments)
        return
    parts = jsonrpc.members(raw)
    for key in parts:
        if key not in _RULED and key.casefold() in _RULED:
            raise InvalidParams(f"`{key}` is not a member of params; `{key.casefold()}` is")
    _refuse_alike(_arguments(parts))
    _write_once(exchange, parts)


def write_once(exchange: Exchange) -> None:
    """As `normalize`, for whoever only counts or writes down what is called: nothing is refused."""
    params = exchange.envelope.params
    if params and exchange.read_call() is None:
        _write_once(exchange, jsonrpc.members(params))


def _write_once(exchange: Exchange, parts: dict[str, Raw]) -> None:
    envelope = exchange.envelope
    is_compact = jsonrpc.is_compact_request(exchange.body, envelope)
    is_compact = is_compact and jsonrpc.is_compact(envelope.params, parts)
    inner = _arguments(parts)
    if inner and not jsonrpc.is_compact(parts["arguments"], inner):
        is_compact = False
        parts["arguments"] = Raw(jsonrpc.assemble(inner))
    if not is_compact:
        exchange.set_params(jsonrpc.assemble(parts))


def _arguments(parts: Mapping[str, Raw]) -> dict[str, Raw]:
    raw = parts.get("arguments")
    return jsonrpc.members(raw) if raw is not None and memoryview(raw)[0] == _BRACE else {}


def _refuse_alike(arguments: Mapping[str, Raw]) -> None:
    if len({name.casefold() for name in arguments}) != len(arguments):
        raise InvalidParams("two arguments differ in case only: leave one out, many servers read them as one")
