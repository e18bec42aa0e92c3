"""The gateway as the program of this process: it runs until it is told to stop, and follows its file."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeAlias

from msgspec import Struct

from mooring.app.gateway import Gateway, Started
from mooring.config import schema
from mooring.config.loading import ConfigError
from mooring.errors import MooringError

log = logging.getLogger(__name__)

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Names of glibc's `mallopt`."""
COLLECTOR_THRESHOLDS: Final = (20_000, 20, 50)
WATCH_SECONDS: Final = 1.0

Load: TypeAlias = Callable[[], schema.Config]
"""Reads the configuration file anew; ConfigError if it cannot be used."""
Stamp: TypeAlias = tuple[int, int, int]


class Watched(Struct, frozen=True):
    """A file, and what it was like before it was read: what changes while the gateway starts counts too."""

    path: Path
    stamp: Stamp | None

    @classmethod
    def about_to_be_read(cls, path: Path) -> Self:
        return cls(path, _stamp(path))


def run(config: schema.Config, *, ready: Callable[[Started], None], watch: Watched | None, load: Load) -> int:
    """Run the gateway in the foreground until it is told to stop; follow what becomes of its file."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere
    except ImportError:
        return asyncio.run(_serve(config, ready, watch, load))
    return uvloop.run(_serve(config, ready, watch, load))


def _settle_memory() -> None:
    """What is loaded now stays; the collector need not look at it again, nor run every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    if sys.platform == "linux":
        # By default every large read buffer is mapped and unmapped anew, which costs more than filling it.
        with suppress(AttributeError, OSError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, 4 * 1024 * 1024)
            library.mallopt(_M_TRIM_THRESHOLD, 16 * 1024 * 1024)


async def _serve(
    config: schema.Config, ready: Callable[[Started], None], watch: Watched | None, load: Load
) -> int:
    gateway = Gateway(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, gateway.stop_wanted.set)
    asked = _reload_asked(gateway)
    async with gateway:
        assert gateway.started is not None
        _settle_memory()
        ready(gateway.started)
        follower = loop.create_task(_follow_file(gateway, watch, load, asked))
        await gateway.stop_wanted.wait()
        follower.cancel()
    return 0


def _reload_asked(gateway: Gateway) -> asyncio.Event:
    """Is set by SIGHUP.

    A terminal that is closed sends the same signal: whoever was started in it ends with it.
    """
    asked = asyncio.Event()
    terminal = next((number for number in range(3) if os.isatty(number)), None)

    def hung_up() -> None:
        (gateway.stop_wanted if _is_closed(terminal) else asked).set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)
    return asked


async def _follow_file(gateway: Gateway, watch: Watched | None, load: Load, asked: asyncio.Event) -> None:
    """Reload when asked to, and when the file has changed and stayed so for one look."""
    known = seen = watch.stamp if watch is not None else None
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(WATCH_SECONDS):
                await asked.wait()
        before, seen = seen, _stamp(watch.path) if watch is not None else None
        if asked.is_set() or (seen == before and seen not in (known, None)):
            asked.clear()
            known = seen
            await _reload(gateway, load)


def _is_closed(terminal: int | None) -> bool:
    if terminal is None:
        return False
    try:
        os.tcgetpgrp(terminal)
    except OSError:
        return True
    return False


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file is written or replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def _reload(gateway: Gateway, load: Load) -> None:
    try:
        said = await gateway.reload(load())
    except (ConfigError, MooringError) as error:
        log.error("the configuration was not reloaded and nothing was changed: %s", error)  # noqa: TRY400
    except Exception:
        log.exception("the configuration could not be reloaded")
    else:
        log.info("the configuration was reloaded: %s", "; ".join(said) or "nothing changed")
