"""How many files a scope may have, however small they are: counted as they come and go."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from tests.files.conftest import form, http_request, post, said, serving, upload_url
from tests.files.test_sending import TUS, a_store
from tests.files.test_writing import SCOPE
from tests.support.peers import StreamablePeer

from mooring.files.faults import NoRoom
from mooring.files.handles import Kind
from mooring.files.quotas import Quotas, Usage
from mooring.files.records import FileRecord
from mooring.files.resuming import ResumableUploads
from mooring.files.store import FileStore

FULL = "may keep 3 files"


async def an_empty_file(store: FileStore, kind: Kind = "upload") -> FileRecord:
    file = await store.begin(kind, SCOPE, "files", "empty")
    try:
        await file.finish()
        [record] = await store.commit([file])
    except BaseException:
        await file.abandon()
        raise
    return record


def test_empty_files_of_every_kind_count_also_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        for _ in range(2):  # as before, and after a restart
            store = a_store(tmp_path, lambda: 1000.0, Quotas(files_per_scope=3))
            uploads = ResumableUploads(store, tmp_path / "resumable")
            await store.open()
            await uploads.open()
            if not store.usage.files:
                for kind in ("upload", "artifact"):
                    await an_empty_file(store, kind)
                await uploads.create(SCOPE, "files", "later", 7, "")
            assert store.usage.files == {SCOPE: 3}
            for kind in ("upload", "artifact", "result"):
                with pytest.raises(NoRoom, match=f"{FULL} at most: wait until older ones expire"):
                    await store.begin(kind, SCOPE, "files", "one more")
            with pytest.raises(NoRoom, match=FULL):
                await uploads.create(SCOPE, "files", "one more", 0, "")
            await store.close()
        assert store.usage.total == 7, "what was refused has no bytes either"

    asyncio.run(run())


def test_what_goes_makes_room_for_others(tmp_path: Path) -> None:
    now = [1000.0]

    async def run() -> None:
        store = a_store(tmp_path, lambda: now[0], Quotas(files_per_scope=1))
        uploads = ResumableUploads(store, tmp_path / "resumable")
        store.on_ended = uploads.end_scope
        await store.open()
        await uploads.open()
        file = await store.begin("upload", SCOPE, "files", "a")
        await file.abandon()
        await store.remove((await an_empty_file(store)).id, "deleted")
        await uploads.give_up(await uploads.create(SCOPE, "files", "a", 5, ""))
        await uploads.give_up(await uploads.create(SCOPE, "files", "finished at once", 0, ""))
        await an_empty_file(store)
        now[0] += 61
        await store.sweep()
        await uploads.create(SCOPE, "files", "a", 5, "")
        now[0] += 61
        await uploads.sweep()
        await uploads.create(SCOPE, "files", "a", 5, "")
        await store.end_scope(SCOPE, "its session ended")
        assert (store.usage.files, store.usage.by_scope, store.usage.total) == ({}, {}, 0)
        await store.close()

    asyncio.run(run())


def test_a_scope_of_empty_files_is_known_to_have_some() -> None:
    usage = Usage(Quotas())
    usage.add_file("upload", SCOPE, "files", 0)
    usage.add_file("artifact", SCOPE, "files", 5)
    usage.remove_artifact(SCOPE, "files", 5)
    assert SCOPE in usage.by_scope
    usage.remove_file("upload", SCOPE, "files", 0)
    assert SCOPE not in usage.by_scope


def test_a_flood_of_empty_files_ends_and_holds_up_nobody_else(tmp_path: Path) -> None:
    limits = {"max_files_per_session": 3}
    settings = {"sessions": limits, "results": {"max_inline_bytes": 300}}
    with serving(tmp_path, **settings) as gateway, StreamablePeer(gateway, "files") as peer:
        about = upload_url(peer)
        refused = post(about, *((f"{number}.txt", b"") for number in range(50)))
        assert (refused.status, FULL in refused.json["error"]) == (507, True)
        assert post(about, *((f"{number}.txt", b"") for number in range(3))).status == 200, "none remained"
        assert post(about, ("one.txt", b"")).status == 507
        assert http_request("PUT", about["upload_url"], b"", about["headers"]).status == 507
        name = base64.b64encode(b"one.txt").decode()
        tus = {**TUS, **about["headers"], "Upload-Length": "0", "Upload-Metadata": f"filename {name}"}
        assert http_request("POST", about["upload_url"], headers=tus).status == 507
        made = said(peer.tool("write", {"filename": "a.txt", "text": ""}))
        assert f"was not kept: this session {FULL}" in made
        assert said(peer.tool("plain", {"text": "x" * 500})) == "x" * 500, "better large than lost"
        with StreamablePeer(gateway, "files") as other:
            body, kind = form(("theirs.txt", b""))
            theirs = upload_url(other)
            sent = {**theirs["headers"], "Content-Type": kind}
            assert http_request("POST", theirs["upload_url"], body, sent).status == 200
