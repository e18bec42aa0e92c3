"""A gateway that ends and comes back: sessions that have files are there again, those that ended are not."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import (
    Answered,
    file_server,
    form,
    http_request,
    post,
    said,
    serving,
    upload,
    upload_url,
)
from tests.files.test_files_door import Keyed, KeyedLegacyPeer, keys_in
from tests.support.gateway import Gateway
from tests.support.peers import StreamablePeer
from tests.support.waiting import eventually

Json = dict[str, Any]
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def ask(
    gateway: Gateway,
    session: str,
    method: str,
    server: str = "files",
    headers: dict[str, str] | None = None,
    **params: Any,
) -> Answered:
    """A request in a session that somebody began before."""
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
    return http_request(
        "POST", gateway.url(server), body, {**HEADERS, "Mcp-Session-Id": session, **(headers or {})}
    )


def result(answered: Answered) -> Json:
    assert answered.status == 200, answered.body
    *_, last = answered.body.decode().strip().split("data: ")
    return json.loads(last)["result"]


def call(gateway: Gateway, session: str, tool: str, **arguments: Any) -> Json:
    return result(ask(gateway, session, "tools/call", name=tool, arguments=arguments))


def moved(url: str, gateway: Gateway) -> str:
    """The same address at a gateway that listens on another port."""
    return f"{gateway.address}/{url.split('/', 3)[3]}"


def end(gateway: Gateway, peer: StreamablePeer, how: signal.Signals = signal.SIGKILL) -> str:
    """The gateway ends while a session is open; its id."""
    session, peer.channel.session = peer.channel.session, None  # it does not say goodbye
    gateway.process.send_signal(how)
    gateway.process.wait(20)
    assert session is not None
    return session


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_session_finds_its_files_again(tmp_path: Path, how: signal.Signals) -> None:
    with serving(tmp_path) as gateway, StreamablePeer(gateway, "files") as peer:
        about = upload_url(peer)
        handle = upload(peer, b"seven b")
        made = peer.tool("write", {"filename": "a.txt", "text": "kept"})["_meta"]["artifact"]
        session = end(gateway, peer, how)
    with serving(tmp_path) as gateway:
        assert http_request("GET", moved(made["download_url"], gateway)).body == b"kept"
        about["upload_url"] = moved(about["upload_url"], gateway)
        later = post(about, ("b.txt", b"later")).json["uploads"][0]["upload_handle"]
        for path, size in ((handle, 7), (later, 5)):
            assert said(call(gateway, session, "measure", path=path)).startswith(f"{size} ")
        listed = result(ask(gateway, session, "resources/list"))["resources"]
        assert [entry["uri"] for entry in listed] == [made["artifact_uri"]]
        closed = http_request("DELETE", gateway.url("files"), headers={"Mcp-Session-Id": session})
        assert closed.status in (200, 204)
        assert ask(gateway, session, "ping").status == 404
        assert http_request("GET", moved(made["download_url"], gateway)).status == 410


def test_a_session_that_only_made_something_is_found_again(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, StreamablePeer(gateway, "files") as peer:
        uri = peer.tool("write", {"filename": "a.txt", "text": "kept"})["_meta"]["artifact"]["artifact_uri"]
        session = end(gateway, peer)
    with serving(tmp_path) as gateway:
        [read] = result(ask(gateway, session, "resources/read", uri=uri))["contents"]
        assert read["text"] == "kept"


def test_a_session_that_sent_files_by_its_own_id_is_found_again(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, StreamablePeer(gateway, "files") as peer:
        body, kind = form(("a.txt", b"seven b"))
        headers = {"Content-Type": kind, "Mcp-Session-Id": peer.channel.session or ""}
        sent = http_request("POST", f"{gateway.address}/upload/files", body, headers)
        session = end(gateway, peer)
    with serving(tmp_path) as gateway:
        found = call(gateway, session, "measure", path=sent.json["upload_handle"])
        assert said(found).startswith("7 ")


def test_what_ended_before_a_restart_stays_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway, StreamablePeer(gateway, "files") as peer:
        about = upload_url(peer)
        post(about, ("a.txt", b"a"))
        ended = http_request("DELETE", gateway.url("files"), headers=peer.headers_for({}))
        assert (ended.status, post(about, ("a.txt", b"a")).status) == (200, 410)
        session = end(gateway, peer)
    with serving(tmp_path) as gateway:
        about["upload_url"] = moved(about["upload_url"], gateway)
        late = post(about, ("a.txt", b"a"))
        assert (late.status, "has ended" in late.json["error"]) == (410, True)
        assert ask(gateway, session, "ping").status == 404


def test_only_its_own_server_knows_a_session_again(tmp_path: Path) -> None:
    servers = file_server(), file_server("others")
    with serving(tmp_path, *servers) as gateway, StreamablePeer(gateway, "files") as peer:
        upload(peer, b"mine")
        session = end(gateway, peer)
    with serving(tmp_path, *servers) as gateway:
        assert ask(gateway, session, "ping", "others").status == 404
        assert ask(gateway, f"{session[:-2]}AA", "ping").status == 404
        assert ask(gateway, session, "ping").status == 200


def test_only_its_owner_takes_a_session_up_again(tmp_path: Path) -> None:
    keys = keys_in(tmp_path, "alice", "bob")
    settings: Json = {"auth": {"mode": "api_key"}}
    with serving(tmp_path, **settings) as gateway:
        alice, bob = (Keyed(gateway, keys).headers(name) for name in ("alice", "bob"))
        with KeyedLegacyPeer(gateway, alice) as peer:
            handle = upload(peer, b"seven b")
            session = end(gateway, peer)
    with serving(tmp_path, **settings) as gateway:

        def status(headers: dict[str, str]) -> int:
            return ask(gateway, session, "ping", headers=headers).status

        assert [status({}), status(bob), status(alice), status(bob)] == [401, 404, 200, 404]
        found = ask(gateway, session, "tools/call", headers=alice, name="measure", arguments={"path": handle})
        assert said(result(found)).startswith("7 ")


def test_a_session_that_nobody_takes_up_again_ends(tmp_path: Path) -> None:
    settings: Json = {"sessions": {"idle_ttl_seconds": 2}, "artifacts": {"ttl_seconds": 1}}
    with serving(tmp_path, **settings) as gateway, StreamablePeer(gateway, "files") as peer:
        upload(peer, b"seven b")
        session = end(gateway, peer)
    assert list(tmp_path.glob("data/files/blobs/*/*"))
    with serving(tmp_path, **settings) as gateway:
        eventually(lambda: not list(tmp_path.glob("data/files/blobs/*/*")), "its file to go")
        assert ask(gateway, session, "ping").status == 404
