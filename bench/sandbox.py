"""`python -m bench.sandbox`: what the sandbox adds to the start of a server, in time and in memory.

Each start is a dial until the server has answered `initialize`, sandboxed and as a plain child in turn, so
that both see the same machine. On a busy machine look at the fastest: what others add is in the median.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from mooring.protocol.jsonrpc import Envelope
from mooring.transports.child import Command
from mooring.transports.dialing import Dialer, ProcessDialer, Transport
from mooring.transports.wire import Leg
from mooring.workloads.runtime import CommandSource, RunningWorkload, WorkloadSpec
from mooring.workloads.sandbox_runtime import ProcessRuntime

GOAL_MILLISECONDS = 30.0
ARGV = ("/usr/bin/python3", "-S", str(Path(__file__).parents[1] / "examples/notes_server.py"))
INITIALIZE = msgspec.Raw(
    b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}'
)


class _Silent:
    """A session that listens to nothing."""

    tracing = False

    def on_traffic(self, direction: str, data: bytes) -> None: ...
    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None: ...
    def on_noise(self, data: bytes, why: str) -> None: ...
    def on_lost(self, reason: str) -> None: ...


async def _start_once(dialer: Dialer) -> float:
    """Milliseconds from the dial to the first answer."""
    began = time.perf_counter()
    wire = await dialer.dial(Transport.STDIO, _Silent())
    await wire.request(Leg("initialize", INITIALIZE, on_message=lambda *_: None))
    answered = time.perf_counter()
    await wire.close()
    return (answered - began) * 1000


def _plain() -> Dialer:
    command = Command(ARGV, {})
    return ProcessDialer(command, server_id="plain", max_message_bytes=1024**2, on_log=lambda _: None)


async def _sandboxed(runtime: ProcessRuntime) -> RunningWorkload:
    spec = WorkloadSpec("bench", CommandSource(ARGV))
    return await runtime.start(spec, await runtime.prepare(spec, lambda _: None), {}, lambda _: None)


async def _measure(rounds: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        runtime = ProcessRuntime(Path(folder))
        if problem := await runtime.problem():
            print(problem, file=sys.stderr)
            return 1
        plain, sandboxed = _plain(), await _sandboxed(runtime)
        figures: dict[str, list[float]] = {"plain": [], "sandboxed": []}
        for _ in range(rounds):
            figures["plain"].append(await _start_once(plain))
            figures["sandboxed"].append(await _start_once(sandboxed.dialer))
        await sandboxed.stop()
        before = _own_memory()
        many = [await _sandboxed(runtime) for _ in range(50)]
        each = (_own_memory() - before) / len(many) / 1024
        for workload in many:
            await workload.stop()
    return _report(figures, each)


def _own_memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _report(figures: dict[str, list[float]], each: float) -> int:
    for name, found in figures.items():
        middle = statistics.median(found)
        print(f"{name:10} {middle:7.1f} ms until the first answer, fastest {min(found):.1f} ms")
    median = statistics.median(figures["sandboxed"]) - statistics.median(figures["plain"])
    fastest = min(figures["sandboxed"]) - min(figures["plain"])
    print(f"the sandbox adds {median:.1f} ms, {fastest:.1f} at best (goal: at most {GOAL_MILLISECONDS:g})")
    print(f"a started workload adds {each:.0f} kB to the daemon (goal: at most 1024)")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    sys.exit(asyncio.run(_measure(parser.parse_args().rounds)))
