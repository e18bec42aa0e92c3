"""One at a time: whoever changes an upload has its turn, and who comes as it ends waits for a moment.

A client whose connection broke comes back at once, while what it sent before is still being put away; one
whose network went away comes back while we still wait for bytes on a connection that is dead. The first
must not be turned away, and the second must not have to wait until we have noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Final

from mooring.files.faults import FileFault

MOMENT_SECONDS: Final = 2.0
"""For the turn before to end; and whoever has sent nothing for so long can be taken for lost."""


PUT_AWAY_SECONDS: Final = 8.0
"""For a slow disk to take what came before."""


class Locked(FileFault):
    """Two requests write to one upload."""

    status = 423


class UploadTurn:
    """Somebody changes an upload."""

    def __init__(self) -> None:
        self.kept: int | None = None
        """How many bytes of it are on disk for sure; None: nobody has asked yet."""
        self.over = asyncio.Event()
        self._reader: asyncio.Task[object] | None = None
        """Who waits for bytes now; a disk that is slow to take them is not the client's silence."""
        self._waits_since = 0.0
        self._is_lost = False

    async def reading(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The body, unless somebody else goes on with the upload because it has stopped coming."""
        reader = asyncio.current_task()
        assert reader is not None
        while True:
            self._reader, self._waits_since = reader, monotonic()
            try:
                data = await anext(body)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if not self._is_lost:
                    raise
                reader.uncancel()
                raise Locked("another request has gone on with this upload") from None
            finally:
                self._reader = None
            yield data

    def gives_way(self) -> bool:
        """Somebody else wants to go on: what has heard nothing for a while ends here."""
        reader = self._reader
        if reader is not None and not self._is_lost and monotonic() - self._waits_since >= MOMENT_SECONDS:
            self._is_lost = True
            reader.cancel()
        return self._is_lost


class UploadTurns:
    """The turns of all uploads."""

    def __init__(self) -> None:
        self._now: dict[str, UploadTurn] = {}

    def __contains__(self, upload: str) -> bool:
        return upload in self._now

    def kept(self, upload: str) -> int | None:
        """How much was there when the turn began that is going on, if one is."""
        turn = self._now.get(upload)
        return None if turn is None else turn.kept

    async def last(self, upload: str) -> UploadTurn | None:
        """The turn that is still going on after a moment, if there is one."""
        turn = self._now.get(upload)
        if turn is not None:
            await _over(turn, MOMENT_SECONDS)
        return self._now.get(upload)

    @asynccontextmanager
    async def take(self, upload: str) -> AsyncGenerator[UploadTurn]:
        """Be the only one; who has stopped sending is no obstacle."""
        if (before := await self.last(upload)) is not None and before.gives_way():
            await _over(before, PUT_AWAY_SECONDS)
        if upload in self._now:
            raise Locked("another request is writing to this upload: wait for it")
        turn = self._now[upload] = UploadTurn()
        try:
            yield turn
        finally:
            del self._now[upload]
            turn.over.set()


async def _over(turn: UploadTurn, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await turn.over.wait()
