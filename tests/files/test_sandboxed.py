"""A process in a sandbox has its files wired, and nothing else of ours or of others is visible to it."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import (
    ADAPTERS,
    PEERS,
    SERVER,
    file_server,
    http_request,
    post,
    said,
    serving,
    upload_url,
)
from tests.files.test_restarts import call, end
from tests.support.gateway import Gateway
from tests.support.peers import ModernHttpPeer, Peer, StreamablePeer
from tests.support.waiting import eventually

Json = dict[str, Any]
LOOKS = {"type": "upload_consumer", "tools": ["look"], "file_path_argument": "beside"}

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is missing: run `apt-get install bubblewrap`"
)


def sandboxed(identifier: str, **more: Any) -> Json:
    server = file_server(identifier, adapters=[*ADAPTERS, LOOKS])
    server["workload"]["permission_profile"] = "none"
    return {**server, **more}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers = [
        sandboxed("boxed"),
        sandboxed("by-call", share="call"),
        {
            "id": "run-config",
            "run_config": {"mooring": {"command": [sys.executable, "-S", SERVER]}},
            "adapters": [*ADAPTERS, LOOKS],
        },
        sandboxed("elsewhere", files={"mounted_at": "/srv/exchange"}),
    ]
    with serving(tmp_path_factory.mktemp("sandboxed"), *servers) as found:
        yield found


def handle_for(peer: Peer, server: str, data: bytes, name: str = "note.txt") -> str:
    answered = post(upload_url(peer, server), (name, data))
    assert answered.status == 200, answered.body
    return answered.json["uploads"][0]["upload_handle"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("server", ["boxed", "by-call", "run-config"])
def test_files_go_into_the_sandbox_and_come_out(gateway: Gateway, era: str, server: str) -> None:
    with PEERS[era](gateway, server) as peer:
        handle = handle_for(peer, server, b"small words")
        size, _, path = said(peer.tool("measure", {"path": handle})).split(" ", 2)
        assert size == "11"
        assert path.startswith("/files/in/")
        made = peer.tool("convert", {"path": handle, "filename": "big.txt"})
        about = made["_meta"]["artifact"]
        assert about["artifact_uri"] in said(made)
        assert "/files/out" not in said(made)
        assert http_request("GET", about["download_url"]).body == b"SMALL WORDS"


def test_a_result_may_name_a_file_as_the_sandbox_calls_it(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "boxed") as peer:
        handle = handle_for(peer, "boxed", b"to be named")
        path = said(peer.tool("measure", {"path": handle})).split(" ", 2)[2]
        named = peer.tool("say", {"text": f"it is in {path}"})
        assert http_request("GET", named["_meta"]["artifact"]["download_url"]).body == b"to be named"
        assert said(named).startswith("it is in artifact://")
        for wrong in (f"{path}/../../../in/x", str(gateway.folder), "/files/out/../in", "/etc/passwd"):
            assert "_meta" not in peer.tool("say", {"text": f"it is in {wrong}"})


def test_the_place_inside_can_be_chosen(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "elsewhere") as peer:
        handle = handle_for(peer, "elsewhere", b"x")
        assert "/srv/exchange/in/" in said(peer.tool("measure", {"path": handle}))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_nothing_of_other_scopes_is_visible(gateway: Gateway, era: str) -> None:
    with PEERS[era](gateway, "boxed") as one, PEERS[era](gateway, "boxed") as two:
        first, second = handle_for(one, "boxed", b"first"), handle_for(two, "boxed", b"second")
        said(one.tool("measure", {"path": first}))
        seen = said(two.tool("look", {"path": "/files", "beside": second}))
        assert seen == f"/files/in/{second.rsplit('/', 1)[1]}/note.txt"
        seen = said(one.tool("look", {"path": "/files", "beside": first}))
        assert seen == f"/files/in/{first.rsplit('/', 1)[1]}/note.txt"
        for ours in (gateway.folder, gateway.folder / "data", gateway.folder.parent):
            assert said(two.tool("look", {"path": str(ours), "beside": second})) == ""


def test_uploads_cannot_be_written_nor_linked(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "boxed") as peer:
        handle = handle_for(peer, "boxed", b"as it was sent")
        path = said(peer.tool("measure", {"path": handle})).split(" ", 2)[2]
        refused = peer.tool("act", {"do": "modify", "target": path})
        assert refused["isError"], refused
        assert "Read-only" in said(refused) or "Permission" in said(refused)
        assert peer.tool("act", {"do": "hardlink", "target": path})["isError"]
        linked = peer.tool("act", {"do": "symlink", "target": path})
        assert "_meta" not in linked


def test_the_view_goes_with_its_session(gateway: Gateway) -> None:
    views = gateway.folder / "data/files/views/boxed"
    before = _names(views)
    with StreamablePeer(gateway, "boxed") as peer:
        peer.tool("plain")  # a process was started, and no file was carried
        assert len(_names(views) - before) == 1
    eventually(lambda: _names(views) <= before, "the view to be removed")


def test_a_call_of_nobody_has_a_view_of_its_own(gateway: Gateway) -> None:
    views = gateway.folder / "data/files/views/by-call"
    before = _names(views)
    with ModernHttpPeer(gateway, "by-call") as peer:
        for word in ("one", "two"):
            made = peer.tool("write", {"filename": f"{word}.txt", "text": word})
            assert http_request("GET", made["_meta"]["artifact"]["download_url"]).body == word.encode()
    eventually(lambda: _names(views) <= before | {"pool"}, "the views of single calls to be removed")


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_restart_gives_a_session_its_view_back(tmp_path: Path, how: signal.Signals) -> None:
    with serving(tmp_path, sandboxed("files")) as gateway, StreamablePeer(gateway, "files") as peer:
        handle = handle_for(peer, "files", b"seven b")
        assert said(peer.tool("measure", {"path": handle})).startswith("7 ")
        session = end(gateway, peer, how)
    with serving(tmp_path, sandboxed("files")) as gateway:
        assert "/files/in/" in said(call(gateway, session, "measure", path=handle))
        made = call(gateway, session, "write", filename="b.txt", text="later")
        assert made["_meta"]["artifact"]["filename"] == "b.txt"
