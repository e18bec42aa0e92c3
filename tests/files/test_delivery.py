"""What a tool gets in place of a handle, for workloads of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import (
    PEERS,
    SERVER,
    file_server,
    http_request,
    post,
    said,
    serving,
    upload,
    upload_url,
)
from tests.support.gateway import Gateway, running_process
from tests.support.peers import Peer, RpcRefused, StreamablePeer

DATA = b"handed over"
WAYS = ["base64", "data_uri", "url"]


def consumer(tool: str, argument: str, **more: Any) -> dict[str, Any]:
    return {"type": "upload_consumer", "tools": [tool], "file_path_argument": argument, **more}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("delivery")
    servers = [{**file_server(way), "adapters": [consumer("take", "value", delivery=way)]} for way in WAYS]
    servers.append({**file_server("file_uri"), "adapters": [consumer("measure", "path", uri_prefix=True)]})
    lenient = consumer("take", "value", delivery="base64", accept_other_values=True)
    servers.append({**file_server("open"), "adapters": [lenient]})
    with running_process(["python3", "-S", SERVER, "--http=0"]) as url:
        shared = {"shared_directory": str(folder / "shared"), "mounted_at": str(folder / "mounted")}
        (folder / "shared").mkdir()
        (folder / "mounted").symlink_to(folder / "shared")
        remote = {"id": "remote", "upstream": {"url": url}, "files": shared}
        servers.append({**remote, "adapters": [consumer("measure", "path")]})
        unseen = {"id": "unseen", "upstream": {"url": url}, "files": {"reachable": False}}
        servers.append({**unseen, "adapters": [consumer("take", "value")]})
        with serving(folder, *servers) as found:
            yield found


def handle_for(peer: Peer, server: str) -> str:
    return post(upload_url(peer, server), ("note.txt", DATA)).json["upload_handle"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("server", "begins"),
    [("base64", "base64 11"), ("data_uri", "data 11 data:text/plain"), ("url", "url 11 http://127.0.0.1")],
)
def test_inline_and_by_url(gateway: Gateway, era: str, server: str, begins: str) -> None:
    with PEERS[era](gateway, server) as peer:
        assert said(peer.tool("take", {"value": handle_for(peer, server)})).startswith(begins)


def test_a_url_works_once(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "url") as peer:
        url = said(peer.tool("take", {"value": handle_for(peer, "url")})).split()[2]
    again = http_request("GET", url)
    assert again.status in (404, 410)
    assert DATA not in again.body
    assert http_request("GET", url.replace("/once/", "/once/x")).status == 403


def test_as_a_file_uri(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "file_uri") as peer:
        shown = said(peer.tool("measure", {"path": handle_for(peer, "file_uri")})).split()[2]
    assert shown.startswith("file:///")


def test_other_values_pass_where_they_may(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "open") as peer:
        assert said(peer.tool("take", {"value": "YWJj"})) == "base64 3"
        assert said(peer.tool("take", {"value": handle_for(peer, "open")})) == "base64 11"
        assert "must be an `upload://` handle" in said(peer.tool("take", {"value": "upload://nonsense"}))


def test_a_shared_folder_is_named_as_the_server_sees_it(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "remote") as peer:
        size, _, path = said(peer.tool("measure", {"path": handle_for(peer, "remote")})).split(" ", 2)
    assert size == "11"
    assert Path(path).is_relative_to(gateway.folder / "mounted")


def test_a_server_that_cannot_see_our_files_gets_a_url(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "unseen") as peer:
        assert said(peer.tool("take", {"value": handle_for(peer, "unseen")})).startswith("url 11 ")


def test_w8_calls_count_until_they_have_ended(tmp_path: Path) -> None:
    limit = {"max_in_flight_per_session": 2}
    with (
        serving(tmp_path, file_server(), sessions=limit) as gateway,
        StreamablePeer(gateway, "files") as peer,
        StreamablePeer(gateway, "files") as other,
    ):
        slow = [peer.start_tool("plain", {"sleep": 1.5}) for _ in range(2)]
        with pytest.raises(RpcRefused, match="2 calls running already"):
            peer.tool("plain")
        assert said(other.tool("plain")) == "plain"
        assert [said(call.result()) for call in slow] == ["plain", "plain"]
        assert said(peer.tool("plain")) == "plain"
        assert not peer.tool("measure", {"path": upload(peer, b"x")}).get("isError")
