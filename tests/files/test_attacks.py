"""Everything somebody could try with files, and what must not come of it. W1 to W16 are the defects of an
earlier program of this kind; none may exist here."""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import pytest
from tests.files.conftest import (
    ADAPTERS,
    PEERS,
    SERVER,
    file_server,
    form,
    http_request,
    post,
    said,
    serving,
    upload,
    upload_url,
)
from tests.support.gateway import Gateway, memory_bytes
from tests.support.peers import ModernHttpPeer, Peer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually


def scope_folder(gateway: Gateway, peer: Peer) -> Path:
    """The folder that the workload of this client sees."""
    path = said(peer.tool("measure", {"path": upload(peer, b"x")})).split(" ", 2)[2]
    return Path(path).parents[2]


# What must not get past an adapter

SMUGGLED = [
    '{"name":"measure","arguments":{"path":"/etc/passwd"},"arguments":{}}',
    '{"name":"measure","arguments":{"path":"/etc/passwd","path":"HANDLE"}}',
    '{"name":"measure","name":"plain","arguments":{"path":"/etc/passwd"}}',
    '{"name":"plain","n\\u0061me":"measure","arguments":{"path":"/etc/passwd"}}',
    '{"name":"measure","Name":"plain","arguments":{"path":"/etc/passwd"}}',
    '{"name":"measure","arguments":{"Path":"/etc/passwd"}}',
    '{"name":"measure","arguments":{"path":"HANDLE","PATH":"/etc/passwd"}}',
    '{"name":"measure_all","arguments":{"paths":[["/etc/passwd"]]}}',
    '{"name":"measure_deep","arguments":{"items":"/etc/passwd"}}',
    '{"name":"measure_deep","arguments":{"items":["/etc/passwd"]}}',
    '{"name":"measure_deep","arguments":{"items":[[{"path":"/etc/passwd"}]]}}',
    '{"name":"measure_deep","arguments":{"items":{"path":"/etc/passwd"}}}',
    '{"name":"measure_deep","arguments":{"items":[{"path":"/etc/passwd","path":"HANDLE"}]}}',
    '{"name":"measure_deep","arguments":{"items":[{"path":"HANDLE"},{"PATH":"/etc/passwd"}]}}',
]
"""Params that one parser reads as a path for a tool with an adapter, another one not."""


def test_no_spelling_brings_a_path_to_a_tool_that_takes_files(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with (
        serving(tmp_path, file_server("files", f"--journal={journal}")) as gateway,
        StreamablePeer(gateway, "files") as peer,
    ):
        handle = upload(peer, b"a file")
        for number, smuggled in enumerate(SMUGGLED):
            params = smuggled.replace("HANDLE", handle)
            body = f'{{"jsonrpc":"2.0","id":{100 + number},"method":"tools/call","params":{params}}}'
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            http_request("POST", gateway.url("files"), body.encode(), {**headers, **peer.headers_for({})})
        calls = [line for line in journal.read_text().splitlines() if '"tools/call"' in line]
    wired = [line for line in calls if '"name":"plain"' not in line]
    assert not [line for line in wired if "/etc/passwd" in line]
    assert not [line for line in calls if '"name":"measure' in line and '"name":"plain"' in line]


def test_where_other_values_may_pass_their_shape_is_free(tmp_path: Path) -> None:
    deep = {"type": "upload_consumer", "tools": ["measure_deep"], "file_path_argument": "items[*].path"}
    server = file_server(adapters=[{**deep, "accept_other_values": True}])
    with serving(tmp_path, server) as gateway, StreamablePeer(gateway, "files") as peer:
        assert "failed: TypeError" in said(peer.tool("measure_deep", {"items": ["/etc/passwd"]}))


# What a tool may not hand over: W1


def test_w1_nothing_but_the_scopes_own_files_is_captured(gateway: Gateway, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("top secret")
    with StreamablePeer(gateway, "files") as peer, StreamablePeer(gateway, "files") as victim:
        view = scope_folder(gateway, peer)
        theirs = scope_folder(gateway, victim)
        stolen = next(path for path in theirs.rglob("report.txt"))
        state = gateway.folder / "data/files/state.sqlite3"
        blob = next(path for path in (gateway.folder / "data/files/blobs").rglob("*") if path.is_file())
        (view / "out" / "link").symlink_to(secret)
        (view / "out" / "folder").symlink_to(tmp_path)
        (view / "out" / "mine.txt").write_text("mine")
        for target in (
            *(secret, state, stolen, blob, "/etc/passwd", "/proc/self/environ", "/dev/zero"),
            *(view / "out" / "link", view / "out" / "folder" / "secret.txt", view / "out"),
            f"{view}/out/../../{theirs.name}/in/{stolen.parent.name}/report.txt",
            f"{view}/../{theirs.name}/in/{stolen.parent.name}/report.txt",
            f"file://{secret}",
        ):
            result = peer.tool("act", {"do": "name", "target": str(target)})
            assert "artifact" not in result.get("_meta", {}), target
        named = peer.tool("act", {"do": "name", "target": str(view / "out" / "mine.txt")})
        assert named["_meta"]["artifact"]["size_bytes"] == 4  # so the others were refused for a reason


@pytest.mark.parametrize("what", ["symlink", "hardlink", "fifo", "folder-link"])
def test_links_and_pipes_are_not_followed(gateway: Gateway, tmp_path: Path, what: str) -> None:
    # On the same file system, or there could be no hard link.
    secret = gateway.folder / f"secret-{what}.txt"
    secret.write_text("top secret")
    with StreamablePeer(gateway, "files") as peer:
        result = peer.tool("act", {"do": what, "filename": "made.txt", "target": str(secret)})
        assert "artifact" not in result.get("_meta", {})
        assert "top secret" not in str(result)


def test_a_tool_cannot_change_what_was_uploaded(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        handle = upload(peer, b"original")
        path = said(peer.tool("measure", {"path": handle})).split(" ", 2)[2]
        peer.tool("act", {"do": "modify", "target": path})
        assert Path(path).read_text() == "changed by a tool"
        digest = said(peer.tool("measure", {"path": handle})).split()[1]
        assert digest == hashlib.sha256(b"original").hexdigest()


# One bad upload: W2, W3, W4


NAMES = [
    "a" * 300, "ü" * 300, "../../etc/passwd", "..\\..\\evil.exe", "CON", "nul.txt", ".", "..", "", " ", "...",
    "a/b/c.txt", "x\x00y", "a\u202egpj.exe", "\u2028line", "'; DROP TABLE files; --", "名前.txt",
    "a" * 250 + ".tar.gz",
]  # fmt: skip


def test_w2_no_name_does_any_harm(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        about = upload_url(peer)
        for name in NAMES:
            answered = post(about, (name.replace('"', ""), b"data"))
            assert answered.status in (200, 400), (name, answered.body)
            if answered.status == 200:
                [made] = answered.json["uploads"]
                assert "/" not in made["filename"]
                assert len(made["filename"].encode()) <= 200
                path = said(peer.tool("measure", {"path": made["upload_handle"]})).split(" ", 2)[2]
                assert Path(path).parent.parent.name == "in"
        assert not peer.tool("measure", {"path": upload(peer, b"still works")}).get("isError")


def test_w3_w4_headers_make_no_sessions_and_no_folders(gateway: Gateway) -> None:
    def rows() -> int:
        state = gateway.folder / "data/files/state.sqlite3"
        connection = sqlite3.connect(f"file:{state}?mode=ro", uri=True)
        try:
            return connection.execute("SELECT COUNT(*) FROM files").fetchone()[0]
        finally:
            connection.close()

    before = rows(), gateway.status("files")["sessions"]
    body, kind = form(("a.txt", b"data"))
    for number in range(200):
        headers = {"Mcp-Session-Id": f"../../state/wicked-{number}", "Content-Type": kind}
        assert http_request("POST", f"{gateway.address}/upload/files", body, headers).status == 403
    assert (rows(), gateway.status("files")["sessions"]) == before
    assert not list(gateway.folder.rglob("*wicked*"))


def test_paths_lead_nowhere_else(gateway: Gateway) -> None:
    for path in (
        *("/upload/", "/upload", "/upload/nowhere", "/upload/files/../others", "/upload/%2e%2e/files"),
        *("/upload/files/a/b", "/artifacts/", "/artifacts/files/x/y/z", "/artifacts/files/..%2f/a/b"),
        *("/files/once/x/y", "/files/once/", "/upload/files/resumable/../../state"),
    ):
        for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
            assert http_request(method, gateway.address + path).status in (400, 403, 404, 405), (method, path)


# Wiring: W6, W14


def test_w6_w14_a_missing_tool_is_refused_and_reported(tmp_path: Path) -> None:
    with serving(tmp_path, file_server("files", "--hide=measure")) as gateway:
        health = eventually(lambda: _incomplete(gateway), "the wiring to be reported")
        assert "`files`" in health
        assert "`measure`" in health
        assert gateway.get("/healthz")["status"] == "degraded"
        with StreamablePeer(gateway, "files") as peer:
            with pytest.raises(RpcRefused, match="has no tool `measure`"):
                peer.tool("measure", {"path": "/etc/passwd"})
            assert not peer.tool("measure_all", {"paths": [upload(peer, b"x")]}).get("isError")
            peer.tool("plain", {"hide": ["write"]})
            assert not peer.tool("measure", {"path": upload(peer, b"x")}).get("isError")
            with pytest.raises(RpcRefused, match="has no tool `write`"):
                peer.tool("write", {"filename": str(tmp_path / "raw.txt")})
            assert not (tmp_path / "raw.txt").exists()
            assert "`write`" in (_incomplete(gateway) or "")
            peer.tool("plain", {"hide": [""]})
            assert peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]
            assert gateway.get("/healthz")["status"] == "ok"


def _incomplete(gateway: Gateway) -> str | None:
    reasons = gateway.get("/healthz")["servers"]["files"]["reasons"]
    found = [reason for reason in reasons if reason.startswith("adapter_wiring_incomplete")]
    return found[0] if found else None


def test_w6_a_server_that_comes_late_is_wired_then(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = {"id": "files", "upstream": {"url": f"http://127.0.0.1:{port}/mcp"}, "adapters": ADAPTERS}
    with serving(tmp_path, server) as gateway:
        assert eventually(lambda: _incomplete(gateway), "the wiring to be reported")
        command = [sys.executable, "-S", SERVER, f"--http={port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                with StreamablePeer(gateway, "files") as peer:
                    result = peer.tool("measure", {"path": "/etc/passwd"})
                    assert "must be an `upload://` handle" in said(result)
                    assert not peer.tool("measure", {"path": upload(peer, b"x")}).get("isError")
                assert _incomplete(gateway) is None
            finally:
                process.kill()


# W7: an error text is not a lost session


def test_w7_the_words_of_an_error_repeat_nothing(gateway: Gateway, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with StreamablePeer(gateway, "files") as peer:
        result = peer.tool("act", {"do": "error", "filename": "x", "target": str(ran)})
        assert result["isError"]
        assert said(result).count("invalid session") == 1
        assert ran.read_text() == "ran\n"


# Limits: quotas, floods, slowness


def test_quotas_hold_while_bytes_arrive(tmp_path: Path) -> None:
    limits = {
        "uploads": {"max_file_bytes": 1000, "max_files": 3},
        "sessions": {"max_total_session_size": 2500},
        "storage": {"root": str(tmp_path / "data"), "max_size": 4000},
    }
    with serving(tmp_path, **limits) as gateway:
        with StreamablePeer(gateway, "files") as one, StreamablePeer(gateway, "files") as two:
            assert post(upload_url(one), ("a", b"x" * 1001)).status == 413
            assert post(upload_url(one), *[("a", b"x")] * 4).status == 400
            assert post(upload_url(one), ("a", b"x" * 1000), ("b", b"x" * 1000)).status == 200
            assert post(upload_url(one), ("a", b"x" * 900)).status == 507
            assert post(upload_url(one), ("a", b"x" * 400)).status == 200
            assert post(upload_url(two), ("a", b"x" * 1000), ("b", b"x" * 700)).status == 507
            assert post(upload_url(two), ("a", b"x" * 1000)).status == 200
            result = one.tool("write", {"filename": "big.txt", "text": "x" * 200})
            assert "artifact" not in result.get("_meta", {})
            assert "may keep" in said(result)
        with StreamablePeer(gateway, "files") as three:  # what ended sessions had is free again
            eventually(
                lambda: post(upload_url(three), ("a", b"x" * 1000)).status == 200, "the room to be free"
            )


def test_a_chunked_body_cannot_hide_its_size(tmp_path: Path) -> None:
    with serving(tmp_path, uploads={"max_file_bytes": 100_000}) as gateway:
        with ModernHttpPeer(gateway, "files") as peer:
            url = upload_url(peer)["upload_url"]
            sent = 0

            def endless() -> Iterator[bytes]:
                nonlocal sent
                while sent < 100_000_000:
                    sent += 65536
                    yield b"x" * 65536

            # It may close the door while we are still talking.
            with suppress(BrokenPipeError, ConnectionResetError):
                assert http_request("PUT", url, endless()).status == 413
            assert sent < 20_000_000
        assert not list((gateway.folder / "data/files/incoming").iterdir())


def beginning(parts: SplitResult) -> bytes:
    """An upload whose end never comes."""
    line = f"PUT {parts.path}?{parts.query} HTTP/1.1"
    return f"{line}\r\nHost: {parts.netloc}\r\nContent-Length: 1000\r\n\r\nx".encode()


def test_a_slow_sender_holds_up_nobody(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        parts = urlsplit(upload_url(peer)["upload_url"])
        slow: list[socket.socket] = []
        try:
            for _ in range(20):
                connection = socket.create_connection((parts.hostname, parts.port), 10)
                connection.sendall(beginning(parts))
                slow.append(connection)
            assert not peer.tool("measure", {"path": upload(peer, b"meanwhile")}).get("isError")
        finally:
            for connection in slow:
                connection.close()


def test_one_scope_cannot_send_without_end_at_once(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        about = upload_url(peer)
        parts = urlsplit(about["upload_url"])
        busy = [socket.create_connection((parts.hostname, parts.port), 10) for _ in range(8)]
        try:
            for connection in busy:
                connection.sendall(beginning(parts))
            answered = eventually(
                lambda: a if (a := post(about, ("a", b"b"))).status == 429 else None, "the limit to be felt"
            )
            assert "wait" in answered.json["error"]
        finally:
            for connection in busy:
                connection.close()
        eventually(lambda: post(about, ("a", b"b")).status == 200, "the others to be over")


def test_a_full_disk_is_said_and_passes(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        storage = {"root": str(disk / "data")}
        with serving(tmp_path, storage=storage) as gateway, StreamablePeer(gateway, "files") as peer:
            assert post(upload_url(peer), ("a", b"x" * 8_000_000)).status == 507
            assert not peer.tool("measure", {"path": upload(peer, b"small")}).get("isError")
            result = peer.tool("write", {"filename": "big", "text": "x" * 5_000_000})
            assert "artifact" not in result.get("_meta", {})
            assert not peer.tool("measure", {"path": upload(peer, b"small again")}).get("isError")
            assert gateway.get("/healthz")["status"] == "ok"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_under_the_state_is_said_and_passes(tmp_path: Path) -> None:
    disk, shared = tmp_path / "disk", tmp_path / "shared"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        server = file_server(files={"shared_directory": str(shared)})
        storage = {"root": str(disk / "data")}
        with serving(tmp_path, server, storage=storage) as gateway, StreamablePeer(gateway, "files") as peer:
            assert peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]
            with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                while filler.write(b"x" * 4096):
                    pass
            text = "y" * 100_000  # more than what is left in pages that the state has already
            refused = said(peer.tool("write", {"filename": "a.txt", "text": text}))
            assert "disk is full" in refused
            assert post(upload_url(peer), ("a", text.encode())).status == 507
            with StreamablePeer(gateway, "files") as other:
                told = {said(other.tool("files_get_upload_url", {"note": text})) for _ in range(3)}
                assert all("disk is full" in words or "upload_url" in words for words in told), told
            (disk / "filler").unlink()
            again = peer.tool("write", {"filename": "a.txt", "text": text})
            assert again["_meta"]["artifact"]["size_bytes"] == len(text)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """As the system leaves a disk that had a fault."""
    bind = ["mount", "--bind", str(folder), str(folder)]
    if subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("a disk that cannot be written needs the right to mount one")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    with (
        serving(tmp_path, results={"max_inline_bytes": 1000}) as gateway,
        StreamablePeer(gateway, "files") as peer,
        ModernHttpPeer(gateway, "files") as modern,
    ):
        about = upload_url(peer)
        with read_only(tmp_path / "data/files"):
            for answered in (
                post(about, ("a", b"x")),
                http_request("PUT", about["upload_url"], b"x"),
                http_request(
                    "POST", about["upload_url"], b"", {"Tus-Resumable": "1.0.0", "Upload-Length": "9"}
                ),
            ):
                assert (answered.status, "tell whoever runs it" in answered.json["error"]) == (503, True)
            assert said(peer.tool("plain", {"text": "y" * 5000})) == "y" * 5000
            assert "tell whoever runs it" in said(modern.tool("write", {"filename": "a.txt"}))
        assert "Read-only file system" in gateway.log()
        assert "Traceback" not in gateway.log()
        assert post(about, ("a", b"x")).status == 200


# Time


def test_what_is_late_is_told_so(tmp_path: Path) -> None:
    short = {"uploads": {"ttl_seconds": 1, "link_ttl_seconds": 1}, "artifacts": {"ttl_seconds": 1}}
    with serving(tmp_path, **short) as gateway, StreamablePeer(gateway, "files") as peer:
        about = upload_url(peer)
        handle = post(about, ("a", b"x")).json["upload_handle"]
        made = peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]
        blobs = gateway.folder / "data/files/blobs"
        eventually(lambda: not list(blobs.glob("*/*")), "the files to be removed", limit=30)
        assert "expired" in said(peer.tool("measure", {"path": handle}))
        assert http_request("GET", made["download_url"]).status == 410
        assert post(about, ("a", b"x")).status == 410
        assert not [path for path in (gateway.folder / "data/files/views").rglob("*") if path.is_file()]


def test_a_file_does_not_expire_under_a_call_that_uses_it(tmp_path: Path) -> None:
    with serving(tmp_path, uploads={"ttl_seconds": 1}) as gateway, StreamablePeer(gateway, "files") as peer:
        handle, other = (
            post(upload_url(peer), (name, b"four")).json["upload_handle"] for name in ("used", "not used")
        )
        slow = peer.start_tool("measure", {"path": handle, "sleep": 4})
        blobs = gateway.folder / "data/files/blobs"
        eventually(lambda: not (blobs / other[-32] / other[-32:]).exists(), "the other one to expire")
        assert said(slow.result()).startswith("4 ")
        eventually(lambda: not list(blobs.glob("*/*")), "this one to expire, too")


def test_two_calls_on_one_handle(gateway: Gateway) -> None:
    data = os.urandom(2_000_000)
    with StreamablePeer(gateway, "files") as peer:
        handle = upload(peer, data)
        calls = [peer.start_tool("measure", {"path": handle}) for _ in range(8)]
        digests = {said(call.result()).split()[1] for call in calls}
    assert digests == {hashlib.sha256(data).hexdigest()}


def test_an_artifact_that_is_still_written_is_whole_or_not_there(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, StreamablePeer(gateway, "files") as peer:
        view = scope_folder(gateway, peer)
        target = view / "out" / "growing.txt"
        target.write_text("start")
        stop = threading.Event()

        def grow() -> None:
            with target.open("a") as file:
                while not stop.wait(0.001):
                    file.write("x" * 1000)
                    file.flush()

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            result = peer.tool("act", {"do": "name", "target": str(target)})
        finally:
            stop.set()
            thread.join(5)
        about = result.get("_meta", {}).get("artifact")
        if about is None:
            assert "still being written" in said(result)
        else:
            body = http_request("GET", about["download_url"]).body
            assert (len(body), hashlib.sha256(body).hexdigest()) == (about["size_bytes"], about["sha256"])


def test_everything_acknowledged_survives_the_death_of_the_gateway(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, ModernHttpPeer(gateway, "files") as peer:
        handle = upload(peer, b"durable")
        made = peer.tool("write", {"filename": "a.txt", "text": "kept"})["_meta"]["artifact"]
        gateway.process.kill()
        gateway.process.wait(10)
    with serving(tmp_path) as gateway, ModernHttpPeer(gateway, "files") as peer:
        assert said(peer.tool("measure", {"path": handle})).startswith("7 ")
        url = f"{gateway.address}/{made['download_url'].split('/', 3)[3]}"
        assert http_request("GET", url).body == b"kept"


# Size


def test_many_small_files(tmp_path: Path) -> None:
    with serving(tmp_path, uploads={"max_files": 1000}) as gateway, ModernHttpPeer(gateway, "files") as peer:
        about = upload_url(peer)
        files = [(f"{number}.txt", str(number).encode()) for number in range(1000)]
        handles = [handle for _ in range(10) for handle in post(about, *files).json["upload_handles"]]
        assert len(set(handles)) == 10_000
        assert said(peer.tool("measure", {"path": handles[7234]})).startswith("3 ")


def test_memory_stays_flat_for_a_gigabyte(tmp_path: Path) -> None:
    size = 1024**3
    block = os.urandom(1024**2)
    digest = hashlib.sha256()

    def body() -> Iterator[bytes]:
        for _ in range(size // len(block)):
            digest.update(block)
            yield block

    settings = {"uploads": {"max_file_bytes": "1Gi"}}
    with serving(tmp_path, **settings) as gateway, ModernHttpPeer(gateway, "files") as peer:
        url = upload_url(peer)["upload_url"]
        before = memory_bytes(gateway.process.pid)
        most = [before]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                most.append(memory_bytes(gateway.process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            [sent] = http_request("PUT", url, body()).json["uploads"]
        finally:
            done.set()
            watcher.join(5)
        assert (sent["size_bytes"], sent["sha256"]) == (size, digest.hexdigest())
        assert max(most) - before < 32 * 1024**2


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_text_on_which_a_pattern_never_ends_holds_up_nobody(tmp_path: Path, era: str) -> None:
    locator = {"mode": "regex", "output_path_regexes": ["(/(?:a+)+)$"]}
    adapters = [{"type": "artifact_producer", "tools": ["say"], "output_locator": locator}]
    with serving(tmp_path, file_server(adapters=adapters)) as gateway, PEERS[era](gateway, "files") as peer:
        slow = peer.start_tool("say", {"text": f"/{'a' * 60}!"})
        for _ in range(3):
            assert said(peer.tool("plain")) == "plain"
        assert "`output_path_regexes` take too long" in said(slow.result(30))


def test_no_text_makes_our_own_pattern_slow(peer: Peer) -> None:
    for text in ("/," * 120_000, "/a" * 120_000, "/" * 240_000, " /a,;" * 50_000):
        assert said(peer.tool("say", {"text": text})) == text


@pytest.mark.parametrize("path", ["/upload/files", "/artifacts/files/a/b/c"])
def test_a_link_with_more_in_it_than_ours_have_is_refused(gateway: Gateway, path: str) -> None:
    many = "&".join(f"n{number}=1" for number in range(50))
    assert http_request("GET", f"{gateway.address}{path}?{many}").status in (403, 404)
    assert "Traceback" not in gateway.log()
