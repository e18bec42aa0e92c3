"""What is counted stays right when whoever asked goes away in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.files.test_writing import SCOPE, a_file, files_in, play

from mooring.files.captured import Capturer, Embedded, Owner, Source
from mooring.files.incoming import Incoming
from mooring.files.receiving import Receiver
from mooring.files.resuming import ResumableUploads
from mooring.files.store import FileStore
from mooring.files.upload_tool import UploadRules


async def cancelled(store: FileStore, asked: Coroutine[Any, Any, Any], steps: int = 0) -> None:
    """Cancel this while the database does something for it, after this many other things."""
    run = store.database.run
    left = steps

    def watched(work: Any, settled: Any = None) -> Any:
        nonlocal left
        if left == 0:
            asyncio.get_running_loop().call_soon(task.cancel)
        left -= 1
        return run(work, settled)

    store.database.run = watched
    task = asyncio.ensure_future(asked)
    await asyncio.wait([task])
    store.database.run = run
    assert task.cancelled()
    await store.database.read(lambda connection: None)


def test_a_removal_that_is_given_up_is_counted(tmp_path: Path) -> None:
    async def scene(store: FileStore) -> None:
        record = await a_file(store)
        await cancelled(store, store.remove(record.id, "not kept"))
        assert (store.usage.total, files_in(tmp_path)) == (0, [])

    play(tmp_path, scene)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_the_end_of_a_session_is_whole_though_it_is_given_up(tmp_path: Path, steps: int) -> None:
    async def scene(store: FileStore) -> None:
        await a_file(store)
        await cancelled(store, store.end_scope(SCOPE, "its session ended"), steps)
        assert (store.usage.total, files_in(tmp_path)) == (0, [])

    play(tmp_path, scene)


def test_a_resumable_upload_that_is_given_up_is_counted(tmp_path: Path) -> None:
    async def scene(store: FileStore) -> None:
        uploads = ResumableUploads(store, tmp_path / "resumable")
        await uploads.open()
        upload = await uploads.create(SCOPE, "files", "a.txt", 10, "")
        await cancelled(store, uploads.give_up(upload))
        assert (store.usage.total, list((tmp_path / "resumable").iterdir())) == (0, [])

    play(tmp_path, scene)


def test_a_resumable_upload_that_is_given_up_at_its_beginning_is_counted_once(tmp_path: Path) -> None:
    now = [1000.0]

    async def scene(store: FileStore) -> None:
        uploads = ResumableUploads(store, tmp_path / "resumable")
        await uploads.open()
        await cancelled(store, uploads.create(SCOPE, "files", "a.txt", 10, ""))
        now[0] += 61
        await uploads.sweep()
        assert (store.usage.total, list((tmp_path / "resumable").iterdir())) == (0, [])

    play(tmp_path, scene, lambda: now[0])


@pytest.mark.parametrize("what", ["an upload", "an artifact"])
def test_all_files_of_a_request_go_though_it_is_cancelled_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def uploading(store: FileStore) -> None:
        async with Receiver(store, UploadRules(), "files").receipt(SCOPE) as receipt:
            for name in "abc":
                await receipt.begin(name)
                await receipt.write(b"abc")
                await receipt.end()
            await store.commit([])

    async def capturing(store: FileStore) -> None:
        sources: list[Source] = [Embedded(name, b"abc") for name in "abc"]
        await Capturer(store).capture(sources, Owner(SCOPE, "files"), exposed=True)

    async def scene(store: FileStore) -> None:
        async def stuck(*_: Any, **__: Any) -> Any:
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.Event().wait()

        abandon = Incoming.abandon

        async def abandoned(file: Incoming) -> None:
            task.cancel()
            await abandon(file)

        monkeypatch.setattr(store, "commit", stuck)
        monkeypatch.setattr(Incoming, "abandon", abandoned)
        task = asyncio.ensure_future((uploading if what == "an upload" else capturing)(store))
        await asyncio.wait([task])
        for _ in range(100):
            await store.database.read(lambda connection: None)  # whatever goes on without its task
        assert (task.cancelled(), store.usage.total, store.coming) == (True, 0, set())
        assert files_in(tmp_path) == []

    play(tmp_path, scene)
