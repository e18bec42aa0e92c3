"""Other ways to send a file: in pieces that survive a break, or by URL."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.files.conftest import Answered, http_request, post, said, serving, upload_url
from tests.support.gateway import Gateway
from tests.support.peers import ModernHttpPeer, Peer, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.database import Database
from mooring.files.faults import FileFault, NotFound
from mooring.files.importing import Importer, is_inside
from mooring.files.local_storage import LocalStorage
from mooring.files.quotas import Quotas
from mooring.files.receiving import Receiver
from mooring.files.records import FileRecord
from mooring.files.resuming import ResumableUploads
from mooring.files.store import FileStore, KeepingRule, StoreRules
from mooring.files.upload_tool import UploadRules

TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}
DATA = os.urandom(100_000)


def create(url: str, data: bytes = DATA, **metadata: str) -> Answered:
    pairs = {"filename": "big.bin", **metadata}
    encoded = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in pairs.items())
    headers = {**TUS, "Upload-Length": str(len(data)), "Upload-Metadata": encoded}
    return http_request("POST", url, b"", headers)


def send_piece(location: str, offset: int, data: bytes) -> Answered:
    return http_request("PATCH", location, data, {**PIECE, "Upload-Offset": str(offset)})


def begin_piece(location: str, data: bytes) -> http.client.HTTPConnection:
    """A request for all of it, of which only this comes."""
    parts = urlsplit(location)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.putrequest("PATCH", f"{parts.path}?{parts.query}")
    for name, value in {**PIECE, "Upload-Offset": "0", "Content-Length": str(len(DATA))}.items():
        connection.putheader(name, value)
    connection.endheaders(data)
    return connection


def offset_of(location: str) -> int:
    return int(http_request("HEAD", location, headers=TUS).headers["Upload-Offset"])


def a_store(
    folder: Path, clock: Callable[[], float], quotas: Quotas | None = None, max_file_bytes: int = 1000
) -> FileStore:
    rule = KeepingRule(max_file_bytes, 60.0)
    return FileStore(
        Database(folder / "state.sqlite3"),
        LocalStorage(folder),
        quotas or Quotas(),
        StoreRules(rule, rule, rule),
        clock=clock,
    )


def test_a_file_may_come_in_pieces(peer: Peer) -> None:
    created = create(upload_url(peer)["upload_url"], sha256=hashlib.sha256(DATA).hexdigest())
    assert created.status == 201
    location = created.headers["Location"]
    first = send_piece(location, 0, DATA[:30_000])
    assert (first.status, first.headers["Upload-Offset"]) == (204, "30000")
    assert "Upload-Handle" not in first.headers
    asked = http_request("HEAD", location, headers=TUS)
    assert (asked.headers["Upload-Offset"], asked.headers["Upload-Length"]) == ("30000", "100000")
    assert send_piece(location, 0, DATA).status == 409
    last = send_piece(location, 30_000, DATA[30_000:])
    handle = last.headers["Upload-Handle"]
    size, digest, _ = said(peer.tool("measure", {"path": handle})).split(" ", 2)
    assert (int(size), digest) == (len(DATA), hashlib.sha256(DATA).hexdigest())


def test_pieces_may_come_long_after_the_link_has_expired(tmp_path: Path) -> None:
    uploads = {"link_ttl_seconds": 1}
    with serving(tmp_path, uploads=uploads) as gateway, ModernHttpPeer(gateway, "files") as peer:
        url = upload_url(peer)["upload_url"]
        location = create(url).headers["Location"]
        eventually(lambda: create(url).status == 410, "the link to expire")
        assert send_piece(location, 0, DATA[:50_000]).status == 204
        last = send_piece(location, 50_000, DATA[50_000:])
        assert said(peer.tool("measure", {"path": last.headers["Upload-Handle"]})).startswith("100000 ")
        begins_anew = f"{gateway.address}/upload/files?{urlsplit(location).query}"
        assert [create(begins_anew).status, http_request("PUT", begins_anew, b"x").status] == [403, 403]


def test_every_piece_gives_time_for_the_next(tmp_path: Path) -> None:
    now = [1000.0]

    async def pieces(data: bytes) -> AsyncIterator[bytes]:
        yield data

    async def run() -> None:
        store = a_store(tmp_path, lambda: now[0])
        uploads = ResumableUploads(store, tmp_path / "resumable")
        await store.open()
        await uploads.open()
        upload = await uploads.create("0" * 32, "files", "a.bin", 30, "")
        for offset in (0, 10):
            now[0] += 50  # of 60
            upload = await uploads.append(upload, offset, pieces(b"0123456789"))
            await uploads.sweep()
            assert (await uploads.find(upload.id, upload.scope, "files")).expires == now[0] + 60
        now[0] += 61
        await uploads.sweep()
        with pytest.raises(NotFound):
            await uploads.find(upload.id, upload.scope, "files")
        assert (list((tmp_path / "resumable").iterdir()), store.usage.total) == ([], 0)
        await store.close()

    asyncio.run(run())


def test_pieces_without_an_upload_are_swept(tmp_path: Path) -> None:
    async def run() -> list[str]:
        store = a_store(tmp_path, time.time)
        uploads = ResumableUploads(store, tmp_path / "resumable")
        await store.open()
        await uploads.open()
        coming = await uploads.create("0" * 32, "files", "a.bin", 30, "")
        for name in ("old", "new"):
            (tmp_path / "resumable" / name).write_bytes(b"left by a crash")
        for name in ("old", coming.id):
            os.utime(tmp_path / "resumable" / name, (1, 1))
        await uploads.sweep_orphans(time.time() - 60)
        await store.close()
        return [name for name in ("old", "new", coming.id) if (tmp_path / "resumable" / name).exists()]

    kept = asyncio.run(run())
    assert "old" not in kept
    assert len(kept) == 2


def test_a_session_that_ends_takes_its_unfinished_uploads_along(gateway: Gateway) -> None:
    folder = gateway.folder / "data/files/resumable"
    before = set(folder.iterdir())
    with StreamablePeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        send_piece(location, 0, DATA[:50_000])
        assert len(set(folder.iterdir()) - before) == 1
    eventually(lambda: set(folder.iterdir()) <= before, "the pieces to go")
    late = send_piece(location, 50_000, DATA[50_000:])
    assert (late.status, "has ended" in late.json["error"]) == (410, True)
    assert http_request("HEAD", location, headers=TUS).status == 410


def test_what_came_before_a_break_stays(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        begin_piece(location, DATA[:70_000]).close()
        eventually(lambda: offset_of(location) == 70_000, "the first bytes to be kept")
        assert send_piece(location, 70_000, DATA[70_000:]).headers["Upload-Handle"]


def test_a_client_goes_on_while_its_old_connection_hangs(gateway: Gateway) -> None:
    """As after a change of networks: nobody tells us that the first one is dead."""
    with ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        hanging = begin_piece(location, DATA[:70_000])
        assert offset_of(location) == 0, "what has not been put away yet is not promised"
        refused = send_piece(location, 0, DATA)
        assert (refused.status, offset_of(location)) == (409, 70_000), "what it sent is kept all the same"
        done = send_piece(location, 70_000, DATA[70_000:])
        assert said(peer.tool("measure", {"path": done.headers["Upload-Handle"]})).startswith("100000 ")
        with hanging.getresponse() as told:
            assert told.status == 423
        hanging.close()


def test_pieces_survive_the_death_of_the_gateway(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as gateway, ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        assert send_piece(location, 0, DATA[:50_000]).status == 204
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait(10)
    with serving(tmp_path / "a") as gateway, ModernHttpPeer(gateway, "files") as peer:
        location = f"{gateway.address}/{location.split('/', 3)[3]}"
        last = send_piece(location, 50_000, DATA[50_000:])
        assert last.status == 204, last.body
        assert said(peer.tool("measure", {"path": last.headers["Upload-Handle"]})).startswith("100000 ")


def test_a_death_between_the_last_byte_and_its_name_loses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as gateway, ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        assert send_piece(location, 0, DATA[:90_000]).status == 204
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait(10)
    (coming,) = tmp_path.glob("a/data/**/resumable/*")
    with coming.open("ab") as file:  # as if it had died a moment later
        file.write(DATA[90_000:])
    (folder,) = tmp_path.glob(f"a/data/**/blobs/{coming.name[0]}")
    os.link(coming, folder / coming.name)
    with serving(tmp_path / "a") as gateway, ModernHttpPeer(gateway, "files") as peer:
        location = f"{gateway.address}/{location.split('/', 3)[3]}"
        asked = http_request("HEAD", location, headers=TUS)
        assert (asked.status, asked.headers["Upload-Offset"]) == (200, str(len(DATA)))
        assert said(peer.tool("measure", {"path": asked.headers["Upload-Handle"]})).startswith("100000 ")
    assert not list(tmp_path.glob("a/data/**/resumable/*"))


def test_a_required_hash_is_required_however_a_file_is_sent(tmp_path: Path) -> None:
    digest = hashlib.sha256(DATA).hexdigest()
    with (
        serving(tmp_path, uploads={"require_sha256": True}) as gateway,
        ModernHttpPeer(gateway, "files") as peer,
    ):
        about = upload_url(peer)
        assert about["sha256_required"] is True
        assert "sha256=" in about["example_curl"]
        url = about["upload_url"]
        for answered in (post(about, ("a", DATA)), http_request("PUT", url, DATA), create(url)):
            assert answered.status == 400
            assert b"SHA-256" in answered.body
        assert create(url, sha256="abc").status == 400
        assert post(about, ("a", DATA), hashes=(digest,)).status == 200
        assert http_request("PUT", url, DATA, {"X-Content-Sha256": digest}).status == 201
        assert create(url, sha256=digest.upper()).status == 201


@pytest.mark.parametrize("length", ["-1", "abc", "", "99999999999999"])
def test_a_length_that_cannot_be_meant_is_refused(gateway: Gateway, length: str) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        answered = http_request("POST", upload_url(peer)["upload_url"], b"", {**TUS, "Upload-Length": length})
    assert answered.status in (400, 413)


def test_a_wrong_hash_ends_a_resumable_upload(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"], sha256="0" * 64).headers["Location"]
        assert send_piece(location, 0, DATA).status == 422
        assert http_request("HEAD", location, headers=TUS).status == 404


def test_who_cannot_send_patch_says_so(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        meant = {**PIECE, "Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"}
        assert http_request("POST", location, DATA[:10], meant).headers["Upload-Offset"] == "10"
        assert http_request("POST", location, b"", {**TUS, "X-HTTP-Method-Override": "DELETE"}).status == 204
        assert http_request("HEAD", location, headers=TUS).status == 404


def test_refusals_speak_the_protocol_too(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"], sha256="0" * 64).headers["Location"]
        other = http_request("HEAD", location, headers={"Tus-Resumable": "0.2.2"})
        assert (other.status, other.headers["Tus-Version"]) == (412, "1.0.0")
        assert http_request("HEAD", location).headers["Tus-Version"] == "1.0.0"
        typed = http_request(
            "PATCH", location, DATA, {**TUS, "Upload-Offset": "0", "Content-Type": "text/plain"}
        )
        assert (typed.status, typed.headers["Tus-Resumable"]) == (415, "1.0.0")
        assert send_piece(location, 5, DATA).headers["Tus-Resumable"] == "1.0.0"
        described = http_request("HEAD", location, headers=TUS).headers["Upload-Metadata"]
        about = dict(pair.split(" ") for pair in described.split(","))
        assert {name: base64.b64decode(value) for name, value in about.items()} == {
            "filename": b"big.bin",
            "sha256": b"0" * 64,
        }


def test_an_upload_can_be_given_up(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        location = create(upload_url(peer)["upload_url"]).headers["Location"]
        assert http_request("DELETE", location, headers=TUS).status == 204
        assert send_piece(location, 0, DATA).status == 404


# Import


@contextmanager
def website(answer: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def fetch(folder: Path, importer: Importer, url: str, limit: int = 1000) -> list[FileRecord]:
    async def work() -> list[FileRecord]:
        rule = KeepingRule(limit, 60.0)
        database = Database(folder / "state.sqlite3")
        store = FileStore(database, LocalStorage(folder), Quotas(), StoreRules(rule, rule, rule))
        await store.open()
        try:
            async with Receiver(store, UploadRules(), "s").receipt("0" * 32) as receipt:
                await importer.fetch(url, receipt)
                return await receipt.keep()
        finally:
            assert store.usage.total == sum(r.size for r in await store.listed("0" * 32, "s", ["upload"]))
            await store.close()

    return asyncio.run(work())


def test_a_file_is_imported_from_a_listed_host(tmp_path: Path) -> None:
    pages = {
        "/a": (302, {"Location": "/b/Bericht%20%C3%BC.txt"}, b""),
        "/b/Bericht%20%C3%BC.txt": (200, {}, b"from afar"),
    }
    with website(pages) as base:
        [made] = fetch(tmp_path, Importer(("localhost",), lambda _: False), f"{base}/a")
    assert (made.name, made.size) == ("Bericht ü.txt", 9)


def test_an_address_may_be_written_as_people_write_it(tmp_path: Path) -> None:
    with website({"/Bericht%20%C3%BC.txt?v=%C3%BC%26": (200, {}, b"from afar")}) as base:
        url = f"{base}/Bericht ü.txt?v=ü%26#top"
        [made] = fetch(tmp_path, Importer(("localhost",), lambda _: False), url)
    assert (made.name, made.size) == ("Bericht ü.txt", 9)


@pytest.mark.parametrize(
    ("hosts", "url", "why"),
    [
        ((), "http://localhost/a", "switched off"),
        (("example.com",), "http://localhost/a", "not among"),
        (("example.com",), "http://example.com.evil.test/a", "not among"),
        (("*.example.com",), "http://example.com/a", "not among"),
        (("localhost",), "http://localhost/a", "inside"),
        (("127.0.0.1",), "http://127.0.0.1/a", "inside"),
        (("169.254.169.254",), "http://169.254.169.254/latest/meta-data", "inside"),
        (("[::1]", "::1"), "http://[::1]/a", "inside"),
        (("0x7f000001", "2130706433"), "http://2130706433/a", "inside"),
        (("localhost",), "file:///etc/passwd", "must begin"),
        (("localhost",), "http://user@localhost/", "must begin"),
        (("localhost",), "gopher://localhost/", "must begin"),
    ],
)
def test_what_must_not_be_fetched_is_not(tmp_path: Path, hosts: tuple[str, ...], url: str, why: str) -> None:
    with pytest.raises(FileFault, match=why):
        fetch(tmp_path, Importer(hosts, is_inside), url)


def test_what_is_no_address_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(FileFault, match="is not known"):
        fetch(tmp_path, Importer(("*.example.com",), is_inside), f"https://{'a' * 70}.example.com/a")
    pages = {"/a": (302, {"Location": "http://[nowhere"}, b"")}
    with website(pages) as base, pytest.raises(FileFault, match="not an address"):
        fetch(tmp_path, Importer(("localhost",), lambda _: False), f"{base}/a")


def test_a_redirect_is_judged_again(tmp_path: Path) -> None:
    pages = {"/a": (302, {"Location": "http://127.0.0.1:1/secret"}, b"")}
    with website(pages) as base, pytest.raises(FileFault, match="not among"):
        fetch(tmp_path, Importer(("localhost",), lambda _: False), f"{base}/a")


def test_too_much_is_not_imported(tmp_path: Path) -> None:
    with website({"/a": (200, {}, b"x" * 2000)}) as base, pytest.raises(FileFault, match="1,000 bytes"):
        fetch(tmp_path, Importer(("localhost",), lambda _: False), f"{base}/a")
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1",
     "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1",
     "::ffff:0:7f00:1", "64:ff9b:1::a00:1", "fec0::1"],
)  # fmt: skip
def test_addresses_inside_are_known(address: str) -> None:
    assert is_inside(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_outside_are_known(address: str) -> None:
    assert not is_inside(address)


def test_importing_is_off_by_default(peer: Peer) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://example.com/\r\n--b--\r\n'
    answered = http_request(
        "POST", upload_url(peer)["upload_url"], body, {"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert answered.status == 403
    assert "switched off" in answered.json["error"]
