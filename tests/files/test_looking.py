"""Looking into results that are odd, or with questions that are."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.files.conftest import said, serving
from tests.files.test_turns import searches
from tests.files.test_writing import SCOPE, play
from tests.support.gateway import Gateway
from tests.support.peers import Peer, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.budgets import Budget, ResultRules
from mooring.files.inspecting import search
from mooring.files.resources import appended
from mooring.files.results import ResultKeeper
from mooring.files.store import FileStore
from mooring.transports.wire import Answer

HALF = "half a letter: \ud800"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    budget = {"max_inline_bytes": 1000, "preview_bytes": 100}
    with serving(tmp_path_factory.mktemp("looking"), results=budget) as found:
        yield found


@pytest.fixture
def peer(gateway: Gateway) -> Iterator[Peer]:
    with StreamablePeer(gateway, "files") as found:
        yield found


def kept(peer: Peer, text: str) -> str:
    return peer.tool("plain", {"text": text})["_meta"]["result"]["result_uri"]


def test_half_a_letter_in_json_can_be_queried(peer: Peer) -> None:
    handle = kept(peer, json.dumps([HALF] * 100))
    found = peer.tool("files_result_query", {"handle": handle, "path": "$[7]"})
    [entry] = found["structuredContent"]["found"]
    assert entry["value"].startswith("half a letter: ")


def test_a_result_with_half_a_letter_is_kept(peer: Peer) -> None:
    handle = kept(peer, HALF + "x" * 5000)
    part = peer.tool("files_result_read", {"handle": handle, "length": 20})["structuredContent"]["text"]
    assert part.startswith("half a letter: ")
    assert part.endswith("x")


def test_half_a_letter_in_a_list_of_resources_stays() -> None:
    theirs = rb'{"uri":"x:1","name":"\ud800"}'
    answer = Answer(version="2025-11-25", result=b'{"resources":[%b],"more":1e999}' % theirs)
    whole = appended(answer, {"resources": [{"uri": "result://1"}]})
    assert bytes(whole.result) == b'{"resources":[%b,{"uri":"result://1"}],"more":1e999}' % theirs


def test_the_answer_of_a_search_is_no_flood_itself() -> None:
    answer = search("x" * 1_000_000, ".{3000}", 50)
    assert 0 < len(answer["matches"]) < 50
    assert answer["more"]
    assert len(json.dumps(answer)) < 30_000


def test_a_part_has_at_least_a_byte_so_that_reading_goes_on(peer: Peer) -> None:
    refused = peer.tool("files_result_read", {"handle": kept(peer, "x" * 5000), "length": 0})
    assert "`length` must be a whole number from 1" in said(refused)


def test_a_search_without_an_end_ends_though_the_gateway_was_killed(tmp_path: Path) -> None:
    budget = {"max_inline_bytes": 1000, "search_seconds": 1}
    with serving(tmp_path, results=budget) as gateway:
        peer = StreamablePeer(gateway, "files")
        peer.start_tool("files_result_search", {"handle": kept(peer, "a" * 5000), "pattern": r"(a|a)*b"})
        found: list[int] = []
        eventually(lambda: found.extend(searches(gateway)) or bool(found), "the search to begin")
        os.kill(gateway.process.pid, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{found[0]}/fd/0").exists(), "the search to end")


def test_a_result_of_many_links_is_kept_whole_and_replaced(tmp_path: Path) -> None:
    links = [{"type": "resource_link", "uri": f"file:///{number}", "name": "x"} for number in range(2000)]

    async def scene(store: FileStore) -> None:
        keeper = ResultKeeper(store, "files", ResultRules(Budget(bytes=1000)), lambda tool: tool)
        for words in ([], [{"type": "text", "text": "many files"}]):
            answer = Answer(version="2025-11-25", result=json.dumps({"content": [*words, *links]}).encode())
            made, was_kept = await keeper.shortened("find", answer, SCOPE)
            assert was_kept
            assert len(bytes(made.result)) < 2000
            [record, *_] = await store.listed(SCOPE, "files", ["result"])
            assert json.loads(await store.read_all(record)) == [*words, *links]
        few = [{"type": "text", "text": "y" * 5000}, *links[:3]]
        answer = Answer(version="2025-11-25", result=json.dumps({"content": few}).encode())
        made, _ = await keeper.shortened("find", answer, SCOPE)
        assert json.loads(bytes(made.result))["content"][1:] == links[:3], "a few stay, to be followed"

    play(tmp_path, scene, itertools.count(1000.0).__next__, 1_000_000)
