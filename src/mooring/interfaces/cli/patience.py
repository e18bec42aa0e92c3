"""A word to whoever waits for a server that takes its time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

PATIENCE_SECONDS = 2.0
"""Longer than a server usually needs to start; whoever sees nothing for longer wonders whether it hangs."""


@contextmanager
def told_to_wait(server: str) -> Generator[Callable[[], object]]:
    """Say once, on a terminal, whom we wait for; who calls what is given before has heard from it."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    timer = threading.Timer(PATIENCE_SECONDS, _tell, [server])
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _tell(server: str) -> None:
    print(f"waiting for `{server}`; Ctrl-C gives up", file=sys.stderr, flush=True)
