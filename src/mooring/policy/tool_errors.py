"""Tools that failed: the call went well, and its result says that the tool did not."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.gateway.exchange import Exchange
from mooring.transports.wire import Answer

_IS_ERROR: Final = b'"isError"'
_NO_ERROR: Final = b'"isError":false'


class _Result(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")


def failed_inside(exchange: Exchange, answer: Answer) -> bool:
    """Whether the result of a call says that the tool failed."""
    if answer.kept is not None:
        return answer.kept.short("isError") == b"true"
    if exchange.method != "tools/call":
        return False
    text = answer.whole or bytes(answer.result)
    said = text.count(_IS_ERROR)
    if not said or (said == 1 and _NO_ERROR in text):
        return False
    try:
        return msgspec.json.decode(answer.result, type=_Result).is_error
    except msgspec.DecodeError:
        return False
