"""Waiting for something to become true, with a limit that says what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

LIMIT_SECONDS = 15.0
T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str = "", *, limit: float = LIMIT_SECONDS) -> T:
    """The first truthy value of `look`, or a failure that names what never came."""
    deadline = time.monotonic() + limit
    while not (value := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit:g} s in vain for {what or look}; last: {value!r}")
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") :].split()[1] not in (b"Z", b"X")
