"""A server as a child process, spoken to in lines over its pipes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mooring.errors import UpstreamFailed
from mooring.protocol.lines import encode_line
from mooring.transports.child import Child, Command
from mooring.transports.line_wire import LineWire
from mooring.transports.wire import WireEvents

LAST_WORDS_SECONDS: Final = 0.5


class PipeWire(LineWire):
    """Lines in, lines out."""

    def __init__(self, events: WireEvents, label: str, max_message_bytes: int) -> None:
        super().__init__(events, label, max_message_bytes)
        self._child: Child | None = None
        self._on_end: Callable[[int], None] | None = None
        self._on_stray: Callable[[bytes], None] | None = None

    @classmethod
    async def spawn(
        cls,
        command: Command,
        events: WireEvents,
        *,
        label: str,
        max_message_bytes: int,
        on_log: Callable[[bytes], None],
        on_stray: Callable[[bytes], None] | None = None,
        on_end: Callable[[int], None] | None = None,
    ) -> PipeWire:
        """`on_log` gets what it writes on stderr; `on_stray` lines on stdout that cannot be messages."""
        wire = cls(events, label, max_message_bytes)
        wire._on_stray = on_stray
        wire._on_end = on_end
        wire._child = await Child.spawn(
            command,
            on_stdout=wire.receive_bytes,
            on_stderr=on_log,
            on_exit=wire._on_exit,
            on_stdout_end=wire._on_stdout_end,
        )
        wire.label = f"pid {wire._child.pid}"
        return wire

    @property
    def pid(self) -> int:
        return self._child.pid if self._child is not None else 0

    async def write(self, message: bytes) -> None:
        child = self._child
        if child is None or child.returncode is not None:
            raise UpstreamFailed("the server's process has ended", started=False)
        try:
            if not child.writable:
                await child.drain()  # before writing: else everybody who waits would add a message first
            child.write(encode_line(message))
        except OSError as error:
            self.fail(str(error))
            raise UpstreamFailed(str(error), started=False) from error

    async def close(self) -> None:
        if self._child is not None:
            await self._child.close()

    def heard_noise(self, data: bytes, why: str) -> None:
        super().heard_noise(data, why)
        if self._on_stray is not None:
            self._on_stray(data)

    def _on_stdout_end(self) -> None:
        """Usually its end comes right after, and says more."""
        loop = asyncio.get_running_loop()
        loop.call_later(LAST_WORDS_SECONDS, self.fail, "the server's process closed its output")

    def _on_exit(self, code: int) -> None:
        self.receive_end()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self.fail(f"the server's process {how}")
        if self._on_end is not None:
            self._on_end(code)
