"""Standard types that are strings on the wire: dates, times, durations, UUIDs, paths, bytes."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from mooring.authoring.shapes import Hint, Spelled, parse_base64

_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"
_DATE_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
_DURATION: Final = re.compile(
    r"(-?)P(?:(\d+)W|(?=.)(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?=.)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?)",
    re.ASCII,
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
_MICROSECONDS: Final = 7  # a point and six digits


def spelling_of(kind: type) -> Spelled | None:
    """How a type of the standard library is written, if it is one of those written as strings."""
    known = _BY_TYPE.get(kind)
    if known is not None:
        return known
    if issubclass(kind, pathlib.PurePath):
        return Spelled("a path", {"type": "string", "format": "path"}, kind)
    return None


def _date_time(text: str) -> datetime:
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, clock, fraction, offset = match.groups()
    if offset is None:
        raise Hint("it needs an offset, such as `Z` or `+02:00`")
    spelled = f"{day}T{clock}{(fraction or '')[:_MICROSECONDS]}{offset.upper().replace('Z', '+00:00')}"
    return datetime.fromisoformat(_six_digits(spelled))


def _six_digits(text: str) -> str:
    return re.sub(r"\.(\d+)", lambda match: "." + match[1].ljust(6, "0"), text)


def _date(text: str) -> date:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is None:
        raise ValueError(text)
    return date.fromisoformat(text)


def _time(text: str) -> time:
    if re.fullmatch(_TIME, text) is None:
        raise ValueError(text)
    cut = re.sub(r"(\.\d{6})\d+", r"\1", text.upper().replace("Z", "+00:00"))
    return time.fromisoformat(_six_digits(cut))


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        if re.fullmatch(r"P.*[YM].*", text.partition("T")[0]):
            raise Hint("years and months have no fixed length; use weeks, days or less")
        raise ValueError(text)
    sign, weeks, days, hours, minutes, seconds = match.groups()
    value = timedelta(
        weeks=int(weeks or 0),
        days=float(days or 0),
        hours=float(hours or 0),
        minutes=float(minutes or 0),
        seconds=float(seconds or 0),
    )
    return -value if sign else value


def _uuid(text: str) -> UUID:
    if _UUID.fullmatch(text) is None:
        raise ValueError(text)
    return UUID(text)


def _decimal(value: str | float) -> Decimal:
    text = value if isinstance(value, str) else repr(value)
    if re.fullmatch(_DECIMAL[1:-1], text) is None:
        raise ValueError(text)
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error


def _string(what: str, parse: Callable[[str], Any], **keywords: str) -> Spelled:
    return Spelled(what, {"type": "string", **keywords}, parse)


_BYTES: Final = "bytes in base64"
_BY_TYPE: Final[dict[type, Spelled]] = {
    datetime: _string("a date and time (RFC 3339)", _date_time, format="date-time"),
    date: _string("a date such as 2026-07-28", _date, format="date"),
    time: _string("a time such as 16:30:00", _time, pattern=f"^{_TIME}$"),
    timedelta: _string("a duration (ISO 8601) such as PT1H30M", _duration, format="duration"),
    UUID: _string("a UUID", _uuid, format="uuid"),
    bytes: _string(_BYTES, parse_base64, contentEncoding="base64"),
    bytearray: _string(_BYTES, lambda text: bytearray(parse_base64(text)), contentEncoding="base64"),
    Decimal: Spelled(
        "a decimal number",
        {"type": ["number", "string"], "pattern": _DECIMAL},
        _decimal,
        (str, int, float),
    ),
}
