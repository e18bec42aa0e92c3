"""Servers at a URL that become another one under it, and a gateway that is reached over TLS."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.certificates import write_certificate
from tests.support.gateway import Journal, http_server, running_gateway, stdio_server
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


class Relay:
    """A port that leads to one server today and to another tomorrow."""

    def __init__(self) -> None:
        self.target: int | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, url: str | None) -> str:
        """Cut every connection; new ones lead there. The same URL, by way of this port."""
        self.target = urlsplit(url).port if url else None
        for each in self._open:
            _cut(each)
        self._open.clear()
        return urlsplit(url or "")._replace(netloc=f"127.0.0.1:{self.port}").geturl()

    def close(self) -> None:
        self.lead_to(None)
        _cut(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.target is None:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.target))
                self._open += (client, server)
                threading.Thread(target=_relay, args=(client, server), daemon=True).start()


def _relay(client: socket.socket, server: socket.socket) -> None:
    with client, server:
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _cut(source)
    _cut(sink)


def _cut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay() -> Iterator[Relay]:
    made = Relay()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("after", ["legacy", "modern"])
@pytest.mark.parametrize("before", ["legacy", "modern"])
def test_a_server_that_comes_back_is_found_out_about_again(tmp_path: Path, before: str, after: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(http_server("r", tmp_path / "first", before))
        second = stack.enter_context(http_server("r", tmp_path / "second", after))
        way = stack.enter_context(relay())
        url = way.lead_to(first["upstream"]["url"])
        entry = {"id": "r", "upstream": {"url": url}, "breaker": {"failures": 3, "open_seconds": 1}}
        gateway = stack.enter_context(running_gateway(tmp_path, [entry]))
        old = stack.enter_context(StreamablePeer(gateway, "r"))
        modern = stack.enter_context(ModernHttpPeer(gateway, "r"))
        for peer in (old, modern):
            assert said_by(peer, "one") == "one"
        assert gateway.status("r")["era"] == before

        way.lead_to(None)
        with pytest.raises(RpcRefused):
            modern.tool("echo", {"text": "two"})
        assert gateway.status("r")["state"] == "down"

        way.lead_to(second["upstream"]["url"])
        eventually(lambda: works(modern), "the server to be used again", limit=30)
        new = stack.enter_context(StreamablePeer(gateway, "r"))
        for peer in (modern, old, new):
            assert said_by(peer, "three") == "three"
        status = gateway.status("r")
        assert (status["state"], status["era"]) == ("up", after)


@pytest.mark.parametrize("kind", [StreamablePeer, ModernHttpPeer])
def test_a_server_that_is_replaced_by_one_of_before_costs_no_call(tmp_path: Path, kind: Any) -> None:
    """It answers 400 to what it does not understand, which is not what it was asked."""
    with ExitStack() as stack:
        first = stack.enter_context(http_server("r", tmp_path / "first", "modern"))
        second = stack.enter_context(http_server("r", tmp_path / "second", "legacy"))
        way = stack.enter_context(relay())
        entry = {"id": "r", "upstream": {"url": way.lead_to(first["upstream"]["url"])}}
        gateway = stack.enter_context(running_gateway(tmp_path, [entry]))
        peer = stack.enter_context(kind(gateway, "r"))
        assert said_by(peer, "one") == "one"
        way.lead_to(second["upstream"]["url"])
        assert said_by(peer, "two") == "two"
        assert len(Journal(tmp_path / "second").events("tool", "echo")) <= 1
        assert gateway.status("r")["era"] == "legacy"


def test_who_listens_while_a_server_is_away_hears_of_changes_when_it_is_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(http_server("r", tmp_path / "journal"))
        way = stack.enter_context(relay())
        url = way.lead_to(server["upstream"]["url"])
        entry = {"id": "r", "upstream": {"url": url}, "breaker": {"failures": 3, "open_seconds": 1}}
        gateway = stack.enter_context(running_gateway(tmp_path, [entry]))
        assert said_by(stack.enter_context(StreamablePeer(gateway, "r")), "one") == "one"
        way.lead_to(None)
        peer = stack.enter_context(StreamablePeer(gateway, "r"))
        peer.watch()
        with pytest.raises(RpcRefused):
            peer.tool("echo", {"text": "two"})
        way.lead_to(server["upstream"]["url"])

        def heard() -> bool:
            with suppress(RpcRefused):
                peer.tool("change", {"what": "tools"})
            return bool(peer.of("notifications/tools/list_changed"))

        eventually(heard, "notifications/tools/list_changed", limit=30)


def works(peer: ModernHttpPeer) -> bool:
    try:
        return said_by(peer, "back") == "back"
    except RpcRefused:
        return False


def said_by(peer: Any, text: str) -> str:
    return peer.tool("echo", {"text": text})["content"][0]["text"]


# TLS


def test_a_file_with_a_certificate_is_served_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one gateway reaches a server of another that way."""
    public = write_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    tls = {"cert": str(public), "key": str(public)}
    with ExitStack() as stack:
        inner = stack.enter_context(
            running_gateway(tmp_path / "inner", [stdio_server("s", tmp_path / "journal")], tls=tls)
        )
        assert inner.address.startswith("https://")
        entry = {"id": "far", "upstream": {"url": inner.url("s")}}
        outer = stack.enter_context(running_gateway(tmp_path / "outer", [entry]))
        for kind in (StreamablePeer, ModernHttpPeer):
            peer = stack.enter_context(kind(outer, "far"))
            assert said_by(peer, "over there") == "over there"
        trusting = ssl.create_default_context(cafile=str(public))
        connection = http.client.HTTPSConnection(inner.host, inner.port, timeout=20, context=trusting)
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        connection.close()
        plain = http.client.HTTPConnection(inner.host, inner.port, timeout=20)
        plain.request("GET", "/healthz")
        with pytest.raises((OSError, http.client.HTTPException)):
            plain.getresponse()
        plain.close()
