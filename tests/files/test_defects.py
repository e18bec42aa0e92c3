"""The rest of W9 to W16, defects of an earlier program of this kind, and of what somebody could try."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import PEERS, file_server, http_request, post, said, serving, upload, upload_url
from tests.files.test_adapter_format import served
from tests.files.test_files_door import Keyed, keys_in
from tests.support.gateway import Gateway, http_server
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

from mooring.files import receiving
from mooring.files.database import Database
from mooring.files.faults import Gone, NotFound, TooSlow
from mooring.files.handles import Kind
from mooring.files.links import Links
from mooring.files.local_storage import LocalStorage
from mooring.files.producing import ProducerRules
from mooring.files.quotas import Quotas
from mooring.files.scopes import Scopes
from mooring.files.server_files import ServerFiles
from mooring.files.service import FileService
from mooring.files.store import FileStore, KeepingRule, StoreRules
from mooring.files.upload_tool import UploadRules
from mooring.files.views import Reach, Views
from mooring.gateway.clients import ModernClient
from mooring.transports.sealing import Seal

Json = dict[str, Any]
PAGE = "https://app.example.com"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("defects")
    settings = {"cors": {"allowed_origins": [PAGE]}, "sessions": {"max_active": 1}}
    keys = keys_in(folder, "alice")
    with serving(folder, file_server(), auth={"mode": "api_key"}, **settings) as gateway:
        yield Keyed(gateway, keys)


@pytest.mark.parametrize("path", ["/mcp/files", "/upload/files"])
def test_w9_a_web_page_may_ask_before_it_authenticates(keyed: Keyed, path: str) -> None:
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, mcp-session-id",
    }
    answered = http_request("OPTIONS", keyed.gateway.address + path, None, asked)
    assert answered.status == 204
    assert answered.headers["Access-Control-Allow-Origin"] == PAGE
    assert "authorization" in answered.headers["Access-Control-Allow-Headers"]
    refused = http_request("POST", keyed.gateway.address + path, b"{}", {"Origin": PAGE})
    assert refused.status == 401
    assert refused.headers["Access-Control-Allow-Origin"] == PAGE, "the page must be able to read why"
    assert "Mcp-Session-Id" in refused.headers["Access-Control-Expose-Headers"]
    stranger = {**asked, "Origin": "https://evil.example.com"}
    assert http_request("OPTIONS", keyed.gateway.address + path, None, stranger).status == 403


def test_w10_a_gateway_that_keeps_its_state_in_memory_over_there_is_healthy_here(tmp_path: Path) -> None:
    with served(tmp_path, {}, {"state_persistence": {"type": "memory"}}) as gateway:
        assert gateway.get("/healthz")["status"] == "ok"


def test_w12_one_session_too_many_is_refused_and_not_a_fault(keyed: Keyed) -> None:
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    hello += b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with keyed.peer("legacy", "alice") as alice:
        one_more = http_request(
            "POST", keyed.gateway.url("files"), hello, {**headers, **keyed.headers("alice")}
        )
        assert one_more.status in (429, 503)
        assert "too many sessions" in one_more.json["error"]["message"]
        assert isinstance(alice, StreamablePeer)
        session = {"Mcp-Session-Id": alice.channel.session or ""}
    late = {**headers, **keyed.headers("alice"), **session, "MCP-Protocol-Version": "2025-11-25"}
    ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
    assert http_request("POST", keyed.gateway.url("files"), ping, late).status == 404


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_w13_a_wired_tool_reports_asks_and_is_cancelled(tmp_path: Path, era: str) -> None:
    wired = [{"type": "artifact_producer", "tools": ["count", "wait", "ask", "log"]}]
    asked: list[Json] = []

    def answer(params: Json) -> Json:
        asked.append(params)
        return {"action": "accept", "content": {}}

    with (
        http_server("files", tmp_path / "journal", adapters=wired) as server,
        serving(tmp_path / "gateway", server) as gateway,
        PEERS[era](gateway, "files", handlers={"elicitation/create": answer}) as peer,
    ):
        assert "counted" in said(peer.tool("count", {"steps": 3}, progressToken="t"))
        assert [note["params"]["progress"] for note in peer.wait_for("notifications/progress", 3)] == [
            1,
            2,
            3,
        ]
        peer.set_level("info")
        peer.tool("log", {"level": "warning"})
        peer.wait_for("notifications/message")
        assert not peer.tool("ask", {"kind": "elicitation"}).get("isError")
        assert asked
        waiting = peer.start_tool("wait", {"seconds": 20})
        journal = tmp_path / "journal"
        eventually(lambda: '"waiting"' in journal.read_text(), "the call to run")
        peer.cancel(waiting)
        eventually(lambda: gateway.in_flight("files") == 0, "the call to be over")
        assert "waited to the end" not in journal.read_text()


def sockets(gateway: Gateway) -> int:
    folder = Path(f"/proc/{gateway.process.pid}/fd")
    return sum(os.readlink(entry).startswith("socket:") for entry in folder.iterdir() if entry.is_symlink())


def test_w4_w16_sessions_that_ended_leave_nothing_open(tmp_path: Path) -> None:
    wired = [{"type": "upload_consumer", "tools": ["echo"], "file_path_argument": "text"}]
    with (
        http_server("files", tmp_path / "journal", adapters=wired) as server,
        serving(tmp_path / "gateway", server) as gateway,
    ):
        with StreamablePeer(gateway, "files") as peer:
            assert not peer.tool("echo", {"text": upload(peer, b"x")}).get("isError")
        before = eventually(lambda: sockets(gateway), "a first session")
        for _ in range(30):
            with StreamablePeer(gateway, "files") as peer:
                peer.tool("echo", {"text": upload(peer, b"x")})
        eventually(lambda: sockets(gateway) <= before + 3, "the connections to be closed")
        blobs = gateway.folder / "data/files/blobs"
        eventually(lambda: not list(blobs.glob("*/*")), "the files of the sessions to be gone")


def test_a_ticket_dies_with_its_session(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        with StreamablePeer(gateway, "files") as peer:
            about = upload_url(peer)
            assert post(about, ("a", b"x")).status == 200
        eventually(lambda: post(about, ("a", b"x")).status in (404, 410), "the ticket to be worth nothing")


def test_a_server_may_keep_only_so_much(tmp_path: Path) -> None:
    storage = {"root": str(tmp_path / "data"), "max_server_size": 3000}
    with serving(tmp_path, file_server(), file_server("others"), storage=storage) as gateway:
        for name in ("files", "others"):
            with ModernHttpPeer(gateway, name) as one, ModernHttpPeer(gateway, name) as two:
                assert post(upload_url(one, name), ("a", b"x" * 2000)).status == 200
                refused = post(upload_url(two, name), ("a", b"x" * 2000))
                assert refused.status == 507
                assert f"`{name}` may keep 3,000 bytes" in refused.json["error"]
                assert post(upload_url(two, name), ("a", b"x" * 900)).status == 200


def test_uploads_and_calls_go_on_while_others_expire(tmp_path: Path) -> None:
    """Whatever is found is whole, whatever is not says so: nothing in between, and no room is lost."""
    short = {"uploads": {"ttl_seconds": 0.3, "link_ttl_seconds": 60}}
    seen: list[str] = []
    with serving(tmp_path, **short) as gateway:

        def work() -> None:
            with StreamablePeer(gateway, "files") as peer:
                about = upload_url(peer)
                for _ in range(15):
                    handle = post(about, ("a", b"four")).json["upload_handle"]
                    seen.extend(said(peer.tool("measure", {"path": handle})) for _ in range(2))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(seen) == 3 * 15 * 2
        assert all(text.startswith("4 ") or "not found" in text for text in seen), set(seen)
        files = gateway.folder / "data/files"
        eventually(lambda: not list(files.glob("blobs/*/*")), "everything to have expired", limit=20)
        assert "Traceback" not in gateway.log()


async def _slow(pause: float, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        await asyncio.sleep(pause)
        yield b"x"


def test_a_body_that_only_trickles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "PATIENCE_SECONDS", 0.05)

    async def read() -> None:
        async for _ in receiving.unhurried(_slow(0.02, 50)):
            pass

    with pytest.raises(TooSlow, match="resumable"):
        asyncio.run(read())


def test_what_takes_us_long_is_not_held_against_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import in the middle of a form may take minutes; the rest of the form has come long before."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    async def read() -> int:
        size = 0
        async for data in receiving.unhurried(_slow(0, 3)):
            size += len(data)
            now[0] += 100
        return size

    assert asyncio.run(read()) == 3


def test_what_a_crash_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    rule = KeepingRule(1000, 3600.0)
    rules = StoreRules(rule, rule, rule, orphan_grace_seconds=60)

    async def run() -> tuple[int, list[str], bytes]:
        store = FileStore(
            Database(tmp_path / "state.sqlite3"), LocalStorage(tmp_path / "files"), Quotas(), rules
        )
        await store.open()
        file = await store.begin("upload", "0" * 32, "files", "a.txt")
        await file.write(b"kept")
        await file.finish()
        [record] = await store.commit([file])
        left = "f" * 32
        old, new = tmp_path / "files/blobs/f" / left, tmp_path / "files/incoming" / ("e" * 32)
        old.write_bytes(b"of a crash")
        new.write_bytes(b"on its way")
        long_ago = time.time() - 120
        for path in (old, tmp_path / "files/blobs" / record.blob[0] / record.blob):
            os.utime(path, (long_ago, long_ago))
        swept = await store.sweep_orphans()
        names = [path.name for path in (tmp_path / "files").rglob("*") if path.is_file()]
        data = await store.read_all(record)
        await store.close()
        return swept, names, data

    swept, names, data = asyncio.run(run())
    assert (swept, data) == (1, b"kept")
    assert "f" * 32 not in names
    assert "e" * 32 in names, "somebody may still be writing it"


def test_what_has_expired_says_so_before_it_is_swept(tmp_path: Path) -> None:
    rule = KeepingRule(1000, 60.0)
    now = [1000.0]

    async def run() -> None:
        store = FileStore(
            Database(tmp_path / "state.sqlite3"),
            LocalStorage(tmp_path / "files"),
            Quotas(),
            StoreRules(rule, rule, rule),
            clock=lambda: now[0],
        )
        await store.open()
        file = await store.begin("upload", "0" * 32, "files", "a.txt")
        await file.write(b"kept")
        await file.finish()
        [record] = await store.commit([file])
        now[0] += 72
        with pytest.raises(Gone, match=r"expired 12 s ago"):
            await store.find(record.handle, "files")
        with pytest.raises(NotFound) as other:
            await store.find(record.handle, "others")
        assert not isinstance(other.value, Gone)
        await store.close()

    asyncio.run(run())


def test_a_page_of_the_list_is_not_cut_by_what_has_expired(tmp_path: Path) -> None:
    short, long = KeepingRule(1000, 60.0), KeepingRule(1000, 600.0)
    now = [1000.0]

    async def run() -> int:
        store = FileStore(
            Database(tmp_path / "state.sqlite3"),
            LocalStorage(tmp_path / "files"),
            Quotas(),
            StoreRules(short, long, short),
            clock=lambda: now[0],
        )
        await store.open()
        kinds: list[Kind] = ["result", "artifact", "artifact", "artifact"]
        for kind in kinds:
            now[0] += 1
            file = await store.begin(kind, "0" * 32, "files", "a.txt")
            await file.write(b"kept")
            await file.finish()
            await store.commit([file])
        now[0] += 70
        found = await store.listed("0" * 32, "files", ["artifact", "result"], limit=2)
        await store.close()
        return len(found)

    assert asyncio.run(run()) == 2, "fewer than asked for would mean that there are no more"


def test_a_flood_of_sessions_stops_at_the_limit_and_harms_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, sessions={"max_active": 5}) as gateway:
        with StreamablePeer(gateway, "files") as mine:
            others = []
            try:
                for _ in range(4):
                    others.append(StreamablePeer(gateway, "files"))
                with pytest.raises((RpcRefused, AssertionError)):
                    StreamablePeer(gateway, "files")
                assert said(mine.tool("measure", {"path": upload(mine, b"four")})).startswith("4 ")
            finally:
                for other in others:
                    other.close()
        with StreamablePeer(gateway, "files") as later:
            assert said(later.tool("measure", {"path": upload(later, b"four")})).startswith("4 ")


def test_what_others_keep_in_a_shared_folder_is_not_swept(tmp_path: Path) -> None:
    """`files.shared_directory` may be a folder that people use, with one called like the server in it."""
    foreign = [tmp_path / "files" / name for name in ("2025", "archive", "old-reports", "d" * 31)]
    ours = tmp_path / "files" / ("a" * 32)
    for folder in (*foreign, ours):
        (folder / "in").mkdir(parents=True)
        (folder / "letter.txt").write_text("theirs")
        for path in (folder / "in", folder):
            os.utime(path, (1, 1))
    rule = KeepingRule(1000, 60.0)
    rules = StoreRules(rule, rule, rule)
    store = FileStore(Database(tmp_path / "state.sqlite3"), LocalStorage(tmp_path), Quotas(), rules)
    views = Views(tmp_path, None, "files", store, Reach.SHARED)
    asyncio.run(views.sweep(lambda _: False, time.time() - 60))
    assert not ours.exists()
    assert all((folder / "letter.txt").exists() for folder in foreign)


def test_scopes_of_nobody_are_not_remembered_for_ever(tmp_path: Path) -> None:
    """Each call of an anonymous modern client that makes a file has a scope of its own."""
    key = b"k" * 32
    rule = KeepingRule(1000, 60.0)
    rules = StoreRules(rule, rule, rule)
    store = FileStore(Database(tmp_path / "state.sqlite3"), LocalStorage(tmp_path), Quotas(), rules)
    service = FileService(store, Links(Seal(key), key), Scopes(key), tmp_path / "views", 60.0)
    files = ServerFiles("files", {}, UploadRules(), ProducerRules(expose_as_resources=False))
    adapters: Any = service.adapters_for(files, None, None)
    modern: Any = ModernClient.__new__(ModernClient)
    for number in range(10):
        adapters._made(f"{number:032x}", modern)
    assert not adapters._used
