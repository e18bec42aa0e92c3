"""Uploads in pieces while something else happens: a stop, a full disk, an end, another request."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.files.test_disk import open_at
from tests.files.test_sending import a_store

from mooring.files import resuming, upload_turns
from mooring.files.faults import FileFault, NoRoom, NotFound
from mooring.files.resuming import Resumable, ResumableUploads
from mooring.files.store import FileStore
from mooring.files.upload_turns import Locked, UploadTurn

LIMIT_SECONDS = 10.0
SCOPE = "0" * 32
Scene = Callable[[FileStore, ResumableUploads], Awaitable[None]]


def play(folder: Path, scene: Scene, now: list[float] | None = None) -> None:
    moments = now or [1000.0]

    async def run() -> None:
        store = a_store(folder, lambda: moments[0])
        uploads = ResumableUploads(store, folder / "resumable")
        store.on_ended = uploads.end_scope
        await store.open()
        await uploads.open()
        async with asyncio.timeout(LIMIT_SECONDS):
            await scene(store, uploads)
        await store.close()

    asyncio.run(run())


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


class Held:
    """A blocking function that does its work and then, the first time, does not end until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self._inner: Callable[..., Any] = getattr(resuming, name)
        monkeypatch.setattr(resuming, name, self)

    def __call__(self, *arguments: Any) -> Any:
        outcome = self._inner(*arguments)
        if not self.begun.is_set():
            self.begun.set()
            assert self.let_go.wait(LIMIT_SECONDS)
        return outcome

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, LIMIT_SECONDS)


def test_a_piece_is_written_once_though_the_gateway_stops_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "BLOCK_BYTES", 4)
    writing = Held(monkeypatch, "write_all")

    async def scene(_store: FileStore, uploads: ResumableUploads) -> None:
        upload = await uploads.create(SCOPE, "files", "a.bin", 30, "")
        sending = asyncio.ensure_future(uploads.append(upload, 0, pieces(b"0123", b"4567")))
        await writing.has_begun()
        sending.cancel()
        await asyncio.sleep(0.05)
        writing.let_go.set()
        await asyncio.wait([sending])
        path = tmp_path / "resumable" / upload.id
        assert path.read_bytes() == b"0123"
        assert open_at(path.resolve()) == 0

    play(tmp_path, scene)


def test_a_disk_that_is_full_for_a_moment_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "BLOCK_BYTES", 4)
    write, asked = os.write, list[int]()

    def nearly_full(descriptor: int, data: bytes) -> int:
        asked.append(len(data))
        if len(asked) == 2:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:2])

    async def scene(_store: FileStore, uploads: ResumableUploads) -> None:
        upload = await uploads.create(SCOPE, "files", "a.bin", 30, "")
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", nearly_full)
            with pytest.raises(NoRoom):
                await uploads.append(upload, 0, pieces(b"0123"))
        path = tmp_path / "resumable" / upload.id
        assert path.read_bytes() == b"01"
        assert open_at(path.resolve()) == 0
        upload = await uploads.append(upload, 2, pieces(b"23"))
        assert path.read_bytes() == b"0123"

    play(tmp_path, scene)


def test_what_is_given_up_twice_is_counted_once(tmp_path: Path) -> None:
    async def scene(store: FileStore, uploads: ResumableUploads) -> None:
        await uploads.create(SCOPE, "files", "stays.bin", 50, "")
        upload = await uploads.create(SCOPE, "files", "a.bin", 30, "")
        await asyncio.gather(*(uploads.remove(upload) for _ in range(3)))
        assert (store.usage.total, store.usage.by_scope[SCOPE]) == (50, 50)

    play(tmp_path, scene)


def test_an_upload_that_is_being_written_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Held(monkeypatch, "_read_through")

    async def scene(store: FileStore, uploads: ResumableUploads) -> None:
        upload = await uploads.create(SCOPE, "files", "a.bin", 3, "")
        sending = asyncio.ensure_future(uploads.append(upload, 0, pieces(b"abc")))
        await reading.has_begun()
        with pytest.raises(Locked):
            await uploads.give_up(upload)
        reading.let_go.set()
        done = await sending
        assert (done.finished != "", store.usage.total) == (True, 3)
        await uploads.give_up(upload)  # as it was found before its last piece came
        assert store.usage.total == 0
        with pytest.raises(NotFound):
            await uploads.find(upload.id, SCOPE, "files")

    play(tmp_path, scene)


@pytest.mark.parametrize("moment", ["before its bytes are taken over", "after"])
def test_a_session_that_ends_while_its_upload_is_completed_leaves_nothing(
    tmp_path: Path, moment: str
) -> None:
    async def scene(store: FileStore, uploads: ResumableUploads) -> None:
        adopt = store.storage.adopt

        async def adopted(path: Path, blob: str) -> None:
            if moment == "after":
                await adopt(path, blob)
            await store.end_scope(SCOPE, "its session ended")
            if moment != "after":
                await adopt(path, blob)

        store.storage.adopt = adopted
        upload = await uploads.create(SCOPE, "files", "a.bin", 3, "")
        with pytest.raises(NotFound):
            await uploads.append(upload, 0, pieces(b"abc"))
        assert store.usage.total == 0
        assert await store.listed(SCOPE, "files", ["upload"]) == []
        left = [path for name in ("blobs", "resumable") for path in (tmp_path / name).rglob("*")]
        assert [path for path in left if path.is_file()] == []

    play(tmp_path, scene)


def test_what_got_more_time_while_others_were_swept_stays(tmp_path: Path) -> None:
    now = [1000.0]

    async def scene(store: FileStore, uploads: ResumableUploads) -> None:
        first = await uploads.create(SCOPE, "files", "a.bin", 10, "")
        second = await uploads.create(SCOPE, "files", "b.bin", 10, "")
        now[0] += 61
        remove = store.database.run
        is_late = False

        async def run(work: Any, settled: Any = None) -> Any:
            nonlocal is_late
            if not is_late:  # a piece of the second, which began in time, ends before its turn comes
                is_late = True
                await uploads.append(second, 0, pieces(b"abc"))
            return await remove(work, settled)

        store.database.run = run
        await uploads.sweep()
        with pytest.raises(FileFault):
            await uploads.find(first.id, SCOPE, "files")
        found: Resumable = await uploads.find(second.id, SCOPE, "files")
        assert (await uploads.offset(found), store.usage.total) == (3, 10)

    play(tmp_path, scene, now)


def test_who_waits_for_bytes_gives_way_and_who_puts_them_away_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_turns, "MOMENT_SECONDS", 0.0)

    async def scene() -> None:
        turn = UploadTurn()
        silence = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"a"
            silence.set()
            await asyncio.Event().wait()

        async def read() -> None:
            async for data in turn.reading(body()):
                assert (data, turn.gives_way()) == (b"a", False), "the disk may take its time"

        reading = asyncio.ensure_future(read())
        await silence.wait()
        assert turn.gives_way()
        with pytest.raises(Locked):
            await asyncio.wait_for(reading, 10)

    asyncio.run(scene())
