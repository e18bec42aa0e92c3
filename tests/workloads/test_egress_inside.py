"""The way out of a real sandbox: what gets through, what does not, and that it is written down."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.workloads.sandbox_tools import hostile

from mooring.workloads.profile import NETWORK, Network, Outbound, PermissionProfile
from mooring.workloads.sandbox import bubblewrap

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
]


class _Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        place = self.path.partition("to=")[2]
        body = f"hello from {self.headers['Host']}".encode()
        self.send_response(302 if place else 200)
        if place:
            self.send_header("Location", place)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])

    def log_message(self, *_: object) -> None: ...


@contextmanager
def site() -> Iterator[int]:
    """A web server on loopback, as people have them."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def allowing(*hosts: str, ports: tuple[int, ...] = ()) -> PermissionProfile:
    return PermissionProfile(network=Network(outbound=Outbound(allow_host=hosts, allow_port=ports)))


@pytest.mark.anyio
async def test_an_allowed_host_is_reached_through_the_proxy_and_nothing_else(tmp_path: Path) -> None:
    with site() as port, site() as other:
        async with hostile(tmp_path / "data", allowing("localhost", ports=(port,))) as attacker:
            # The variables keep `localhost` away from the proxy, so the attacker asks it directly.
            here = f"http://localhost:{port}"
            answer = await attacker.allowed("second_request", first=here, second=f"{here}/again")
            assert answer.count("200 OK hello from localhost") == 2
            assert "200" in await attacker.allowed("tunnel", target=f"localhost:{port}")
            assert await attacker.allowed("socks", host="localhost", port=str(port)) == "connected"
            assert "403" in await attacker.allowed("tunnel", target=f"localhost:{other}")
            assert "SOCKS answer 2" in await attacker.refused("socks", host="localhost", port=str(other))
            assert "Connection refused" in await attacker.refused("connect", host="127.0.0.1", port=str(port))


@pytest.mark.anyio
async def test_a_forbidden_host_is_refused_by_name_and_by_address_and_written_down(tmp_path: Path) -> None:
    async with hostile(tmp_path / "data", allowing("allowed.example")) as attacker:
        assert "HTTP 403" in await attacker.refused("fetch", url="http://forbidden.example/")
        assert "403" in await attacker.refused("fetch", url="https://forbidden.example/")
        assert "403" in await attacker.allowed("tunnel", target="93.184.215.14:443")
        assert "403" in await attacker.allowed("tunnel", target="[::1]:22")
        assert "403" in await attacker.allowed("tunnel", target="169.254.169.254:80")
        seen = [(refusal.target, refusal.reason) for refusal in attacker.refusals()]
        assert ("forbidden.example:80", "`forbidden.example` is not in `network.outbound.allow_host`") in seen
        assert [target for target, _ in seen] == [
            "forbidden.example:80",
            "forbidden.example:443",
            "93.184.215.14:443",
            "[::1]:22",
            "169.254.169.254:80",
        ]
        assert tuple(attacker.refusals()) == attacker.workload.refusals


@pytest.mark.anyio
async def test_nothing_gets_past_the_proxy(tmp_path: Path) -> None:
    async with hostile(tmp_path / "data", NETWORK) as attacker:
        await attacker.refused("connect", host="93.184.215.14", port="80")
        await attacker.refused("connect", host="example.com", port="80")
        await attacker.refused("send_datagram", host="93.184.215.14", port="53")


@pytest.mark.anyio
async def test_the_whole_internet_does_not_include_this_machine(tmp_path: Path) -> None:
    with site() as port:
        async with hostile(tmp_path / "data", NETWORK) as attacker:
            for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0"):
                assert "403" in await attacker.allowed("tunnel", target=f"{host}:{port}"), host
                await attacker.refused("socks", host=host.strip("[]"), port=str(port))


@pytest.mark.anyio
async def test_a_redirect_is_followed_only_to_where_it_may_lead(tmp_path: Path) -> None:
    unproxied = {"no_proxy": "", "NO_PROXY": ""}
    with site() as port, site() as other:
        async with hostile(
            tmp_path / "data", allowing("127.0.0.1", ports=(port,)), env=unproxied
        ) as attacker:
            here = f"http://127.0.0.1:{port}"
            assert "hello" in await attacker.allowed("fetch", url=f"{here}/?to={here}/end")
            answer = await attacker.refused("fetch", url=f"{here}/?to=http://127.0.0.1:{other}/")
            assert "HTTP 403" in answer
            assert "HTTP 403" in await attacker.refused("fetch", url=f"{here}/?to=http://localhost:{port}/")


@pytest.mark.anyio
async def test_every_request_on_a_kept_connection_is_judged(tmp_path: Path) -> None:
    with site() as port:
        async with hostile(tmp_path / "data", allowing("localhost", ports=(port,))) as attacker:
            answer = await attacker.allowed(
                "second_request", first=f"http://localhost:{port}/", second=f"http://127.0.0.1:{port}/"
            )
            first, second = answer.split(" | ")
            assert "200" in first
            assert "403" in second
