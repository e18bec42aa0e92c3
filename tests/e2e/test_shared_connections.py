"""Connections that many share: a proxy's to us, and ours to servers of one origin. Nobody gets what is
another's."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.gateway import Gateway, Journal, http_server, running_gateway
from tests.support.peers import StreamablePeer

ACCEPT = "application/json, text/event-stream"
ESTABLISHED = "01"


class Proxy:
    """One connection to the gateway, on which requests of many clients take turns; each has a name."""

    def __init__(self, gateway: Gateway) -> None:
        parts = urlsplit(gateway.address)
        assert parts.hostname is not None
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
        self._number = 0

    def send(self, server: str, session: str | None, message: Any, **more: str) -> tuple[int, Any]:
        self._number += 1
        headers = {"Content-Type": "application/json", "Accept": ACCEPT, "X-Request-Id": str(self._number)}
        if session is not None:
            headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        body = json.dumps(message, separators=(",", ":"))
        self.connection.request("POST", f"/mcp/{server}", body, {**headers, **more})
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def echo(self, server: str, session: str | None, text: str, **more: str) -> tuple[int, Any]:
        params = {"name": "echo", "arguments": {"text": text}}
        call = {"jsonrpc": "2.0", "id": self._number + 1, "method": "tools/call", "params": params}
        status, answer = self.send(server, session, call, **more)
        if status != 200 or "result" not in answer:
            return status, answer
        assert answer["id"] == call["id"]
        return status, answer["result"]["content"][0]["text"]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Two servers at one address, and one elsewhere."""
    with ExitStack() as stack:
        first = stack.enter_context(http_server("first", Journal(tmp_path / "one").path))
        third = stack.enter_context(http_server("third", Journal(tmp_path / "two").path))
        servers = [first, {**first, "id": "second"}, third]
        yield stack.enter_context(running_gateway(tmp_path / "g", servers))


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[Proxy]:
    made = Proxy(gateway)
    with closing(made.connection):
        yield made


def id_of(peer: StreamablePeer) -> str:
    return peer.headers_for({})["Mcp-Session-Id"]


def test_calls_of_many_sessions_on_one_connection_are_kept_apart(gateway: Gateway, proxy: Proxy) -> None:
    names = ("first", "second", "third")
    with ExitStack() as stack:
        peers = {
            f"{name}-{number}": stack.enter_context(StreamablePeer(gateway, name))
            for name in names
            for number in range(2)
        }
        for turn in range(4):
            for who, peer in peers.items():
                server = who.partition("-")[0]
                assert proxy.echo(server, id_of(peer), f"{who} {turn}") == (200, f"{who} {turn}")


def test_a_session_is_of_its_server_whatever_the_connection_brought_before(
    gateway: Gateway, proxy: Proxy
) -> None:
    with StreamablePeer(gateway, "first") as peer:
        session = id_of(peer)
        for text in ("a", "b", "c"):
            assert proxy.echo("first", session, text) == (200, text)
        assert proxy.echo("second", session, "not here")[0] == 404
        assert proxy.echo("first", session[:-1] + ("A" if session[-1] != "A" else "B"), "forged")[0] == 404
        assert proxy.echo("first", None, "no session")[0] == 400
        assert proxy.echo("first", session, "d") == (200, "d")
    assert proxy.echo("first", session, "after the end")[0] == 404


def test_what_is_not_meant_for_the_short_way_is_still_looked_at(gateway: Gateway, proxy: Proxy) -> None:
    with StreamablePeer(gateway, "first") as peer:
        session = id_of(peer)
        for text in ("a", "b"):
            assert proxy.echo("first", session, text) == (200, text)
        status, answer = proxy.echo("first", session, "c", **{"MCP-Protocol-Version": "1999-01-01"})
        assert status == 400
        assert "1999-01-01" in answer["error"]["message"]
        assert proxy.echo("first", session, "d", **{"Content-Type": "text/plain"})[0] == 415
        assert (
            proxy.send("first", session, {"jsonrpc": "2.0", "method": "notifications/initialized"})[0] == 202
        )
        status, answer = proxy.send("first", session, {"jsonrpc": "2.0", "id": 7, "method": "nothing/here"})
        assert answer["error"]["code"] == -32601
        assert proxy.echo("first", session, "e") == (200, "e")


def test_servers_of_one_address_are_reached_over_the_connections_that_are_free(
    gateway: Gateway, proxy: Proxy
) -> None:
    with StreamablePeer(gateway, "first") as one, StreamablePeer(gateway, "second") as two:
        for turn in range(10):
            assert proxy.echo("first", id_of(one), f"{turn}") == (200, f"{turn}")
            assert proxy.echo("second", id_of(two), f"{turn}") == (200, f"{turn}")
            assert _connections_to("first", gateway) == 1


def _connections_to(server: str, gateway: Gateway) -> int:
    """How many connections there are to the address of a server."""
    servers = json.loads((gateway.folder / "mooring.yaml").read_text())["servers"]
    port = next(urlsplit(each["upstream"]["url"]).port for each in servers if each["id"] == server)
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(1 for line in lines if line[2].endswith(f":{port:04X}") and line[3] == ESTABLISHED)
