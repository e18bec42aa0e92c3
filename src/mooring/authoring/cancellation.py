"""Handlers that block run in threads; a thread cannot be stopped from outside, so it is told."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable, Generator
from typing import Any, Final

MAX_THREADS: Final = 32
IDLE_SECONDS: Final = 30.0


class CancelToken:
    """Told to a handler in a thread, which looks at it or waits on it."""

    __slots__ = ("_event", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        self._event: threading.Event | None = None  # made when somebody waits: hardly any call does

    def cancel(self) -> None:
        self.cancelled = True
        if self._event is not None:
            self._event.set()

    def wait(self, seconds: float | None) -> bool:
        """Sleep; True as soon as the call is cancelled."""
        event = self._event
        if event is None:
            event = self._event = threading.Event()
        # Looked at after the event is there to be set: a cancel in between is not missed.
        return self.cancelled or event.wait(seconds)


@contextlib.contextmanager
def own_call_only() -> Generator[None]:
    """An author's code ends its own call, never the server, and never without an answer: `sys.exit()`, the
    panic of a library, and a cancellation that nobody asked for are failures like others."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise RuntimeError(f"the handler ended with {type(error).__name__}") from error


_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any], contextvars.Context]


class Threads:
    """A bounded number of threads for handlers that block.

    Unlike the pool of the standard library its threads do not keep the process alive: one that ignores its
    cancellation must not stop a server from ending.
    """

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self._limit = limit
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self.unfinished = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """The function's outcome. Whoever is cancelled does not wait for the thread, which winds up alone."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            self.unfinished += 1
            starts = self._threads < min(self.unfinished, self._limit)
            self._threads += starts
            # Inside the lock: a thread that is about to leave for want of work looks again, and finds it.
            self._work.put((loop, future, function, contextvars.copy_context()))
        if starts:
            threading.Thread(target=self._serve, name="mooring-handler", daemon=True).start()
        return await future

    def _serve(self) -> None:
        while True:
            try:
                loop, future, function, context = self._work.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._work.empty():
                        self._threads -= 1
                        return
                continue
            try:
                # Cancelled while it waited for a thread: then it has not begun, and does not.
                outcome, error = (None if future.cancelled() else context.run(function)), None
            except BaseException as caught:  # noqa: BLE001 - it belongs to whoever waits for the outcome
                outcome, error = None, caught
            with self._lock:
                self.unfinished -= 1
            _hand_over(loop, future, outcome, error)
            del loop, future, function, context, outcome, error


def _hand_over(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(outcome)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("the handler raised StopIteration"))
        else:
            future.set_exception(error)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
