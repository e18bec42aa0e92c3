"""Asking the client's user something in the course of a request, whatever era the client is of."""

from __future__ import annotations

import msgspec

from mooring.gateway.exchange import Exchange
from mooring.policy.items import set_params
from mooring.protocol import jsonrpc
from mooring.transports.wire import Answer


async def ask(exchange: Exchange, question: bytes) -> Answer:
    """One `elicitation/create`. Afterwards the request is as it was before."""
    asked = jsonrpc.members(exchange.envelope.params)
    answer = await exchange.client.ask(exchange, "elicitation/create", question)
    # A modern client answers with a request of its own, which is the exchange from then on. What goes to
    # the server is what was asked for, less the answer that was for us.
    current = jsonrpc.members(exchange.envelope.params)
    if "_meta" in current:
        asked["_meta"] = current["_meta"]
    set_params(exchange, asked)
    return answer


class _Elicited(msgspec.Struct):
    action: str = ""


def is_accepted(answer: Answer) -> bool:
    """Whether the user agreed to what was asked."""
    if answer.error:
        return False
    try:
        return msgspec.json.decode(answer.result, type=_Elicited).action == "accept"
    except msgspec.DecodeError:
        return False
