"""`mooring record` and `mooring replay`: what a server said is said again, and nothing else is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.support.gateway import (
    Gateway,
    http_server,
    program,
    running_gateway,
    scripted_command,
)
from tests.support.peers import ModernHttpPeer, StreamablePeer
from tests.support.waiting import eventually

from mooring.gateway.cassette import FORMAT, CassetteMistake, Header, Writer, read
from mooring.gateway.replaying import Player

Json = dict[str, Any]


def cassette(folder: Path, *lines: tuple[str, Json], session: str = "") -> Player:
    path = folder / "made.cassette"
    writer = Writer(path, Header(FORMAT, "made"))
    for side, message in lines:
        full = json.dumps({"jsonrpc": "2.0", **message}).encode()
        writer.write(0.0, side, full, session)  # type: ignore[arg-type]
    writer.close()
    return Player(*read(path))


def call(number: int, text: str, **meta: Any) -> Json:
    params = {"name": "echo", "arguments": {"text": text}, **({"_meta": meta} if meta else {})}
    return {"id": number, "method": "tools/call", "params": params}


def said(player: Player, message: Json) -> list[Json]:
    return player.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())


def test_equal_calls_are_answered_in_the_recorded_order_and_not_once_more(tmp_path: Path) -> None:
    player = cassette(
        tmp_path,
        ("client", call(1, "a")),
        ("server", {"id": 1, "result": {"n": 1}}),
        ("client", call(2, "a")),
        ("server", {"id": 2, "result": {"n": 2}}),
    )
    assert [said(player, call(number, "a"))[0]["result"]["n"] for number in (70, 71)] == [1, 2]
    third = said(player, call(72, "a"))[0]
    assert third["id"] == 72
    assert "recorded 2 times" in third["error"]["message"]
    assert len(player.unexpected) == 1


def test_a_request_that_was_not_recorded_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    player = cassette(
        tmp_path,
        ("client", call(1, "something else")),
        ("client", call(2, "hello world")),
        ("server", {"id": 2, "result": {}}),
    )
    error = said(player, call(9, "hello word"))[0]["error"]
    assert "the nearest is on line 3" in error["message"]
    assert "hello world" in error["message"]
    assert (
        "the nearest is `tools/call`"
        in said(player, {"id": 10, "method": "tool/call"})[0]["error"]["message"]
    )


def test_progress_logs_and_questions_come_back_in_order_under_the_names_of_now(tmp_path: Path) -> None:
    def progress(token: Any, value: int) -> Json:
        return {"method": "notifications/progress", "params": {"progressToken": token, "progress": value}}

    ask = {"id": "s1", "method": "elicitation/create", "params": {"message": "sure?"}}
    player = cassette(
        tmp_path,
        ("client", call(1, "a", progressToken="t1")),
        ("server", progress("t1", 1)),
        ("server", ask),
        ("client", {"id": "s1", "result": {"action": "accept"}}),
        ("server", progress("t1", 2)),
        ("server", {"id": 1, "result": {"done": True}}),
        ("server", {"method": "notifications/tools/list_changed"}),
    )
    first = said(player, call(5, "a", progressToken=99))
    assert first[0]["params"] == {"progressToken": 99, "progress": 1}
    assert first[1]["method"] == "elicitation/create"
    rest = said(player, {"id": first[1]["id"], "result": {"action": "accept"}})
    assert rest[0]["params"] == {"progressToken": 99, "progress": 2}
    assert (rest[1]["id"], rest[1]["result"]) == (5, {"done": True})
    assert rest[2]["method"] == "notifications/tools/list_changed"


def test_another_answer_than_the_recorded_one_ends_the_call_with_a_reason(tmp_path: Path) -> None:
    player = cassette(
        tmp_path,
        ("client", call(1, "a")),
        ("server", {"id": 7, "method": "elicitation/create", "params": {"message": "sure?"}}),
        ("client", {"id": 7, "result": {"action": "accept"}}),
        ("server", {"id": 1, "result": {"done": True}}),
    )
    asked = said(player, call(3, "a"))[0]
    refused = said(player, {"id": asked["id"], "result": {"action": "decline"}})[0]
    assert refused["id"] == 3
    assert "decline" in refused["error"]["message"]
    assert player.unexpected


def test_what_is_no_cassette_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text('{"cassette": 1}\n\n{"s": 0, "from": "nobody", "message": {}}\n')
    with pytest.raises(CassetteMistake, match="line 3"):
        read(path)
    path.write_text("hello")
    with pytest.raises(CassetteMistake, match="mooring record"):
        read(path)


@contextmanager
def recording(gateway: Gateway, name: str, path: Path) -> Iterator[None]:
    environment = {**os.environ, "MOORING_SOCKET": str(gateway.socket)}
    with subprocess.Popen(
        [program(), "record", name, "-o", str(path)], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            assert "recording" in process.stderr.readline()
            yield
            eventually(lambda: path.stat().st_size > 0, "the cassette")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0, process.stderr.read()


@pytest.mark.e2e
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_is_replaced_by_its_cassette(tmp_path: Path, era: str) -> None:
    path = tmp_path / "one.cassette"
    peer_type = StreamablePeer if era == "legacy" else ModernHttpPeer
    secret = "hunter2hunter2"

    def talk(gateway: Gateway) -> list[Any]:
        with peer_type(gateway, "one") as peer:
            seen: list[Any] = [
                peer.tool("echo", {"text": "x", "password": secret}),
                peer.tool("big", {"bytes": 400_000}),
                peer.tool("count", {"steps": 3}, progressToken="mine"),
            ]
            seen.append([told["params"]["progress"] for told in peer.wait_for("notifications/progress", 3)])
            return seen

    with (
        http_server("one", tmp_path / "journal", era) as server,
        running_gateway(tmp_path / "first", [server]) as gateway,
        peer_type(gateway, "one") as early,
    ):
        early.tool("echo", {"text": "before the recording"})
        with recording(gateway, "one", path):
            before = talk(gateway)
    text = path.read_text()
    assert secret not in text
    assert "[redacted]" in text
    assert len(text) > 400_000, "nothing is cut off"
    replayed = {"id": "one", "workload": {"run": [program(), "replay", str(path)]}, "share": "global"}
    with running_gateway(tmp_path / "second", [replayed]) as gateway:
        assert talk(gateway)[1:] == before[1:]
        with peer_type(gateway, "one") as peer:
            answer = peer.start_tool("echo", {"text": "never said"}).answer()
            assert "the nearest is on line" in answer["error"]["message"]


@pytest.mark.e2e
def test_a_command_is_recorded_by_standing_before_it_and_replayed_on_stdio(tmp_path: Path) -> None:
    path = tmp_path / "two.cassette"
    command = scripted_command(tmp_path / "journal", "stdio", "legacy")
    servers = [{"id": "two", "workload": {"run": [program(), "record", "-o", str(path), "--", *command]}}]
    with running_gateway(tmp_path, servers) as gateway:
        caller = Caller(gateway.address, "two")
        caller.initialize()
        assert caller.tool("echo", {"text": "hello"}).result
    header, lines = read(path)
    assert header.server.startswith(sys.executable)
    asked = [line.message for _, line in lines if line.side == "client"]
    conversation = b"\n".join(bytes(message) for message in asked) + b"\n"
    played = subprocess.run(
        [program(), "replay", "--all", str(path)],
        input=conversation,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    answers = [json.loads(line) for line in played.stdout.splitlines()]
    assert any("hello" in json.dumps(answer) for answer in answers)
    stray = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{}}}\n'
    refused = subprocess.run(
        [program(), "replay", str(path)], input=stray, capture_output=True, timeout=20, check=False
    )
    assert refused.returncode == 1
    assert b"unexpected" in refused.stderr
