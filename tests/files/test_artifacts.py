"""A tool that makes a file hands it over, in both eras."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.files.conftest import Answered, Json, file_server, http_request, said, serving, upload
from tests.support.gateway import Gateway
from tests.support.peers import ModernHttpPeer, Peer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.locating import embedded, plain_path, replaced

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_what_a_tool_writes_is_named_three_ways(peer: Peer) -> None:
    result = peer.tool("write", {"filename": "../../out of here/Zeichnung ü.txt", "text": "drawn"})
    about = result["_meta"]["artifact"]
    assert about["filename"] == "Zeichnung ü.txt"
    assert (about["mime_type"], about["size_bytes"]) == ("text/plain", 5)
    [link] = [block for block in result["content"] if block["type"] == "resource_link"]
    assert link["uri"] == about["artifact_uri"]
    assert about["download_url"] in said(result)
    contents = peer.request("resources/read", {"uri": about["artifact_uri"]})["contents"]
    assert contents[0]["text"] == "drawn"


def test_the_path_on_our_side_does_not_show(peer: Peer, gateway: Gateway) -> None:
    result = peer.tool("write", {"filename": "a.txt"})
    assert said(result).startswith(f"wrote {result['_meta']['artifact']['artifact_uri']} and nothing else")
    assert str(gateway.folder) not in str(result)


@pytest.mark.parametrize(
    ("settings", "adapter"),
    [({"artifacts": {"max_file_bytes": 1}}, {}), ({}, {"persist": False})],
)
def test_nor_when_nothing_was_kept(tmp_path: Path, settings: Json, adapter: Json) -> None:
    made = {"type": "artifact_producer", "tools": ["write"], "output_path_argument": "filename", **adapter}
    with (
        serving(tmp_path, file_server(adapters=[made]), **settings) as gateway,
        StreamablePeer(gateway, "files") as peer,
    ):
        result = peer.tool("write", {"filename": "some/a page.txt"})
        assert said(result).startswith("wrote a page.txt and nothing else")
        assert "artifact" not in result.get("_meta", {})


def test_one_call_may_make_several(peer: Peer) -> None:
    result = peer.tool("write", {"filename": "a.txt", "count": 3})
    names = [about["filename"] for about in result["_meta"]["artifacts"]]
    assert names == ["a.txt", "a-1.txt", "a-2.txt"]
    assert result["_meta"]["artifact"] == result["_meta"]["artifacts"][0]


def test_what_is_too_many_to_keep_is_said(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        result = peer.tool("write", {"filename": "a.txt", "count": 102})
        assert len(result["_meta"]["artifacts"]) == 100
        assert "Only the first 100 files were kept" in said(result)
        assert str(gateway.folder) not in said(result)


def test_a_tool_may_take_and_make(peer: Peer) -> None:
    handle = upload(peer, b"quiet words")
    result = peer.tool("convert", {"path": handle, "filename": "loud.txt"})
    uri = result["_meta"]["artifact"]["artifact_uri"]
    assert peer.request("resources/read", {"uri": uri})["contents"][0]["text"] == "QUIET WORDS"
    again = peer.tool("measure", {"path": uri})
    assert said(again).startswith("11 ")


def test_an_embedded_image_becomes_an_artifact(peer: Peer) -> None:
    result = peer.tool("embed", {"text": "not really an image"})
    about = result["_meta"]["artifact"]
    assert about["size_bytes"] == len("not really an image")
    assert result["content"][0]["type"] == "image"


def test_a_session_lists_its_artifacts_and_hears_of_new_ones(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer, StreamablePeer(gateway, "files") as stranger:
        assert peer.introduction["capabilities"]["resources"]["listChanged"] is True
        peer.watch()
        uri = peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]["artifact_uri"]
        peer.wait_for("notifications/resources/list_changed")
        assert [item["uri"] for item in peer.request("resources/list")["resources"]] == [uri]
        assert stranger.request("resources/list")["resources"] == []
        with pytest.raises(RpcRefused) as refused:
            stranger.request("resources/read", {"uri": uri})
        assert refused.value.code == -32002


def test_an_anonymous_modern_client_lists_nothing_but_reads_what_it_knows(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "files") as peer:
        uri = peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]["artifact_uri"]
        assert peer.request("resources/list")["resources"] == []
        assert peer.request("resources/read", {"uri": uri})["contents"]
        with pytest.raises(RpcRefused) as refused:
            peer.request("resources/read", {"uri": uri.replace("a.txt", "b.txt")})
        assert refused.value.code == -32602


def test_a_resource_can_be_read_in_ranges(peer: Peer) -> None:
    uri = peer.tool("write", {"filename": "a.txt", "text": "0123456789"})["_meta"]["artifact"]["artifact_uri"]
    [part] = peer.request("resources/read", {"uri": f"{uri}?offset=3&length=4"})["contents"]
    assert part["text"] == "3456"
    assert part["_meta"] == {"offset": 3, "length": 4, "total": 10}


def _download(peer: Peer, text: str = "0123456789") -> tuple[str, Answered]:
    about = peer.tool("write", {"filename": "report.txt", "text": text})["_meta"]["artifact"]
    return about["download_url"], http_request("GET", about["download_url"])


def test_a_download_is_whole_and_safe(peer: Peer) -> None:
    _, answered = _download(peer)
    assert (answered.status, answered.body) == (200, b"0123456789")
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    assert answered.headers["Content-Disposition"].startswith("attachment;")
    assert answered.headers["ETag"] == f'"{hashlib.sha256(b"0123456789").hexdigest()}"'


RANGES = [
    ("bytes=2-4", 206, b"234"),
    ("bytes=7-", 206, b"789"),
    ("bytes=-3", 206, b"789"),
    ("bytes=0-100", 206, b"0123456789"),
    ("bytes=10-", 416, b""),
    ("bytes=5-2", 416, b""),
    ("bytes=0-1,3-4", 200, b"0123456789"),
    ("lines=1-2", 200, b"0123456789"),
]


def test_ranges(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        url, _ = _download(peer)
        answers = [http_request("GET", url, headers={"Range": asked}) for asked, _, _ in RANGES]
    assert [(answer.status, answer.body) for answer in answers] == [wanted[1:] for wanted in RANGES]


def test_what_has_not_changed_is_not_sent_again(peer: Peer) -> None:
    url, answered = _download(peer)
    tag = answered.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"another", {tag}', "*"):
        again = http_request("GET", url, headers={"If-None-Match": known})
        assert (again.status, again.body) == (304, b"")
    assert http_request("GET", url, headers={"If-None-Match": '"another"'}).status == 200
    head = http_request("HEAD", url)
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "10")


def test_half_a_character_costs_no_result(peer: Peer) -> None:
    text = "\ud800 and more"
    result = peer.tool("write", {"filename": "a.txt", "say": text, "structured": {"odd": "\udfff"}})
    assert result["_meta"]["artifact"]["filename"] == "a.txt"
    assert result["content"][0] == {"type": "text", "text": text}
    assert result["structuredContent"] == {"odd": "\udfff"}
    assert said(peer.tool("say", {"text": text})) == text


def test_the_file_that_was_asked_for_is_named_first(peer: Peer) -> None:
    """Many hosts read `_meta.artifact` alone."""
    for name, count in (("report.txt", 2), ("many.txt", 12), ("most.txt", 101)):
        result = peer.tool("write", {"filename": name, "count": count})
        assert result["_meta"]["artifact"]["filename"] == name
        assert len(result["_meta"]["artifacts"]) == min(count, 100)
        assert result["_meta"]["artifacts"][0] == result["_meta"]["artifact"]
        links = [block["name"] for block in result["content"] if block["type"] == "resource_link"]
        assert links[0] == name


def test_a_link_may_be_spelled_in_another_way(peer: Peer) -> None:
    """Some clients write signs in a path as they are that we encode, and the other way round."""
    about = peer.tool("write", {"filename": "it's ~ (1).txt", "text": "here"})["_meta"]["artifact"]
    url = about["download_url"]
    assert "it%27s%20~%20%281%29.txt?" in url
    for spelled in ("it's%20~%20(1).txt", "%69t%27s%20%7E%20%281%29.txt"):
        answered = http_request("GET", url.replace("it%27s%20~%20%281%29.txt", spelled))
        assert (answered.status, answered.body) == (200, b"here")


FORGERIES: list[Callable[[str], str]] = [
    lambda url: url[:-1] + ("0" if url[-1] != "0" else "1"),
    lambda url: url.replace("expires=", "expires=9"),
    lambda url: url.replace("report.txt", "other.txt"),
    lambda url: url.partition("?")[0],
    lambda url: url.replace("expires=", "expires=-"),
    lambda url: url.replace("expires=", "expires=%C2%B2"),
    lambda url: url.replace("/artifacts/files/", "/artifacts/others/"),
    lambda url: url.replace("/artifacts/files/", "/artifacts/files/../files/"),
    lambda url: url.replace("report.txt", "..%2Freport.txt"),
]


def test_a_forged_link_is_refused(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        url, _ = _download(peer)
        for forge in FORGERIES:
            answered = http_request("GET", forge(url))
            assert answered.status in (403, 404), forge(url)
            assert b"0123456789" not in answered.body


def test_adapters_do_what_they_say(tmp_path: Path) -> None:
    def producer(tool: str, **more: object) -> dict[str, object]:
        return {"type": "artifact_producer", "tools": [tool], "output_path_argument": "filename", **more}

    server = file_server()
    server["adapters"] = [
        producer("write", allow_raw_output=True, persist=False),
        producer("convert", expose_as_resource=False),
        {
            "type": "artifact_producer",
            "tools": ["say"],
            "output_locator": {"mode": "structured", "output_path_key": "file.path"},
        },
    ]
    core = {"allow_artifacts_download": False}
    with serving(tmp_path, server, core=core) as gateway, StreamablePeer(gateway, "files") as peer:
        result = peer.tool("write", {"filename": "a.txt", "text": "shown"})
        assert "_meta" not in result
        [block] = [block for block in result["content"] if block["type"] == "resource"]
        assert block["resource"]["text"] == "shown"
        assert peer.request("resources/list")["resources"] == []

        source = tmp_path / "source.txt"
        source.write_text("abc")
        result = peer.tool("convert", {"path": str(source), "filename": "b.txt"})
        about = result["_meta"]["artifact"]
        assert "download_url" not in about
        assert about["expose_as_resource"] is False
        assert [block["type"] for block in result["content"]] == ["text"]
        with pytest.raises(RpcRefused):
            peer.request("resources/read", {"uri": about["artifact_uri"]})

        view = next((gateway.folder / "data/files/views/files").iterdir())
        (view / "in" / "kept.txt").write_text("by name")
        given = {"file": {"path": str(view / "in" / "kept.txt"), "size": 7}}
        result = peer.tool("say", {"text": f"{view}/in/kept.txt", "structured": given})
        uri = result["_meta"]["artifact"]["artifact_uri"]
        assert result["structuredContent"] == {"file": {"path": uri, "size": 7}}


def test_w11_without_artifacts_nothing_is_captured_or_kept(tmp_path: Path) -> None:
    target = tmp_path / "written.txt"
    with serving(tmp_path, artifacts={"enabled": False}) as gateway, StreamablePeer(gateway, "files") as peer:
        assert "resources" not in peer.introduction["capabilities"]
        result = peer.tool("write", {"filename": str(target), "text": "raw"})
        assert "_meta" not in result
        assert said(result) == f"wrote {target} and nothing else"
        assert target.read_text() == "raw"
        assert kept(gateway.folder) == 0


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, 256 * 1024, 256 * 1024 + 1, 3 * 1024**2])
def test_files_of_every_size_come_out_as_they_were_made(gateway: Gateway, size: int) -> None:
    text = "0123456789abcdef" * (size // 16) + "x" * (size % 16)
    with StreamablePeer(gateway, "files") as peer:
        about = peer.tool("write", {"filename": "a.txt", "text": text})["_meta"]["artifact"]
        assert about["size_bytes"] == size
        assert about["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert http_request("GET", about["download_url"]).body == text.encode()
        part = http_request("GET", about["download_url"], None, {"Range": "bytes=0-9"})
        assert part.body == text[:10].encode()


def test_an_odd_uri_of_a_server_costs_no_result() -> None:
    odd = {"type": "resource", "resource": {"uri": "memo://[draft]/note.txt", "text": "hello"}}
    assert [(file.name, file.data) for file in embedded({"content": [odd]})] == [("note.txt", b"hello")]
    assert plain_path("file://[draft]/a") == "file://[draft]/a"


def test_only_the_exact_path_is_replaced(gateway: Gateway) -> None:
    """A path that merely begins or ends like it is somebody else's."""
    path = "/files/out/0a/page.png"
    text = (
        f"{path}, file://{path} and `{path}`. But {path}.bak, {path}/x, /mnt{path} and {path}-2 stay: {path}."
    )
    shown = replaced(replaced(text, f"file://{path}", "URI"), path, "URI")
    assert shown == (f"URI, URI and `URI`. But {path}.bak, {path}/x, /mnt{path} and {path}-2 stay: URI.")
    with StreamablePeer(gateway, "files") as peer:
        made = peer.tool("write", {"filename": "my page.txt"})
        assert said(made).startswith(f"wrote {made['_meta']['artifact']['artifact_uri']} and nothing else")


def kept(folder: Path) -> int:
    """How many files there are, by the gateway's own books."""
    with closing(sqlite3.connect(folder / "data/files/state.sqlite3", timeout=10)) as connection:
        return connection.execute("SELECT count(*) FROM files").fetchone()[0]


def test_ending_the_session_frees_its_files(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        with StreamablePeer(gateway, "files") as peer:
            url, answered = _download(peer)
            assert answered.status == 200
            handle = upload(peer, b"some bytes")
            assert not peer.tool("measure", {"path": handle}).get("isError")
            assert kept(gateway.folder) == 2
        eventually(lambda: kept(gateway.folder) == 0, "the files to be gone")
        blobs = gateway.folder / "data/files/blobs"
        eventually(lambda: not list(blobs.glob("*/*")), "the bytes to be gone")
        late = http_request("GET", url)
        assert late.status == 410
        assert "session ended" in late.json["error"]
        views = gateway.folder / "data/files/views"
        eventually(lambda: not any(names for _, _, names in os.walk(views)), "the copies to be gone")


def test_what_a_tool_writes_too_late_does_not_get_into_the_next_call(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        for number in range(3):
            result = peer.tool("act", {"do": "late", "filename": f"{number}.txt"})
            assert result["_meta"]["artifact"]["filename"] == f"{number}.txt"
            assert "artifacts" not in result["_meta"]


def test_what_we_do_not_replace_comes_out_as_it_was(peer: Peer) -> None:
    odd = {"big": 2**90, "float": 1.0, "small": 1e-7, "half": "\ud800", "deep": [{"n": -0.0}]}
    result = peer.tool("write", {"filename": "a.txt", "structured": odd})
    assert result["_meta"]["artifact"]["filename"] == "a.txt"
    assert json.dumps(result["structuredContent"]) == json.dumps(odd)
    assert result["ours"] == {"kept": 2**80}


ENCODED = base64.b64encode(b"0123456789" * 12).decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"see data:image/png;base64,{ENCODED} and enjoy it", [("data.png", b"0123456789" * 12)]),
        (f"![chart](data:image/png;base64,{ENCODED})", [("data.png", b"0123456789" * 12)]),
        (
            f"data:image/png;base64,{ENCODED[:76]}\n{ENCODED[76:152]}\r\n{ENCODED[152:]}\nThat is it",
            [("data.png", b"0123456789" * 12)],
        ),
        ("data:text/plain;base64,aGVsbG8=\nThat is it", [("data.txt", b"hello")]),
        ("<img src='data:image/svg+xml,%3Csvg%2F%3E'>", [("data.svg", b"<svg/>")]),
        ("some data:, and metadata:a/b,c", []),
    ],
)
def test_a_data_uri_ends_where_it_ends(text: str, found: list[tuple[str, bytes]]) -> None:
    result = {"content": [{"type": "text", "text": text}]}
    assert [(file.name, file.data) for file in embedded(result)] == found
