"""Days out of timestamps, as every format writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_MILLISECONDS = re.compile(r"0|-?[1-9]\d{0,14}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_day(stamp: str) -> str | None:
    """The UTC day of a timestamp in milliseconds, or None when it is none."""
    if not _MILLISECONDS.fullmatch(stamp):
        return None
    try:
        return (EPOCH + timedelta(milliseconds=int(stamp))).date().isoformat()
    except OverflowError:
        return None


def timestamp_of(day: str) -> str | None:
    """`2026-07-01` in milliseconds, if it would be written the same way again."""
    try:
        moment = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    if moment.strftime("%Y-%m-%d") != day:
        return None
    return str((moment - EPOCH) // timedelta(milliseconds=1))
