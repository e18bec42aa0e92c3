"""The lists of what a scope has: all of it, newest first, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.files.conftest import Json, file_server, said, serving
from tests.files.test_writing import SCOPE, play
from tests.support.gateway import Gateway
from tests.support.peers import Peer, RpcRefused, StreamablePeer

from mooring.files.store import FileStore

MADE = 205


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    budget = {"max_inline_bytes": 300, "preview_bytes": 10}
    with serving(tmp_path_factory.mktemp("lists"), file_server(), results=budget) as found:
        yield found


@pytest.fixture(scope="module")
def peer(gateway: Gateway) -> Iterator[Peer]:
    with StreamablePeer(gateway, "files") as found:
        yield found


@pytest.fixture(scope="module")
def made(peer: Peer) -> list[str]:
    """The results of this session, newest first."""
    calls = (peer.tool("plain", {"text": f"{number:05}" * 100}) for number in range(MADE))
    return [call["_meta"]["result"]["result_uri"] for call in calls][::-1]


def test_the_newest_results_come_first_and_all_of_them_can_be_reached(peer: Peer, made: list[str]) -> None:
    pages: list[list[str]] = []
    given: Json | None = {}
    while given is not None:
        answer = peer.tool("files_result_list", given)["structuredContent"]
        pages.append([entry["handle"] for entry in answer["results"]])
        given = {"cursor": answer["next_cursor"]} if "next_cursor" in answer else None
    assert [len(page) for page in pages] == [100, 100, 5]
    assert [handle for page in pages for handle in page] == made


def test_resources_are_listed_in_the_same_pages(peer: Peer, made: list[str]) -> None:
    found: list[str] = []
    given: Json | None = {}
    while given is not None:
        answer = peer.request("resources/list", given)
        found += [entry["uri"] for entry in answer["resources"]]
        given = {"cursor": answer["nextCursor"]} if "nextCursor" in answer else None
    assert found == made


def test_results_made_meanwhile_do_not_move_the_pages(peer: Peer, made: list[str]) -> None:
    first = peer.tool("files_result_list")["structuredContent"]
    newer = peer.tool("plain", {"text": "newer" * 100})["_meta"]["result"]["result_uri"]
    second = peer.tool("files_result_list", {"cursor": first["next_cursor"]})["structuredContent"]
    assert [entry["handle"] for entry in second["results"]] == made[100:200]
    assert peer.tool("files_result_list")["structuredContent"]["results"][0]["handle"] == newer


@pytest.mark.parametrize("cursor", ["", "7", "nan:0", "x:y", 7, "1e999:" + "0" * 32])
def test_a_cursor_that_is_not_ours_says_what_to_do(peer: Peer, cursor: str | int) -> None:
    refused = peer.tool("files_result_list", {"cursor": cursor})
    assert refused["isError"]
    assert "list without it" in said(refused)
    with pytest.raises(RpcRefused, match="list without it"):
        peer.request("resources/list", {"cursor": f"mooring-files:{cursor}"})


def test_files_of_one_moment_are_on_one_page_each(tmp_path: Path) -> None:
    """A coarse clock, or many files of one call: none is left out, none comes twice."""

    async def scene(store: FileStore) -> None:
        files = [await store.begin("artifact", SCOPE, "files", f"{number}.txt") for number in range(150)]
        for file in files:
            await file.finish()
        made = {record.id for record in await store.commit(files)}
        first = await store.page(SCOPE, "files", ["artifact"])
        assert first.next is not None
        second = await store.page(SCOPE, "files", ["artifact"], first.next)
        assert (len(first.records), len(second.records), second.next) == (100, 50, None)
        assert {record.id for page in (first, second) for record in page.records} == made

    play(tmp_path, scene, lambda: 1000.0)
