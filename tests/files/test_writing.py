"""Files on their way into the store while something else happens: a cancellation, a sweep, an end."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.files.test_sending import a_store

from mooring.files import local_storage
from mooring.files.faults import Away, Gone, NoRoom, TooMany
from mooring.files.local_storage import LocalStorage
from mooring.files.quotas import Quotas, Usage
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.views import Reach, Views

LIMIT_SECONDS = 10.0
SCOPE = "0" * 32
Scene = Callable[[FileStore], Awaitable[None]]


def play(
    folder: Path, scene: Scene, clock: Callable[[], float] = time.time, max_file_bytes: int = 1000
) -> None:
    async def run() -> None:
        store = a_store(folder, clock, max_file_bytes=max_file_bytes)
        await store.open()
        async with asyncio.timeout(LIMIT_SECONDS):
            await scene(store)
        await store.close()

    asyncio.run(run())


def files_in(folder: Path) -> list[Path]:
    return [path for name in ("incoming", "blobs") for path in (folder / name).rglob("*") if path.is_file()]


async def a_file(store: FileStore) -> FileRecord:
    file = await store.begin("upload", SCOPE, "files", "a.txt")
    await file.write(b"abc")
    await file.finish()
    [record] = await store.commit([file])
    return record


@pytest.mark.parametrize("moment", ["more is written", "it is finished"])
def test_a_file_is_not_closed_while_a_thread_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Its number could be another file's by then, which would get the bytes."""
    monkeypatch.setattr(local_storage, "BLOCK_BYTES", 4)
    write, close = os.write, os.close
    begun, let_go = threading.Event(), threading.Event()
    happened: list[str] = []

    def slow_write(descriptor: int, data: Any) -> int:
        begun.set()
        assert let_go.wait(LIMIT_SECONDS)
        happened.append("written")
        return write(descriptor, data)

    def watched_close(descriptor: int) -> None:
        happened.append("closed")
        close(descriptor)

    async def scene() -> None:
        storage = LocalStorage(tmp_path)
        await storage.open()
        writer = await storage.create("ab" * 16)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", slow_write)
            patched.setattr(os, "close", watched_close)
            if moment == "more is written":
                await writer.write(b"0123")
                waiting = asyncio.ensure_future(writer.write(b"4567"))
            else:
                await writer.write(b"012")
                waiting = asyncio.ensure_future(writer.finish())
            assert await asyncio.to_thread(begun.wait, LIMIT_SECONDS)
            waiting.cancel()
            await asyncio.wait([waiting])
            abandoning = asyncio.ensure_future(writer.abandon())
            await asyncio.sleep(0.1)
            let_go.set()
            await abandoning
        assert happened == ["written", "closed"]
        assert files_in(tmp_path) == []

    asyncio.run(asyncio.wait_for(scene(), LIMIT_SECONDS))


def test_a_file_that_waits_for_the_others_of_its_request_is_not_swept(tmp_path: Path) -> None:
    async def scene(store: FileStore) -> None:
        first = await store.begin("upload", SCOPE, "files", "first.txt")
        await first.write(b"first")
        await first.finish()
        second = await store.begin("upload", SCOPE, "files", "second.txt")
        [path] = files_in(tmp_path)
        os.utime(path, (1, 1))  # the second takes its time
        assert await store.sweep_orphans() == 0
        await second.write(b"second")
        await second.finish()
        made = await store.commit([first, second])
        assert [await store.read_all(record) for record in made] == [b"first", b"second"]
        third = await store.begin("upload", SCOPE, "files", "third.txt")
        await third.write(b"third")
        await third.abandon()
        assert len(files_in(tmp_path)) == 2

    play(tmp_path, scene)


def test_a_file_in_use_is_there_while_its_time_is_written_down(tmp_path: Path) -> None:
    now = [1000.0]

    async def scene(store: FileStore) -> None:
        record = await a_file(store)
        now[0] += 50  # of 60
        await store.find(record.handle, "files")
        now[0] += 50
        sweeping = asyncio.ensure_future(store.sweep())
        await asyncio.sleep(0)
        assert await store.find(record.handle, "files") == record
        assert await sweeping == 0
        now[0] += 50
        await store.find(record.handle, "files")
        now[0] += 61
        assert await store.sweep() == 1

    play(tmp_path, scene, lambda: now[0])


def test_what_is_committed_while_its_session_ends_does_not_stay(tmp_path: Path) -> None:
    async def scene(store: FileStore) -> None:
        settle = store.storage.settle

        async def settled(blobs: Any) -> None:
            await settle(blobs)
            await store.end_scope(SCOPE, "its session ended")

        store.storage.settle = settled
        file = await store.begin("upload", SCOPE, "files", "a.txt")
        await file.write(b"abc")
        await file.finish()
        with pytest.raises(Gone):
            await store.commit([file])
        await file.abandon()
        assert (files_in(tmp_path), store.usage.total) == ([], 0)

    play(tmp_path, scene)


def test_a_copy_that_fails_leaves_nothing_in_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_source: Path, target: Path) -> None:
        target.write_bytes(b"a")
        raise OSError(errno.ENOSPC, "full")

    async def scene(store: FileStore) -> None:
        record = await a_file(store)
        views = Views(tmp_path / "views", None, "files", store, Reach.OURS)
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "copyfile", full)
            with pytest.raises(NoRoom):
                await views.place(record, SCOPE)
        assert [path for path in (tmp_path / "views").rglob("*") if path.is_file()] == []
        assert Path(await views.place(record, SCOPE)).read_bytes() == b"abc"

    play(tmp_path, scene)


def test_a_copy_from_afar_is_whole_though_the_disk_takes_it_in_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    async def scene(store: FileStore) -> None:
        record = await a_file(store)
        store.storage.path = lambda blob: None  # as with an object store
        views = Views(tmp_path / "views", None, "files", store, Reach.OURS)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:1]))
            placed = await views.place(record, SCOPE)
        assert Path(placed).read_bytes() == b"abc"

    play(tmp_path, scene)


def test_a_session_ends_wholly_though_the_object_store_is_away(tmp_path: Path) -> None:
    async def scene(store: FileStore) -> None:
        ended: list[str] = []

        async def away(blobs: Any) -> None:
            del blobs
            raise Away("the object store cannot be reached")

        async def on_ended(scope: str) -> None:
            ended.append(scope)

        await a_file(store)
        store.storage.delete, store.on_ended = away, on_ended
        await store.end_scope(SCOPE, "its session ended")
        assert (ended, store.usage.total) == ([SCOPE], 0)

    play(tmp_path, scene)


def test_a_scope_that_got_nothing_is_not_remembered() -> None:
    usage = Usage(Quotas(scope_bytes=10, artifacts_per_scope=0, writes=0))
    refused: list[Callable[[], None]] = [
        lambda: usage.add(SCOPE, "files", 11),
        lambda: usage.add_artifact(SCOPE, "files", 1),
        lambda: usage.begin(SCOPE),
    ]
    for ask in refused:
        with pytest.raises((NoRoom, TooMany)):
            ask()
    assert (usage.by_scope, usage.by_server, usage.files, usage.writing) == ({}, {}, {}, {})
