"""Deadlines, keep-alives and expiry of everything, in one place and without a timer per request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 0.25
TIDY_SECONDS: Final = 2.0

Look = Callable[[float], None]
"""Is told what time it is."""


async def sweep(look_after: Look, tidy: Look) -> None:
    """Look after what runs, and now and then tidy up, until this is cancelled."""
    next_tidying = 0.0
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = monotonic()
        if now >= next_tidying:
            next_tidying = now + TIDY_SECONDS
            tidy(now)
        look_after(now)


def guarded(step: Callable[..., None], *arguments: object) -> None:
    """One thing that goes wrong must not keep the others from being looked after."""
    try:
        step(*arguments)
    except Exception:
        log.exception("looking after what runs failed; it goes on")
