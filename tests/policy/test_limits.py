"""Limits: who asks too much is told when to come back; nobody else notices."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.caller import Caller
from tests.support.gateway import Gateway, running_gateway, stdio_server
from tests.support.packages import program
from tests.support.peers import SsePeer
from tests.support.waiting import eventually

from mooring.errors import TooMuch
from mooring.gateway.principal import Caller as Sender
from mooring.gateway.principal import Principal
from mooring.policy.gcra import MAX_KEYS, Gcra
from mooring.policy.limits.counting import Concurrency, Rates
from mooring.policy.limits.rules import Limit


@given(
    burst=st.integers(1, 5),
    steps=st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=60),
)
def test_never_more_than_the_burst_and_what_time_has_earned(burst: int, steps: list[float]) -> None:
    gcra = Gcra(1, 1.0, burst)
    now = 100.0
    granted: list[float] = []
    for step in steps:
        now += step
        if gcra.wait("a", now) == 0:
            granted.append(now)
    for index, start in enumerate(granted):
        for count, end in enumerate(granted[index:], 1):
            assert count <= burst + (end - start) + 1e-6


def test_waiting_as_long_as_told_is_enough() -> None:
    gcra = Gcra(2, 1.0, 2)
    assert [gcra.wait("a", 0.0) for _ in range(2)] == [0, 0]
    wait = gcra.wait("a", 0.0)
    assert wait == pytest.approx(0.5)
    assert gcra.wait("a", wait) == 0
    assert gcra.wait("b", 0.0) == 0


def sender(name: str) -> Sender:
    return Sender(Principal(name, name))


def test_a_request_that_one_limit_refuses_costs_nothing_elsewhere() -> None:
    rates = Rates([Limit("wide", ("all",), 10, 60), Limit("narrow", ("principal",), 1, 60)])
    rates.spend("s", sender("a"), "tools/list", "")
    for _ in range(50):
        with pytest.raises(TooMuch):
            rates.spend("s", sender("a"), "tools/list", "")
    for number in range(9):
        rates.spend("s", sender(f"other {number}"), "tools/list", "")
    with pytest.raises(TooMuch, match="wide"):
        rates.spend("s", sender("last"), "tools/list", "")


def test_a_limit_for_some_tools_counts_each_tool_apart() -> None:
    rates = Rates([Limit("tools", ("tool",), 1, 60, tools=("send_*",))])
    rates.spend("s", sender("a"), "tools/call", "send_mail")
    rates.spend("s", sender("a"), "tools/call", "send_post")
    rates.spend("s", sender("a"), "tools/call", "read")
    rates.spend("s", sender("a"), "tools/list", "")
    with pytest.raises(TooMuch):
        rates.spend("s", sender("b"), "tools/call", "send_mail")


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["echo", "say"])
def test_a_limit_holds_for_a_tool_under_either_of_its_names(tmp_path: Path, name: str) -> None:
    tools = {"override": {"echo": {"name": "say"}}}
    servers = [stdio_server("one", tmp_path / "journal", tools=tools)]
    limits = {"rate": [{"count": 1, "tools": [name]}]}
    with running_gateway(tmp_path, servers, limits=limits) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        assert "result" in caller.tool("say", {"text": "a"}).message
        assert caller.tool("say", {"text": "b"}).error["code"] == -31005


def test_so_does_one_for_calls_at_the_same_time() -> None:
    together = Concurrency([Limit("one", ("server",), 1, 0, tools=("pay",))])
    together.enter("s", sender("a"), "tools/call", "transfer", "pay")
    together.enter("s", sender("a"), "tools/call", "transfer", "other")
    with pytest.raises(TooMuch):
        together.enter("s", sender("b"), "tools/call", "transfer", "pay")


@contextmanager
def limited(folder: Path, **limits: Any) -> Iterator[Gateway]:
    servers = [stdio_server("one", folder / "journal", share="global")]
    with running_gateway(folder, servers, limits=limits) as gateway:
        yield gateway


@pytest.mark.e2e
def test_both_eras_are_told_when_to_come_back_and_lists_count_too(tmp_path: Path) -> None:
    with limited(tmp_path, rate=[{"count": 5, "seconds": 3600, "per": "all"}]) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()  # one
        for _ in range(4):
            assert "result" in caller.request("tools/list").message
        refused = caller.tool("echo", {"text": "x"})
        assert refused.error["code"] == -31005
        assert refused.error["data"]["retryAfterSeconds"] >= 1
        caller.session = {}
        modern = caller.modern_tool("echo", {"text": "x"})
        assert (modern.status, modern.error["code"]) == (429, -31005)
        assert int(modern.headers["retry-after"]) == modern.error["data"]["retryAfterSeconds"] >= 1
        assert caller.initialize().error["code"] == -31005


@pytest.mark.e2e
def test_older_transports_are_limited_too(tmp_path: Path) -> None:
    with limited(tmp_path, rate=[{"count": 3, "seconds": 3600, "per": "address"}]) as gateway:
        with SsePeer(gateway, "one") as client:
            answers = [client.start("tools/list").answer() for _ in range(4)]
        assert ["error" in answer for answer in answers] == [False, False, True, True]


@pytest.mark.e2e
def test_so_many_at_once_and_no_more(tmp_path: Path) -> None:
    with limited(tmp_path, concurrency=[{"count": 2, "per": "server", "tools": ["nap"]}]) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        started: list[threading.Thread] = []
        for number in range(2):
            body = {"name": "nap", "arguments": {"seconds": 60}}
            message = {"jsonrpc": "2.0", "id": f"n{number}", "method": "tools/call", "params": body}
            started.append(threading.Thread(target=caller.post, args=(message,), daemon=True))
            started[-1].start()
        eventually(lambda: gateway.in_flight("one") == 2, "both to run")
        refused = caller.tool("nap", {"seconds": 60}).error
        assert "already" in refused["message"]
        assert refused["data"]["retryAfterSeconds"] >= 1
        modern = Caller(gateway.address, "one").modern_tool("nap", {"seconds": 60})
        assert (modern.status, modern.headers["retry-after"]) == (429, "1")
        assert "result" in caller.tool("echo", {"text": "x"}).message
        for number in range(2):
            caller.post(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"n{number}"}}
            )
        eventually(lambda: gateway.in_flight("one") == 0, "both to end")
        assert "result" in caller.tool("nap", {"seconds": 0}).message


@pytest.mark.e2e
def test_a_call_that_is_taken_back_at_once_does_not_count_for_ever(tmp_path: Path) -> None:
    limits = {"concurrency": [{"count": 2, "per": "server"}]}
    server = stdio_server("one", tmp_path / "one")
    with running_gateway(tmp_path, [server], limits=limits, telemetry={"prometheus": True}) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize("2025-03-26")
        call = {"method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}}
        for number in range(3):
            cancel = {"method": "notifications/cancelled", "params": {"requestId": f"c{number}"}}
            batch = [{"jsonrpc": "2.0", "id": f"c{number}", **call}, {"jsonrpc": "2.0", **cancel}]
            assert caller.post(batch).body == b""
        assert "result" in caller.tool("echo", {"text": "x"}).message
        numbers = caller.send("GET", "/metrics", b"", {}).body.decode()
        assert "\nmooring_active_requests 0\n" in numbers


@pytest.mark.e2e
@pytest.mark.parametrize(
    "settings",
    [
        {"limits": {"concurrency": [{"count": 2, "per": "tool", "tools": ["doze"]}]}},
        {"sessions": {"max_in_flight_per_session": 2}},
    ],
    ids=["concurrency", "per session"],
)
def test_a_call_counts_as_long_as_its_task_runs(tmp_path: Path, settings: Any) -> None:
    server = stdio_server("one", tmp_path / "one", tools={"override": {"nap": {"name": "doze"}}})
    with running_gateway(tmp_path, [server], **settings) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        body = {"name": "doze", "arguments": {"seconds": 60}, "task": {}}
        tasks = [caller.request("tools/call", body).result["task"]["taskId"] for _ in range(2)]
        assert "already" in caller.request("tools/call", body).error["message"]
        for task in tasks:
            assert caller.request("tasks/cancel", {"taskId": task}).result["status"] == "cancelled"
        eventually(lambda: "result" in caller.request("tools/call", body).message, "the limit to be free")


def test_a_flood_of_busy_keys_is_not_looked_through_for_each_of_them() -> None:
    gcra = Gcra(1, 3600.0, 1)
    looks = 0

    class Counting(dict[str, float]):
        def items(self) -> Any:
            nonlocal looks
            looks += 1
            return super().items()

    for number in range(MAX_KEYS + 1000):
        gcra.wait(str(number), 0.0)
        if type(gcra._arrivals) is dict:  # pyright: ignore[reportPrivateUsage]
            gcra._arrivals = Counting(gcra._arrivals)  # pyright: ignore[reportPrivateUsage]
    assert looks <= 2
    assert len(gcra._arrivals) <= MAX_KEYS  # pyright: ignore[reportPrivateUsage]


@contextmanager
def redis(folder: Path, port: int) -> Iterator[None]:
    server = program("redis-server", "redis-server")
    command = [server, "--port", str(port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: _accepts(port), "redis to listen")
            yield
        finally:
            process.kill()
            process.wait(5)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.mark.e2e
def test_two_gateways_count_together_in_redis(tmp_path: Path) -> None:
    port = free_port()
    store = {"url": f"redis://127.0.0.1:{port}/0", "when_unavailable": "closed"}
    rate = [{"count": 5, "seconds": 3600, "per": "principal"}]
    with (
        redis(tmp_path, port),
        limited(tmp_path / "a", rate=rate, rate_store=store) as first,
        limited(tmp_path / "b", rate=rate, rate_store=store) as second,
    ):
        callers = [Caller(gateway.address, "one") for gateway in (first, second)]
        passed = ["result" in callers[number % 2].modern("tools/list").message for number in range(7)]
        assert passed == [True] * 5 + [False] * 2
        assert callers[0].modern("tools/list").error["data"]["retryAfterSeconds"] > 60


@pytest.mark.e2e
@pytest.mark.parametrize("choice", ["open", "closed"])
def test_without_redis_the_choice_is_followed_and_said(tmp_path: Path, choice: str) -> None:
    port = free_port()
    store = {"url": f"redis://127.0.0.1:{port}/0", "when_unavailable": choice}
    rate = [{"count": 1000, "per": "all"}]
    with limited(tmp_path, rate=rate, rate_store=store) as gateway:
        caller = Caller(gateway.address, "one")
        assert ("result" in caller.modern("tools/list").message) is (choice == "open")
        said = "let through" if choice == "open" else "refused"
        assert "cannot be counted" in gateway.log()
        assert said in gateway.log()
        report = gateway.get("/healthz")
        assert report["status"] == "degraded"
        assert any(said in reason for reason in report["servers"]["one"]["reasons"])
        with redis(tmp_path, port):
            eventually(lambda: "result" in caller.modern("tools/list").message, "redis to be used")
            eventually(lambda: "are counted again" in gateway.log(), "it to be said")
            assert gateway.get("/healthz")["status"] == "ok"
        # It dies while requests come in.
        eventually(
            lambda: (
                ("result" in caller.modern("tools/list").message) is (choice == "open")
                and gateway.get("/healthz")["status"] == "degraded"
            ),
            "the loss to be noticed",
        )
        assert gateway.log().count("cannot be counted") == 2
