"""Days out of timestamps, as every format writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_MILLISECONDS = re.compile(r"0|-?[1-9]\d{0,14}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_day(stamp: str) -> str | None:
    """The UTC day of a timestamp in milliseconds, or None when it is none."""
    if not _MILLISECONDS.fullmatch(stamp):
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=int(stamp))).date().isoformat()
    except OverflowError:
        return None
