"""Everybody who hears of changes: legacy sessions, and open `subscriptions/listen` streams."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Protocol

from mooring.protocol.subscriptions import RESOURCE_UPDATED

Json = dict[str, Any]


class Listener(Protocol):
    def wants(self, method: str, uri: str | None) -> bool: ...
    def tell(self, method: str, params: Json) -> None: ...


class Audience:
    """Tells all listeners of a change; from any thread, and once per turn of the loop for one change."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._waiting: dict[tuple[str, str | None], None] = {}

    def open(self) -> None:
        """From now on there may be listeners; called in the loop that they live in."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def close(self) -> None:
        self._loop = None
        self.listeners.clear()

    def list_changed(self, method: str) -> None:
        self._announce(method, None)

    def resource_updated(self, uri: str) -> None:
        self._announce(RESOURCE_UPDATED, uri)

    def is_watched(self, uri: str) -> bool:
        return any(listener.wants(RESOURCE_UPDATED, uri) for listener in list(self.listeners))

    def _announce(self, method: str, uri: str | None) -> None:
        loop = self._loop
        if loop is None:
            return  # nobody can have seen the lists yet
        if threading.get_ident() == self._thread:
            self._note(method, uri)
        else:
            loop.call_soon_threadsafe(self._note, method, uri)

    def _note(self, method: str, uri: str | None) -> None:
        assert self._loop is not None
        if not self._waiting:
            self._loop.call_soon(self._tell)
        self._waiting[method, uri] = None

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for method, uri in waiting:
            params: Json = {} if uri is None else {"uri": uri}
            for listener in list(self.listeners):
                if listener.wants(method, uri):
                    listener.tell(method, params)
