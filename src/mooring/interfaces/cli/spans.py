"""Time spans as people type them: `30s`, `5m`, `12h`, `30d`."""

from __future__ import annotations

import re

from mooring.interfaces.cli.failure import Misused

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(flag: str, text: str) -> float:
    """The span in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not match:
        raise Misused(f"`{flag} {text}` is not a time span: write for example 30s, 5m, 12h or 30d")
    return float(match.group(1)) * _UNITS[match.group(2)]
