"""What a server has of its own, an address, a door, an audit log, ends with its last calls and not before."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.channels import http_request
from tests.support.draining import ANSWER, Slow, asked, bearer, drain, ended, forget_session, post
from tests.support.gateway import (
    Gateway,
    Journal,
    ask_socket,
    http_server,
    running_gateway,
    scripted_command,
    stdio_server,
)
from tests.support.peers import StreamablePeer
from tests.support.waiting import LIMIT_SECONDS, eventually
from tests.workloads.provider import token_provider

Json = dict[str, Any]


def described(journal: Journal, name: str = "one", **fields: Any) -> Json:
    """A server of the file, as a RunConfig."""
    ran = {"command": scripted_command(journal.path, "stdio", "legacy"), "sandbox": "off"}
    return {"id": name, "run_config": {"name": name, "host": "127.0.0.1", **fields, "mooring": ran}}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Own:
    """A gateway whose clients know the address of one server only."""

    def __init__(self, port: int, path: str = "/mcp") -> None:
        self._url = f"http://127.0.0.1:{port}{path}"

    def url(self, _: str) -> str:
        return self._url


def at(port: int, path: str = "/mcp") -> Gateway:
    return cast("Gateway", Own(port, path))


def begin_call(peer: StreamablePeer, journal: Journal, seconds: float = 2) -> Any:
    before = len(journal.events("waiting"))
    call = peer.start_tool("wait", {"seconds": seconds})
    eventually(lambda: len(journal.events("waiting")) > before, "the call to run")
    return call


def text_of(call: Any) -> str:
    return call.result()["content"][0]["text"]


def test_calls_at_an_address_of_its_own_may_end(tmp_path: Path, journal: Journal, fate: str) -> None:
    port = free_port()
    with (
        running_gateway(tmp_path, [described(journal, port=port)]) as gateway,
        StreamablePeer(at(port), "one") as peer,
    ):
        call = begin_call(peer, journal)
        drain(gateway, fate)
        assert text_of(call) == "nobody stopped me"
        ended(gateway)
        if fate == "changed":
            with StreamablePeer(at(port), "one") as another:
                assert another.tool("echo", {"text": "new"})["content"][0]["text"] == "new"
        else:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS).close()
        forget_session(peer)


def test_questions_are_answered_at_an_address_of_its_own(tmp_path: Path, journal: Journal, fate: str) -> None:
    port, user = free_port(), Slow()
    with (
        running_gateway(tmp_path, [described(journal, port=port)]) as gateway,
        StreamablePeer(at(port), "one", handlers=user.handlers) as peer,
    ):
        call = peer.start_tool("ask", {"kind": "elicitation"})
        assert user.asked.wait(LIMIT_SECONDS)
        drain(gateway, fate)
        user.ready.set()
        assert call.result()["structuredContent"] == {"heard": ANSWER}
        ended(gateway)
        forget_session(peer)


def test_an_address_of_its_own_goes_to_whom_the_new_file_gives_it(tmp_path: Path, journal: Journal) -> None:
    port = free_port()
    with (
        running_gateway(tmp_path, [described(journal, port=port)]) as gateway,
        StreamablePeer(at(port), "one") as peer,
    ):
        call = begin_call(peer, journal)
        for name in ("two", "three"):
            reload(gateway, [described(journal, name, port=port)])
            eventually(lambda name=name: served(gateway) == [name], "the new file to be in force")
            with StreamablePeer(at(port), name) as another:
                assert another.tool("echo", {"text": name})["content"][0]["text"] == name
            if name == "two":
                assert text_of(call) == "nobody stopped me"
                ended(gateway)
        forget_session(peer)


def test_a_call_is_written_down_in_the_log_of_its_server(tmp_path: Path, journal: Journal, fate: str) -> None:
    audit = tmp_path / "audit-of-one.log"
    fields: Json = {"enable_audit": True, "audit_config": {"logFile": str(audit)}}
    with (
        running_gateway(tmp_path, [described(journal, **fields)]) as gateway,
        StreamablePeer(gateway, "one") as peer,
    ):
        call = begin_call(peer, journal)
        drain(gateway, fate)
        assert text_of(call) == "nobody stopped me"
        ended(gateway)
        written = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [line["outcome"] for line in written if line["type"] == "mcp_tool_call"] == ["success"]
        forget_session(peer)


def test_whoever_came_by_a_door_of_its_own_answers_there(tmp_path: Path, journal: Journal, fate: str) -> None:
    with token_provider() as provider:
        fields: Json = {"oidc_config": {"Issuer": provider.url, "Audience": "ours"}}
        alice, bob = (bearer(provider.token(name, "ours")) for name in ("alice", "bob"))
        with (
            running_gateway(tmp_path, [described(journal, **fields)]) as gateway,
            asked(gateway, alice) as (peer, call, answer),
        ):
            drain(gateway, fate)
            assert post(peer, answer, **bob).status == 404
            assert post(peer, answer, Authorization="Bearer made-up").status == 401
            assert post(peer, answer).status == 202
            assert call.result()["structuredContent"] == {"heard": ANSWER}
            ended(gateway)


def test_a_further_path_of_a_server_lasts_as_long_as_its_calls(
    tmp_path: Path, journal: Journal, fate: str
) -> None:
    user, mounted = Slow(), {**stdio_server("one", journal.path), "mount_path": "/of/one"}
    with (
        running_gateway(tmp_path, [mounted]) as gateway,
        StreamablePeer(at(gateway.port, "/of/one"), "one", handlers=user.handlers) as peer,
    ):
        call = peer.start_tool("ask", {"kind": "elicitation"})
        assert user.asked.wait(LIMIT_SECONDS)
        drain(gateway, fate)
        user.ready.set()
        assert call.result()["structuredContent"] == {"heard": ANSWER}
        ended(gateway)
        status = http_request(f"http://127.0.0.1:{gateway.port}/of/one", "POST", b"x").status
        assert (status == 404) == (fate == "removed")
        forget_session(peer)


def reload(gateway: Gateway, servers: list[Json]) -> None:
    file = gateway.folder / "mooring.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "servers": servers}))
    os.kill(gateway.process.pid, signal.SIGHUP)


def served(gateway: Gateway) -> list[str]:
    return [entry["id"] for entry in ask_socket(gateway.socket, "/api/v1/status")["servers"]]


def test_an_address_that_cannot_be_had_keeps_no_other_server_from_ending(
    tmp_path: Path, journal: Journal
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        StreamablePeer(gateway, "one") as peer,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        assert peer.tool("echo", {"text": "a"})
        reload(gateway, [described(journal, "two", port=taken.getsockname()[1])])
        ended(gateway)
        assert "it is served at the gateway's address only" in gateway.log()
        forget_session(peer)
        [pid] = journal.pids()
        eventually(lambda: not Path(f"/proc/{pid}").exists(), "its process to end")
        with StreamablePeer(gateway, "two") as another:
            assert another.tool("echo", {"text": "b"})["content"][0]["text"] == "b"
        reload(gateway, [])
        eventually(lambda: "removed two" in gateway.log(), "the next file to be in force")
        assert served(gateway) == []


@pytest.mark.parametrize("dots", [0, 500_000])
def test_a_call_that_was_sent_on_at_once_ends_too(
    tmp_path: Path, journal: Journal, fate: str, dots: int
) -> None:
    """Whatever its answer is like: one that comes in pieces leaves the short way at its end."""
    with (
        http_server("one", journal.path) as server,
        running_gateway(tmp_path, [server]) as gateway,
        StreamablePeer(gateway, "one") as peer,
    ):
        for text in ("a", "b"):  # from now on there is a connection for it
            peer.tool("echo", {"text": text})
        call = peer.start_tool("nap", {"seconds": 3, "dots": dots})
        eventually(lambda: journal.events("ran", "nap"), "the call to run")
        drain(gateway, fate)
        assert text_of(call) == "woke up" + "." * dots
        ended(gateway)
        forget_session(peer)


def test_a_gateway_that_ends_lets_calls_of_a_server_on_its_way_out_end(
    tmp_path: Path, journal: Journal, fate: str
) -> None:
    with (
        http_server("one", journal.path) as server,
        running_gateway(tmp_path, [server, stdio_server("two", journal.path)]) as gateway,
        StreamablePeer(gateway, "one") as one,
        StreamablePeer(gateway, "two") as two,
    ):
        calls = [begin_call(one, journal), begin_call(two, journal)]
        drain(gateway, fate)
        gateway.process.terminate()
        assert [text_of(call) for call in calls] == ["nobody stopped me"] * 2
        assert gateway.process.wait(LIMIT_SECONDS) == 0
        assert "error" not in gateway.log()
        forget_session(one)
        forget_session(two)
