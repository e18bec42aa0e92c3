"""What the sandbox adds to the start of a server: as a plain child, in bwrap alone, and in ours.

Each start is a dial until the server has answered `initialize`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mooring.protocol.jsonrpc import Envelope
from mooring.transports.child import Command
from mooring.transports.dialing import Dialer, ProcessDialer, Transport
from mooring.transports.wire import Leg
from mooring.workloads.runtime import CommandSource, RunningWorkload, WorkloadSpec
from mooring.workloads.sandbox.plan import system_arguments
from mooring.workloads.sandbox_runtime import ProcessRuntime

SERVER = Path(__file__).parents[1] / "examples" / "notes_server.py"
ARGV = ("/usr/bin/python3", "-S", str(SERVER))
INITIALIZE = msgspec.Raw(
    b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}'
)


class Starts:
    """Starts the server one way or another; a context manager, since a workload has to be stopped again."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mooring-bench-"))
        self._runner = asyncio.Runner()
        self._workload: RunningWorkload | None = None
        self._dialers: dict[str, Dialer] = {"plain": _plain(ARGV), "bwrap": _plain(_bare())}

    def __enter__(self) -> Self:
        try:
            self._workload = self._runner.run(self._prepare())
        except BaseException:
            self._close()
            raise
        self._dialers["sandboxed"] = self._workload.dialer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workload is not None:
            self._runner.run(self._workload.stop())
        self._close()

    def _close(self) -> None:
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _prepare(self) -> RunningWorkload:
        runtime = ProcessRuntime(self._folder)
        if problem := await runtime.problem():
            raise OSError(problem)
        spec = WorkloadSpec("bench", CommandSource(ARGV))
        return await runtime.start(spec, await runtime.prepare(spec, lambda _: None), {}, lambda _: None)

    def milliseconds(self, way: str) -> float:
        """One start, `plain`, `bwrap` or `sandboxed`."""
        return self._runner.run(_start_once(self._dialers[way]))


class _Silent:
    """A session that listens to nothing."""

    tracing = False

    def on_traffic(self, direction: str, data: bytes) -> None: ...
    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None: ...
    def on_noise(self, data: bytes, why: str) -> None: ...
    def on_lost(self, reason: str) -> None: ...


async def _start_once(dialer: Dialer) -> float:
    began = time.perf_counter()
    wire = await dialer.dial(Transport.STDIO, _Silent())
    await wire.request(Leg("initialize", INITIALIZE, on_message=lambda *_: None))
    answered = time.perf_counter()
    await wire.close()
    return (answered - began) * 1000


def _plain(argv: tuple[str, ...]) -> Dialer:
    return ProcessDialer(
        Command(argv, {}), server_id="bench", max_message_bytes=1024**2, on_log=lambda _: None
    )


def _bare() -> tuple[str, ...]:
    """The same namespaces and mounts with nothing of ours: what no sandbox of this kind can do without."""
    unshared = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    folder = str(SERVER.parent)
    return (
        *("bwrap", *unshared, "--die-with-parent", "--cap-drop", "ALL", *system_arguments()),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", folder, folder),
        *("--", *ARGV),
    )
