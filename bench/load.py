"""Load on one endpoint: wrk where the target is fast, an event loop where it is slow. All is bounded."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from bench import wire
from bench.figures import quantile
from bench.programs import HERE, debian_program
from bench.wire import Connection, Endpoint, Session, WireError

TEXT = "abcdefghij" * 10
PREPARED_REQUESTS = 1024
CONNECTIONS = 32
_SETUP_CONNECTIONS = 16
_STREAMS_PER_ADDRESS = 200
_FIRST_IDENTIFIER = 100_000


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of one burst of calls."""

    calls: int
    seconds: float
    p50_us: float
    p99_us: float

    @property
    def per_second(self) -> float:
        return self.calls / self.seconds


class Streams:
    """GET streams that stay open until they are closed."""

    def __init__(self) -> None:
        self._opened: list[Connection] = []

    def open(self, sessions: Sequence[Session]) -> None:
        """One stream on each session.

        They come from several loopback addresses: thousands of clients do not share one, and a gateway may
        bound what a single address can hold.
        """
        for number, session in enumerate(sessions):
            source = f"127.0.0.{2 + number // _STREAMS_PER_ADDRESS}"
            connection = Connection(session.endpoint.port, source=source)
            self._opened.append(connection)
            head = connection.head(wire.event_stream(session))
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise WireError(f"no event stream: {head[:200]!r}")

    def close(self) -> None:
        for stream in self._opened:
            stream.close()
        self._opened.clear()


def check_echo(connection: Connection, session: Session) -> None:
    """A target is only worth timing when its answer is the right one."""
    result = wire.result_of(
        connection.exchange(wire.tool_call(session, "echo", {"text": TEXT}, identifier=7)), 7
    )
    if result["content"][0]["text"] != TEXT:
        raise WireError(f"echo came back different: {result}")


def one_by_one(endpoint: Endpoint, calls: int, seconds: float) -> Burst:
    """A single connection, one call after the other: each call's own latency."""
    clock = time.perf_counter_ns
    taken: list[float] = []
    with Connection(endpoint.port) as connection:
        session = wire.open_session(connection, endpoint)
        check_echo(connection, session)
        for identifier in range(max(2, calls // 10)):
            connection.exchange(wire.tool_call(session, "echo", {"text": TEXT}, identifier=identifier))
        began = time.perf_counter()
        for identifier in range(_FIRST_IDENTIFIER, _FIRST_IDENTIFIER + calls):
            raw = wire.tool_call(session, "echo", {"text": TEXT}, identifier=identifier)
            start = clock()
            answer = connection.exchange(raw)
            taken.append((clock() - start) / 1000)
            if answer.status != 200:
                raise WireError(f"HTTP {answer.status}: {answer.body[:200]!r}")
            if time.perf_counter() - began > seconds:
                break
        spent = time.perf_counter() - began
        connection.exchange(wire.end_session(session))
    return Burst(len(taken), spent, quantile(taken, 0.5), quantile(taken, 0.99))


def with_wrk(
    sessions: Sequence[Session], seconds: float, *, connections: int = CONNECTIONS, pace_ms: int | None = None
) -> Burst:
    """wrk over prepared calls. As many sessions as connections: each connection keeps its own, like a client.

    Any other number of sessions is spread over all connections, call by call. Then every request names itself
    in a header, as proxies do, so that no head repeats itself by chance: with few sessions one would often.
    """
    is_spread = len(sessions) != connections
    threads = 1 if is_spread else connections
    with tempfile.NamedTemporaryFile(prefix="bench-requests-", suffix=".bin") as prepared:
        prepared.write(_prepare_calls(sessions, named=is_spread))
        prepared.flush()
        environment = {**os.environ, "BENCH_REQUESTS": prepared.name, "BENCH_THREADS": str(threads)}
        if pace_ms is not None:
            environment["BENCH_PACE_MS"] = str(pace_ms)
        command = [
            debian_program("wrk"),
            f"--threads={threads}",
            f"--connections={connections}",
            f"--duration={max(1, round(seconds))}s",
            "--timeout=10s",
            f"--script={HERE / 'calls.lua'}",
            f"http://127.0.0.1:{sessions[0].endpoint.port}/",
        ]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds + 30, check=False
        )
    line = next((line for line in ran.stdout.splitlines() if line.startswith("BENCH ")), None)
    if line is None:
        raise WireError(f"wrk failed: {ran.stdout[-300:]} {ran.stderr[-300:]}")
    said: dict[str, Any] = json.loads(line.removeprefix("BENCH "))
    if said["failed"] or not said["calls"]:
        raise WireError(f"{said['failed']} of {said['calls']} calls failed")
    return Burst(said["calls"], said["seconds"], said["p50_us"], said["p99_us"])


def with_event_loop(
    sessions: Sequence[Session], calls: int, seconds: float, connections: int = CONNECTIONS
) -> Burst:
    """Like wrk, but every call that was started is finished: with slow targets the rest would weigh."""

    async def run() -> Burst:
        opened = [await wire.connect(sessions[0].endpoint.port) for _ in range(connections)]
        taken: list[float] = []
        numbers = iter(range(calls))
        began = time.perf_counter()

        async def work(connection: wire.StreamingConnection, session: Session) -> None:
            for number in numbers:
                if time.perf_counter() - began > seconds:
                    return
                identifier = _FIRST_IDENTIFIER + number
                raw = wire.tool_call(session, "echo", {"text": TEXT}, identifier=identifier)
                start = time.perf_counter()
                wire.result_of(await connection.exchange(raw), identifier)
                taken.append((time.perf_counter() - start) * 1e6)

        await asyncio.gather(*map(work, opened, itertools.cycle(sessions)))
        spent = time.perf_counter() - began
        for connection in opened:
            connection.close()
        return Burst(len(taken), spent, quantile(taken, 0.5), quantile(taken, 0.99))

    return uvloop.run(run())


def set_up_sessions(endpoint: Endpoint, count: int, seconds: float) -> tuple[Burst, list[Session]]:
    """initialize, initialized and tools/list for each session, several at a time; the sessions stay open."""

    async def one(connection: wire.StreamingConnection, opened: list[Session]) -> None:
        session = await wire.open_session_streaming(connection, endpoint)
        opened.append(session)
        listed = await connection.exchange(wire.rpc_request(endpoint, session.identifier, "tools/list", {}))
        if not wire.result_of(listed, 1)["tools"]:
            raise WireError("tools/list came back empty")

    return _many_sessions(endpoint, count, seconds, one)


def open_sessions(endpoint: Endpoint, count: int, seconds: float = 60.0) -> list[Session]:
    """Legacy sessions ready for calls; for a modern client the same number of shares of the load."""

    async def one(connection: wire.StreamingConnection, opened: list[Session]) -> None:
        opened.append(await wire.open_session_streaming(connection, endpoint))

    return _many_sessions(endpoint, count, seconds, one)[1]


def use_sessions(sessions: Sequence[Session], seconds: float = 60.0) -> None:
    """One call on each: a gateway may open what it needs upstream only then."""

    async def one(connection: wire.StreamingConnection, session: Session) -> None:
        raw = wire.tool_call(session, "echo", {"text": TEXT}, identifier=2)
        if wire.result_of(await connection.exchange(raw), 2)["content"][0]["text"] != TEXT:
            raise WireError("echo came back different")

    _on_each(sessions, seconds, one)


def end_sessions(sessions: Sequence[Session], seconds: float = 30.0) -> None:
    """Ends the sessions that have an id."""

    async def one(connection: wire.StreamingConnection, session: Session) -> None:
        await connection.exchange(wire.end_session(session))

    _on_each([session for session in sessions if session.identifier is not None], seconds, one)


def large_results(
    endpoint: Endpoint, size: int, count: int, seconds: float, *, id_last: bool = False
) -> Burst:
    """Results of `size` bytes one after the other on one connection."""
    taken: list[float] = []
    arguments: dict[str, Any] = {"size": size, "id_last": True} if id_last else {"size": size}
    with Connection(endpoint.port) as connection:
        session = wire.open_session(connection, endpoint)
        began = time.perf_counter()
        for identifier in range(_FIRST_IDENTIFIER, _FIRST_IDENTIFIER + count):
            start = time.perf_counter()
            answer = connection.exchange(wire.tool_call(session, "large", arguments, identifier=identifier))
            taken.append((time.perf_counter() - start) * 1e6)
            check_large(answer, size, identifier)
            if time.perf_counter() - began > seconds:
                break
        connection.exchange(wire.end_session(session))
    return Burst(len(taken), sum(taken) / 1e6, quantile(taken, 0.5), quantile(taken, 0.99))


def check_large(answer: wire.Answer, size: int, identifier: int) -> None:
    # As events it has a few small parts before and after it.
    edges = b"".join(answer.parts[:5])[:1000] + b"".join(answer.parts[-5:])[-1000:]
    if answer.status != 200 or answer.size < size or b'"id":%d' % identifier not in edges.replace(b" ", b""):
        raise WireError(f"HTTP {answer.status}, {answer.size} of {size} bytes: {answer.parts[0][:200]!r}")


def progress_calls(endpoint: Endpoint, events: int, count: int, seconds: float) -> tuple[Burst, float]:
    """Calls that report `events` times in a burst; also how many of them arrived per call, in order."""
    taken: list[float] = []
    delivered = 0
    with Connection(endpoint.port) as connection:
        session = wire.open_session(connection, endpoint)
        began = time.perf_counter()
        for identifier in range(_FIRST_IDENTIFIER, _FIRST_IDENTIFIER + count):
            raw = wire.tool_call(
                session, "progress", {"count": events}, identifier=identifier, token=identifier
            )
            start = time.perf_counter()
            answer = connection.exchange(raw)
            taken.append((time.perf_counter() - start) * 1e6)
            wire.result_of(answer, identifier)
            delivered += in_order(answer, identifier)
            if time.perf_counter() - began > seconds:
                break
        connection.exchange(wire.end_session(session))
    burst = Burst(len(taken), sum(taken) / 1e6, quantile(taken, 0.5), quantile(taken, 0.99))
    return burst, delivered / len(taken)


def in_order(answer: wire.Answer, token: int) -> int:
    """How many progress events came, counting only those that continue 1, 2, 3, …"""
    expected = 1
    for message in wire.messages(answer):
        params = message.get("params", {})
        if message.get("method") == "notifications/progress" and params.get("progressToken") == token:
            expected += params["progress"] == expected
    return expected - 1


def _many_sessions(
    endpoint: Endpoint,
    count: int,
    seconds: float,
    one: Callable[[wire.StreamingConnection, list[Session]], Awaitable[None]],
) -> tuple[Burst, list[Session]]:
    async def run() -> tuple[Burst, list[Session]]:
        connections = [await wire.connect(endpoint.port) for _ in range(min(count, _SETUP_CONNECTIONS))]
        opened: list[Session] = []
        taken: list[float] = []
        numbers = iter(range(count))
        began = time.perf_counter()

        async def work(connection: wire.StreamingConnection) -> None:
            for _ in numbers:
                if time.perf_counter() - began > seconds:
                    return
                start = time.perf_counter()
                await one(connection, opened)
                taken.append((time.perf_counter() - start) * 1e6)

        await asyncio.gather(*map(work, connections))
        spent = time.perf_counter() - began
        for connection in connections:
            connection.close()
        return Burst(len(taken), spent, quantile(taken, 0.5), quantile(taken, 0.99)), opened

    return uvloop.run(run())


def _on_each(
    sessions: Sequence[Session],
    seconds: float,
    one: Callable[[wire.StreamingConnection, Session], Awaitable[None]],
) -> None:
    if not sessions:
        return

    async def run() -> None:
        connections = [await wire.connect(sessions[0].endpoint.port) for _ in range(_SETUP_CONNECTIONS)]
        left = iter(sessions)

        async def work(connection: wire.StreamingConnection) -> None:
            for session in left:
                await one(connection, session)

        await asyncio.wait_for(asyncio.gather(*map(work, connections)), seconds)
        for connection in connections:
            connection.close()

    uvloop.run(run())


def _prepare_calls(sessions: Sequence[Session], *, named: bool) -> bytes:
    shares = -(-PREPARED_REQUESTS // len(sessions))
    prepared: list[bytes] = []
    for number in range(shares * len(sessions)):
        session = sessions[number % len(sessions)]
        raw = wire.tool_call(session, "echo", {"text": TEXT}, identifier=_FIRST_IDENTIFIER + number)
        if named:
            raw = raw.replace(b"\r\n", b"\r\nX-Request-Id: %d\r\n" % number, 1)
        prepared.append(b"%d\n%b" % (len(raw), raw))
    return b"".join(prepared)
