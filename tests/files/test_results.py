"""A result too big for a model's context becomes something the model can look into."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.files.conftest import PEERS, Json, file_server, said, serving
from tests.support.gateway import Gateway
from tests.support.peers import Peer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.budgets import Budget, cost
from mooring.files.inspecting import inspected
from mooring.files.pixels import dimensions, image_tokens
from mooring.files.results import preview

ITEMS = [{"id": number, "name": f"name {number}"} for number in range(2000)]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    budget = {"max_inline_bytes": 1000, "preview_bytes": 100, "search_seconds": 3}
    quiet = file_server("quiet", results={"max_inline_bytes": None})
    with serving(tmp_path_factory.mktemp("results"), file_server(), quiet, results=budget) as found:
        yield found


@pytest.fixture(params=["legacy", "modern"])
def peer(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Peer]:
    with PEERS[request.param](gateway, "files") as found:
        yield found


def kept(peer: Peer, text: str) -> str:
    result = peer.tool("plain", {"text": text})
    assert len(json.dumps(result)) < 2000
    beginning = text.encode()[:100].decode(errors="ignore")
    assert said(result).endswith(f"It begins:\n{beginning}")
    return result["_meta"]["result"]["result_uri"]


def test_a_small_result_passes_and_a_large_one_is_kept(peer: Peer) -> None:
    assert said(peer.tool("plain", {"text": "x" * 500})) == "x" * 500
    handle = kept(peer, "y" * 5000)
    assert handle.startswith("result://sessions/")
    contents = peer.request("resources/read", {"uri": handle})["contents"]
    assert contents[0]["text"] == "y" * 5000


@pytest.mark.parametrize(
    ("budget", "size"), [({"max_inline_bytes": 1000}, 1200), ({"max_inline_tokens": 200}, 1500)]
)
def test_what_stands_for_a_result_is_smaller_than_it(tmp_path: Path, budget: Json, size: int) -> None:
    with serving(tmp_path, results=budget) as found, StreamablePeer(found, "files") as peer:
        result = peer.tool("plain", {"text": "7f3c81a02b4d4e6 " * (size // 16)})
        assert "is kept as result://" in said(result)
        assert len(said(result)) < 1000


def test_nothing_of_a_result_is_lost(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        told = {"text": "a summary " * 200, "structured": {"rows": list(range(2000))}}
        uri = peer.tool("say", told)["_meta"]["result"]["result_uri"]
        read = json.loads(peer.request("resources/read", {"uri": uri})["contents"][0]["text"])
        assert read["content"][0]["text"] == told["text"]
        assert read["structuredContent"] == told["structured"]
        mirrored = {"text": json.dumps(told["structured"]), "structured": told["structured"]}
        uri = peer.tool("say", mirrored)["_meta"]["result"]["result_uri"]
        read = json.loads(peer.request("resources/read", {"uri": uri})["contents"][0]["text"])
        assert read == told["structured"]


def test_a_large_picture_is_named_and_not_spelled_out(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "quiet") as peer:  # without a budget, to see what there is
        block = peer.tool("embed", {"text": "x" * 5000})["content"][0]
    result: Json = {"content": [{"type": "text", "text": "here it is"}, block]}
    assert preview(result, "") == "here it is\n[image image/png, 6668 characters of base64]"


def test_a_part_can_be_read(peer: Peer) -> None:
    handle = kept(peer, "".join(f"{number:05}" for number in range(2000)))
    part = peer.tool("files_result_read", {"handle": handle, "offset": 50, "length": 10})
    assert part["structuredContent"] == {
        "text": "0001000011",
        "offset": 50,
        "total_bytes": 10_000,
        "next_offset": 60,
    }


def test_parts_are_not_cut_within_a_letter(peer: Peer) -> None:
    text = "añ€𝄞" * 300
    handle = kept(peer, text)
    parts, offset = list[str](), 0
    while offset is not None:
        part = peer.tool("files_result_read", {"handle": handle, "offset": offset, "length": 512})
        parts.append(part["structuredContent"]["text"])
        offset = part["structuredContent"].get("next_offset")
    assert "".join(parts) == text
    least = peer.tool("files_result_read", {"handle": handle, "offset": 1, "length": 1})["structuredContent"]
    assert (least["text"], least["next_offset"]) == ("ñ", 3), "every part goes on"


def test_what_is_found_can_be_read_where_it_was_found(peer: Peer) -> None:
    handle = kept(peer, "é" * 600 + "a needle" + "é" * 600)
    found = peer.tool("files_result_search", {"handle": handle, "pattern": "needle"})
    [match] = found["structuredContent"]["matches"]
    place = {"handle": handle, "offset": match["offset"], "length": 6}
    assert peer.tool("files_result_read", place)["structuredContent"]["text"] == "needle"


def test_it_can_be_searched(peer: Peer) -> None:
    handle = kept(peer, json.dumps(ITEMS, indent=1))
    found = peer.tool("files_result_search", {"handle": handle, "pattern": r"name 12[34]\b"})
    assert [match["match"] for match in found["structuredContent"]["matches"]] == ["name 123", "name 124"]
    wrong = peer.tool("files_result_search", {"handle": handle, "pattern": "(["})
    assert wrong["isError"]
    assert "not a regular expression" in said(wrong)


def test_json_can_be_queried(peer: Peer) -> None:
    handle = kept(peer, json.dumps(ITEMS))
    found = peer.tool("files_result_query", {"handle": handle, "path": "$[?@.id == 1234].name"})
    assert [entry["value"] for entry in found["structuredContent"]["found"]] == ["name 1234"]
    wrong = peer.tool("files_result_query", {"handle": handle, "path": "$["})
    assert "not a JSONPath" in said(wrong)


def test_a_pattern_that_never_ends_is_stopped(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        handle = kept(peer, "a" * 5000)
        slow = peer.start_tool("files_result_search", {"handle": handle, "pattern": r"(a|a)*b"})
        assert said(peer.tool("plain", {"text": "meanwhile"})) == "meanwhile"
        result = slow.result()
    assert result["isError"]
    assert "took longer than 3 s" in said(result)


def test_nobody_else_sees_it(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer, StreamablePeer(gateway, "files") as stranger:
        handle = kept(peer, "z" * 5000)
        mine = peer.tool("files_result_list")["structuredContent"]["results"]
        assert [entry["handle"] for entry in mine] == [handle]
        assert stranger.tool("files_result_list")["structuredContent"]["results"] == []
        assert "not found" in said(stranger.tool("files_result_read", {"handle": handle}))
        with pytest.raises(RpcRefused):
            stranger.request("resources/read", {"uri": handle})


def test_a_server_may_have_a_budget_of_its_own(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "quiet") as peer:
        assert said(peer.tool("plain", {"text": "x" * 5000})) == "x" * 5000
        assert "quiet_result_read" not in [tool["name"] for tool in peer.request("tools/list")["tools"]]


def test_off_by_default(tmp_path: Path) -> None:
    with serving(tmp_path) as found, StreamablePeer(found, "files") as peer:
        assert said(peer.tool("plain", {"text": "x" * 100_000})) == "x" * 100_000


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\0\0\0" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_pictures_count_by_their_pixels() -> None:
    small, large = png(30, 25), png(600, 500)
    assert (dimensions(small), dimensions(large)) == ((30, 25), (600, 500))
    assert (image_tokens(small), image_tokens(large)) == (1, 400)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x64\x00\xc8\x03" + b"\0" * 20
    assert dimensions(jpeg) == (200, 100)
    assert dimensions(b"GIF89a" + struct.pack("<HH", 7, 9)) == (7, 9)
    block = {"type": "image", "data": base64.b64encode(small).decode(), "mimeType": "image/png"}
    assert cost({"content": [block]}) == 4


def test_a_budget_in_tokens_is_counted_by_a_tokenizer(tmp_path: Path) -> None:
    """Text of one long run is far fewer tokens than a quarter of its bytes; digits are far more."""
    by_tool = {"say": {"max_inline_bytes": 300}, "take": {}}
    budget = {"max_inline_tokens": 500, "by_tool": by_tool}
    few, many = "the house is green " * 110, "7f3c81a02b4d4e6f " * 110
    with serving(tmp_path, results=budget) as found:
        for era in ("legacy", "modern"):
            with PEERS[era](found, "files") as peer:
                assert said(peer.tool("plain", {"text": few})) == few
                assert len(many) < 500 * 4
                assert "_result_read` reads more" in said(peer.tool("plain", {"text": many}))
                assert "is kept as result://" in said(peer.tool("say", {"text": "x " * 200}))


def test_small_results_are_not_even_looked_at() -> None:
    assert not Budget(tokens=500).may_be_exceeded(b"x" * 500)
    assert Budget(tokens=500).may_be_exceeded(b"x" * 501)
    assert not Budget(bytes=500, tokens=900).may_be_exceeded(b"x" * 500)


def test_a_small_file_of_a_large_picture_is_large() -> None:
    block = {"type": "image", "data": base64.b64encode(png(1000, 1000)).decode(), "mimeType": "image/png"}
    result = {"content": [block]}
    assert len(json.dumps(result)) < 5200
    assert Budget(bytes=5200).may_be_exceeded(json.dumps(result).encode())
    assert asyncio.run(Budget(bytes=5200).is_exceeded(result))
    assert asyncio.run(Budget(tokens=1000).is_exceeded(result))
    assert not asyncio.run(Budget(tokens=1400).is_exceeded(result))


def test_a_text_of_nothing_but_brackets_is_kept_as_text(peer: Peer) -> None:
    """Nobody can read such JSON, and it is not worth losing a result for."""
    handle = kept(peer, "[" * 3000 + "]" * 3000)
    found = peer.tool("files_result_search", {"handle": handle, "pattern": r"\[\]"})["structuredContent"]
    assert [match["offset"] for match in found["matches"]] == [2999]
    asked = peer.tool("files_result_query", {"handle": handle, "path": "$[0]"})
    assert asked["isError"]
    assert "use the search tool" in said(asked)


def test_a_resource_whose_bytes_are_gone_is_not_found(tmp_path: Path) -> None:
    with (
        serving(tmp_path, results={"max_inline_bytes": 300}) as found,
        StreamablePeer(found, "files") as peer,
    ):
        uri = peer.tool("plain", {"text": "x" * 500})["_meta"]["result"]["result_uri"]
        [blob] = [path for path in tmp_path.rglob("blobs/*/*") if path.is_file()]
        blob.unlink()
        with pytest.raises(RpcRefused, match="is gone"):
            peer.request("resources/read", {"uri": uri})


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
def test_a_large_result_keeps_the_links_to_what_was_made(gateway: Gateway, version: str) -> None:
    """They are ours: they stay in sight, and the tool's JSON stays JSON."""
    items = [{"id": number} for number in range(500)]
    with StreamablePeer(gateway, "files", version=version) as peer:
        result = peer.tool(
            "write", {"filename": "a.txt", "say": json.dumps(items), "structured": {"it": items}}
        )
        artifact = result["_meta"]["artifact"]
        assert f"Download a.txt: {artifact['download_url']}" in said(result)
        assert artifact["artifact_uri"] in json.dumps(result["content"])
        handle = result["_meta"]["result"]["result_uri"]
        assert (
            "download_url"
            not in peer.tool("files_result_read", {"handle": handle})["structuredContent"]["text"]
        )
        result = peer.tool("write", {"filename": "a.txt", "say": json.dumps(items)})
        handle = result["_meta"]["result"]["result_uri"]
        found = peer.tool("files_result_query", {"handle": handle, "path": "$[7].id"})["structuredContent"]
        assert [entry["value"] for entry in found["found"]] == [7]


def test_a_file_in_the_gateways_own_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that may write where the gateway was started would otherwise leave its sandbox that way."""
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    question = {"do": "search", "what": "b+", "most": 5}

    async def text() -> AsyncIterator[bytes]:
        yield b"abbc"

    assert asyncio.run(inspected(question, text(), 10.0))["matches"][0]["match"] == "bb"
    assert not (tmp_path / "ran").exists()


def test_results_of_a_server_may_go_sooner_and_else_it_is_as_for_all(tmp_path: Path) -> None:
    common = {"max_inline_bytes": 1000, "preview_bytes": 10, "ttl_seconds": 600}
    sooner = file_server("sooner", results={"max_inline_bytes": 300, "ttl_seconds": 0.2})
    like_all = file_server("others", results={"max_inline_bytes": 300})
    with (
        serving(tmp_path, sooner, like_all, results=common) as found,
        StreamablePeer(found, "sooner") as peer,
        StreamablePeer(found, "others") as other,
    ):
        assert said(other.tool("plain", {"text": "x" * 500})).endswith("begins:\n" + "x" * 10)
        peer.tool("plain", {"text": "x" * 500})

        def left(of: Peer, name: str) -> int:
            return len(of.tool(f"{name}_result_list")["structuredContent"]["results"])

        eventually(lambda: not left(peer, "sooner"), "its time to end")
        assert left(other, "others") == 1
