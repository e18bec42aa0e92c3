"""Standard input and output as a transport: one message per line, and nothing else may be printed there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Generator
from time import monotonic
from typing import Any, Final, Protocol, TextIO, cast

from mooring.authoring.channel import Channel
from mooring.authoring.engine import Engine
from mooring.errors import InvalidRequest
from mooring.protocol.lines import LineReader, Message, Noise, encode_line

LAST_ANSWERS_SECONDS: Final = 2.0
"""A client that ends its input still gets the answers that come soon."""
LOOK_AGAIN_SECONDS: Final = 0.02
BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""A client that reads nothing any more is given up before what waits for it becomes our problem."""
_READ_BYTES: Final = 1 << 16


async def serve(engine: Engine, *, max_message_bytes: int) -> None:
    """Serve the client at the other end of standard input and output until it leaves."""
    with _standard_streams() as (reading, writing):
        ended = asyncio.Event()
        output = await _open_output(writing, ended.set)
        channel = Channel(engine, lambda message: output.write(encode_line(message)))
        lines = LineReader(max_message_bytes)

        def on_data(data: bytes) -> None:
            for line in lines.feed(data) if data else lines.finish():
                if isinstance(line, Message):
                    channel.receive(line.data)
                elif isinstance(line, Noise):
                    channel.refuse(InvalidRequest(f"a line is not a message: {line.why}"))
            if not data:
                ended.set()

        stop_reading = await _open_input(reading, on_data)
        try:
            await ended.wait()
            until = monotonic() + LAST_ANSWERS_SECONDS
            while monotonic() < until:
                if output.broken or not channel.owes_an_answer:
                    break
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
        finally:
            stop_reading()
            channel.close()
            await engine.close()
            output.close()


@contextlib.contextmanager
def _standard_streams() -> Generator[tuple[int, int]]:
    """Take both for the protocol. What else is printed goes to stderr, and what else reads finds the end:
    print() and input() of a handler, of a library in C, of a child process. So does what was printed before,
    as long as it is still in Python's buffer."""
    _flush(sys.stderr)
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _flush(sys.stdout)
    _flush_lines(sys.stdout)
    try:
        yield reading, writing
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.close(reading)
        os.close(writing)


def _flush(stream: TextIO | None) -> None:
    if stream is not None:
        stream.flush()


def _flush_lines(stream: Any) -> None:
    """A stray print should be seen when it is made, as on a terminal."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)


class Output(Protocol):
    broken: bool

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


def _can_be_polled(descriptor: int) -> bool:
    """Pipes and sockets of our own. A terminal is shared with stderr, which must stay a blocking file."""
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


async def _open_input(descriptor: int, on_data: Callable[[bytes], None]) -> Callable[[], None]:
    """Deliver what comes in, then an empty piece at the end; the result stops that."""
    loop = asyncio.get_running_loop()
    if _can_be_polled(descriptor):
        file = os.fdopen(
            os.dup(descriptor), "rb", buffering=0, closefd=isinstance(loop, asyncio.BaseEventLoop)
        )
        transport, _ = await loop.connect_read_pipe(lambda: _Input(on_data), file)
        return transport.close
    stopped = threading.Event()

    def read() -> None:
        data = b"x"
        while data and not stopped.is_set():
            data = os.read(descriptor, _READ_BYTES)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants it any more
                loop.call_soon_threadsafe(on_data, data)

    threading.Thread(target=read, name="mooring-stdin", daemon=True).start()
    return stopped.set


class _Input(asyncio.Protocol):
    def __init__(self, on_data: Callable[[bytes], None]) -> None:
        self._on_data = on_data

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._on_data(b"")


async def _open_output(descriptor: int, on_broken: Callable[[], None]) -> Output:
    if _can_be_polled(descriptor):
        loop = asyncio.get_running_loop()
        file = os.fdopen(
            os.dup(descriptor), "wb", buffering=0, closefd=isinstance(loop, asyncio.BaseEventLoop)
        )
        _, output = await loop.connect_write_pipe(lambda: _PolledOutput(on_broken), file)
        return output
    return _ThreadedOutput(descriptor, on_broken)


class _PolledOutput(asyncio.BaseProtocol):
    def __init__(self, on_broken: Callable[[], None]) -> None:
        self.broken = False
        self._on_broken = on_broken
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._break()

    def pause_writing(self) -> None:
        """What is written regardless waits in memory, up to the backlog."""

    def resume_writing(self) -> None:
        """As above."""

    def write(self, data: bytes) -> None:
        transport = self._transport
        if self.broken or transport is None:
            return
        if transport.get_write_buffer_size() > BACKLOG_BYTES:
            self._break()
            transport.abort()
        else:
            transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _break(self) -> None:
        self.broken = True
        self._on_broken()


class _ThreadedOutput:
    """For files and terminals, which cannot be polled."""

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self.broken = False
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._on_broken = on_broken
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="mooring-stdout", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        if not self.broken:
            self._waiting.put(data)

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join(LAST_ANSWERS_SECONDS)

    def _write_all(self) -> None:
        while (data := self._waiting.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError:
                self.broken = True
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._on_broken)
                return
