"""Files as bodies: every byte arrives, whatever the client does about reading; and nothing stays open."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from http_edge_tools import BACKEND_NAMES, BACKENDS, LIMIT_SECONDS, TEXT, Routes, serving, until

from mooring.transports.http_listener import ListenerLimits, Reply, Request

pytestmark = pytest.mark.anyio

SIZE = 24 * 1024 * 1024
GET = b"GET /file HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    block = os.urandom(1024 * 1024)
    with path.open("wb") as stream:
        for number in range(SIZE // len(block)):
            stream.write(number.to_bytes(8, "big") + block[8:])
    return path


class Files(Routes):
    """Answers `/file` with a file, from and up to somewhere."""

    def __init__(self, path: Path, start: int = 0, stop: int = SIZE, length: int | None = None) -> None:
        super().__init__(buffered={b"/file": self._send})
        self._path = path
        self._span = start, stop
        self._length = stop - start if length is None else length
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.ended = asyncio.Event()
        self.replies: list[Reply] = []
        self.failures: list[OSError | RuntimeError] = []

    def _send(self, request: Request, reply: Reply) -> None:
        del request
        self.spawn(self._sending(reply))

    async def _sending(self, reply: Reply) -> None:
        self.replies.append(reply)
        reply.start(200, TEXT, length=self._length, compress=False)
        assert reply.takes_files()
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            await self.may_begin.wait()
            await reply.write_file(descriptor, *self._span)
        except (OSError, RuntimeError) as error:
            self.failures.append(error)
        finally:
            os.close(descriptor)
            reply.end()
            self.ended.set()


@pytest.fixture
async def open_files() -> AsyncIterator[None]:
    """Whatever was opened is closed again."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    # The look itself opens one.
    await until(lambda: len(set(os.listdir("/proc/self/fd")) - before) <= 1)


async def _body(reader: asyncio.StreamReader, size: int) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % size in head
    return await reader.readexactly(size)


async def test_a_file_arrives_whole_and_the_connection_goes_on(file: Path, open_files: None) -> None:
    del open_files
    async with serving(Files(file)) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(GET)
            assert await _body(reader, SIZE) == file.read_bytes()
        writer.close()


async def test_requests_sent_ahead_are_answered_in_order(file: Path) -> None:
    async with serving(Files(file, 5, 70_005)) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"GET /other HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + GET)
        assert await _body(reader, 70_000) == file.read_bytes()[5:70_005]
        assert await _body(reader, 11) == b"GET\n/other\n"
        assert await _body(reader, 70_000) == file.read_bytes()[5:70_005]
        writer.close()


async def test_a_client_that_reads_late_gets_everything(file: Path) -> None:
    async with serving(Files(file)) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(GET)
        await asyncio.sleep(0.3)
        assert await _body(reader, SIZE) == file.read_bytes()
        writer.close()


async def test_a_client_that_never_reads_is_cut_off(file: Path, open_files: None) -> None:
    del open_files
    routes = Files(file)
    limits = ListenerLimits(write_stall_seconds=0.5)
    async with serving(routes, limits) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(GET)
            await routes.ended.wait()


async def test_a_client_that_leaves_ends_the_sending(file: Path, open_files: None) -> None:
    del open_files
    routes = Files(file)
    async with serving(routes) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(GET)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_recv(client, 100)
        await routes.ended.wait()


async def test_a_file_that_is_shorter_than_announced_does_not_pass_for_whole(file: Path) -> None:
    async with serving(Files(file, 0, SIZE + 10)) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        with pytest.raises(asyncio.IncompleteReadError) as cut:
            await _body(reader, SIZE + 10)
        assert len(cut.value.partial) == SIZE
        writer.close()


async def test_sending_that_is_given_up_leaves_nothing_open(file: Path, open_files: None) -> None:
    del open_files
    routes = Files(file)
    async with serving(routes) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(GET)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_recv(client, 100)
            for task in list(routes.tasks):
                task.cancel()
            await routes.ended.wait()


@pytest.mark.parametrize("reason", [errno.EINVAL, errno.ENOSYS])
async def test_a_file_that_the_kernel_does_not_send_arrives_all_the_same(
    file: Path, open_files: None, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    del open_files
    tried: list[int] = []

    def refuse(out: int, source: int, offset: int, count: int) -> int:
        del out, source, count
        tried.append(offset)
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "sendfile", refuse)
    async with serving(Files(file, 3, SIZE)) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        for _ in range(2):
            writer.write(GET)
            await asyncio.sleep(0.2)  # until nothing more fits in between
            assert await _body(reader, SIZE - 3) == file.read_bytes()[3:]
        writer.close()
    assert tried


@pytest.mark.parametrize("reason", [errno.ETIMEDOUT, errno.EHOSTUNREACH])
async def test_a_client_that_cannot_be_reached_any_more_is_no_failure(
    file: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    def fail(out: int, source: int, offset: int, count: int) -> int:
        del out, source, offset, count
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "sendfile", fail)
    routes = Files(file)
    async with serving(routes) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""
        await routes.ended.wait()
        assert routes.failures == []
        writer.close()


async def test_whoever_leaves_before_the_first_byte_is_no_failure(file: Path) -> None:
    routes = Files(file)
    routes.may_begin.clear()
    async with serving(routes) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        await until(lambda: routes.replies[0].closed)
        routes.may_begin.set()
        await routes.ended.wait()
        assert routes.failures == []


async def test_too_many_open_files_leave_none_behind(
    file: Path, open_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del open_files
    duplicate, made = os.dup, list[int]()

    def limited(descriptor: int) -> int:
        if len(made) % 2:
            made.append(-1)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        made.append(duplicate(descriptor))
        return made[-1]

    monkeypatch.setattr(os, "dup", limited)
    routes = Files(file)
    async with serving(routes) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""
        assert [getattr(error, "errno", None) for error in routes.failures] == [errno.EMFILE]
        writer.close()


async def test_threads_that_wait_for_something_else_hold_nothing_up(file: Path) -> None:
    loop, go_on = asyncio.get_running_loop(), threading.Event()
    async with serving(Files(file)) as (_, port), asyncio.timeout(LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        loop.set_default_executor(ThreadPoolExecutor(1))
        waiting = loop.run_in_executor(None, go_on.wait, LIMIT_SECONDS)
        try:
            async with asyncio.timeout(LIMIT_SECONDS / 2):
                writer.write(GET)
                assert await _body(reader, SIZE) == file.read_bytes()
        finally:
            go_on.set()
            await waiting
            writer.close()
