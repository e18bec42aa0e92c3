"""TLS on both edges, with a certificate made for the test."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from http_edge_tools import BACKEND_NAMES, BACKENDS, TEXT, Routes, connected, request, serving, until
from tests.support.certificates import write_certificate

from mooring.transports.http_client import ClientLimits, ClientPool, Origin, shared_tls_context
from mooring.transports.http_errors import ConnectFailed
from mooring.transports.http_listener import ListenerLimits, Reply

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls"))


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def client_context(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


async def test_requests_over_tls_are_secure_and_share_a_connection(certificate: Path) -> None:
    routes = Routes()
    async with (
        serving(routes, ssl_context=server_context(certificate)) as (listener, port),
        ClientPool(
            Origin("https", "localhost", port), ClientLimits(), lambda: client_context(certificate)
        ) as pool,
    ):
        for size in (0, 10, 1_000_000):
            response = await pool.request(b"POST", b"/a", b"", b"x" * size)
            assert await response.read(1 << 21) == b"POST\n/a\n" + b"x" * size
        assert listener.connection_count == 1
    assert all(seen.secure for seen in routes.seen)


async def test_a_stream_over_tls_arrives_event_by_event(certificate: Path) -> None:
    replies: list[Reply] = []
    events: asyncio.Queue[bytes] = asyncio.Queue()
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with (
        serving(routes, ssl_context=server_context(certificate)) as (_, port),
        ClientPool(
            Origin("https", "localhost", port), ClientLimits(), lambda: client_context(certificate)
        ) as pool,
    ):
        asking = asyncio.ensure_future(pool.request(b"GET", b"/s", b"", b""))
        await until(lambda: bool(replies))
        replies[0].start(200, TEXT)
        response = await asking
        response.attach(events.put_nowait, lambda _: None)
        for index in range(10):
            replies[0].write(b"%d" % index)
            async with asyncio.timeout(5):
                assert await events.get() == b"%d" % index
        response.abort()
        await until(lambda: replies[0].closed)


async def test_a_certificate_of_somebody_else_is_a_failed_connect(certificate: Path) -> None:
    async with (
        serving(Routes(), ssl_context=server_context(certificate)) as (_, port),
        ClientPool(Origin("https", "localhost", port)) as pool,
    ):
        with pytest.raises(ConnectFailed, match="certificate is not valid"):
            await pool.request(b"GET", b"/", b"", b"")
        assert pool.open_count == 0


async def test_plain_http_to_a_tls_port_is_a_failed_connect_and_harms_nobody(certificate: Path) -> None:
    async with serving(Routes(), ssl_context=server_context(certificate)) as (listener, port):
        async with connected(port) as peer:
            peer.send(request())
            await peer.rest()
        assert listener.connection_count == 0
        async with connected(port, ssl_context=client_context(certificate)) as peer:
            assert (await peer.ask(request())).status == 200


async def test_tls_to_a_plain_port_is_a_failed_connect() -> None:
    async with serving(Routes()) as (_, port), ClientPool(Origin("https", "localhost", port)) as pool:
        with pytest.raises(ConnectFailed, match="TLS handshake failed"):
            await pool.request(b"GET", b"/", b"", b"")


async def test_a_handshake_that_never_comes_is_dropped(certificate: Path) -> None:
    limits = ListenerLimits(header_seconds=0.5)
    async with (
        serving(Routes(), limits, server_context(certificate)) as (_, port),
        connected(port) as peer,
    ):
        async with asyncio.timeout(5):
            assert await peer.rest() == b""


async def test_a_refusal_over_tls_is_readable(certificate: Path) -> None:
    async with (
        serving(Routes(max_body_bytes=10), ssl_context=server_context(certificate)) as (_, port),
        connected(port, ssl_context=client_context(certificate)) as peer,
    ):
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 100_000)
        assert (await peer.answer()).status == 413


async def test_a_vanished_tls_client_is_noticed(certificate: Path) -> None:
    gone = asyncio.Event()
    routes = Routes({b"/wait": lambda _, reply: setattr(reply, "on_closed", gone.set)})
    async with (
        serving(routes, ssl_context=server_context(certificate)) as (_, port),
        connected(port, ssl_context=client_context(certificate)) as peer,
    ):
        peer.send(request(b"/wait"))
        await until(lambda: bool(routes.seen))
        assert not gone.is_set()
        peer.close()
        async with asyncio.timeout(5):
            await gone.wait()


async def test_the_certificates_of_the_system_are_loaded_once_and_only_for_https() -> None:
    shared_tls_context.cache_clear()
    async with serving(Routes()) as (_, port), ClientPool(Origin("http", "127.0.0.1", port)) as pool:
        await pool.request(b"GET", b"/", b"", b"")
    assert shared_tls_context.cache_info().currsize == 0
    assert shared_tls_context() is shared_tls_context()
