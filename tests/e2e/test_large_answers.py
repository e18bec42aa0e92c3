"""Answers larger than anybody should hold: they cost the gateway its buffers, not their size."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.channels import ACCEPT, events_of, http_request
from tests.support.gateway import SUPPORT, Gateway, running_gateway, running_process
from tests.support.large_server import FILLINGS, result
from tests.support.peers import META, RpcRefused, SsePeer, StdioPeer, StreamablePeer, tool_params
from tests.support.waiting import LIMIT_SECONDS, eventually

SERVER = [sys.executable, "-S", str(SUPPORT / "large_server.py"), "--transport"]
SIZE = 48_000_000
AT_MOST = 16_000_000
SMALLER = 3_000_000
PIECE = 1 << 16
KINDS = ("stdio", "sse", "http")
ORDERS = ("before", "after")
MODERN = "2026-07-28"
LEGACY = "2025-11-25"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("large")
    with ExitStack() as stack:
        url = {kind: stack.enter_context(running_process([*SERVER, kind])) for kind in ("sse", "http")}
        servers = [
            {"id": "stdio", "share": "global", "workload": {"run": [*SERVER, "stdio"]}},
            {"id": "sse", "share": "global", "upstream": {"url": url["sse"], "transport": "sse"}},
            {"id": "http", "share": "global", "upstream": {"url": url["http"]}},
            {"id": "own", "upstream": {"url": url["http"]}},
        ]
        yield stack.enter_context(running_gateway(folder, servers))


class Call:
    """A `tools/call` over HTTP whose answer is read by whoever wants to."""

    def __init__(
        self,
        gateway: Gateway,
        server: str,
        arguments: dict[str, Any],
        headers: dict[str, str] | None = None,
        number: Any = 7,
    ) -> None:
        self.connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=4 * LIMIT_SECONDS)
        params = tool_params("large", arguments)
        if headers is None:
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "large"}
            params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        given = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self.connection.request("POST", f"/mcp/{server}", json.dumps(body), given)

    def response(self) -> http.client.HTTPResponse:
        return self.connection.getresponse()

    def digest(self) -> str:
        with closing(self.connection):
            response = self.response()
            assert response.status == 200, response.read()
            return digest_of(iter(lambda: response.read(PIECE), b""))

    def error(self) -> dict[str, Any]:
        with closing(self.connection):
            return json.loads(self.response().read())["error"]


def digest_of(pieces: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def expected(kind: str, size: int, version: str, number: Any = 7) -> str:
    def pieces() -> Iterator[bytes]:
        yield b'{"jsonrpc":"2.0","id":%b,"result":' % json.dumps(number).encode()
        inner = list(result(kind, size))
        if version == MODERN:
            inner[-1] = inner[-1][:-1] + b',"resultType":"complete"}'
        yield from inner
        yield b"}"

    return digest_of(pieces())


def session_headers(gateway: Gateway, server: str, version: str = LEGACY) -> dict[str, str]:
    hello = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "reader", "version": "1"},
    }
    url = gateway.url(server)
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    session = http_request(url, "POST", message).headers["Mcp-Session-Id"]
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": version}
    http_request(url, "POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    return headers


def peak_bytes(gateway: Gateway) -> int:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def forget_peak(gateway: Gateway) -> int:
    """From now on the peak is counted anew; what is in use now."""
    Path(f"/proc/{gateway.process.pid}/clear_refs").write_text("5")
    return gateway.memory_bytes


def files_on_disk(gateway: Gateway) -> list[str]:
    """What waits on disk: files without a name that the gateway holds open."""
    folder = Path(f"/proc/{gateway.process.pid}/fd")
    found: list[str] = []
    for entry in folder.iterdir():
        with suppress(OSError):
            found.append(os.readlink(entry))
    return [name for name in found if str(gateway.folder / "data" / "tmp") in name]


def nothing_is_left(gateway: Gateway) -> None:
    eventually(lambda: not files_on_disk(gateway), "the files to be closed")
    assert not list((gateway.folder / "data" / "tmp").iterdir())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("server", KINDS)
def test_a_large_answer_in_a_shared_session_costs_no_memory_and_arrives_byte_by_byte(
    gateway: Gateway, server: str, order: str
) -> None:
    headers = session_headers(gateway, server)
    Call(gateway, server, {}, headers).digest()
    before = forget_peak(gateway)
    arguments = {"bytes": SIZE, "order": order, "kind": "text"}
    assert Call(gateway, server, arguments, headers).digest() == expected("text", SIZE, LEGACY)
    assert peak_bytes(gateway) - before < AT_MOST
    nothing_is_left(gateway)


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_several_at_once_cost_no_more_and_each_goes_to_whom_it_belongs(gateway: Gateway, server: str) -> None:
    before = forget_peak(gateway)
    wanted = [(kind, order, f"{kind}-{order}") for kind in FILLINGS for order in ORDERS]

    def call(kind: str, order: str, number: str) -> bool:
        arguments = {"bytes": SIZE // 2, "kind": kind, "order": order}
        found = Call(gateway, server, arguments, number=number).digest()
        return found == expected(kind, SIZE // 2, MODERN, number)

    with ThreadPoolExecutor(len(wanted)) as pool:
        assert all(pool.map(call, *zip(*wanted, strict=True)))
    assert peak_bytes(gateway) - before < AT_MOST
    nothing_is_left(gateway)


@pytest.mark.parametrize("server", [*KINDS, "own"])
def test_the_large_answers_of_a_batch_wait_for_each_other_on_disk(gateway: Gateway, server: str) -> None:
    headers = session_headers(gateway, server, "2025-03-26")
    Call(gateway, server, {}, headers).digest()
    before = forget_peak(gateway)
    large, count = SIZE // 8, 16
    batch = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": tool_params("large", {"bytes": large if number else 1, "kind": "text"}),
        }
        for number in range(count)
    ]
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=4 * LIMIT_SECONDS)
    with closing(connection):
        given = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        connection.request("POST", f"/mcp/{server}", json.dumps(batch), given)
        response = connection.getresponse()
        found = [hashlib.sha256(answer).hexdigest() for answer in answers_in(response)]
    wanted = [expected("text", large if number else 1, LEGACY, number) for number in range(count)]
    assert sorted(found) == sorted(wanted)
    assert peak_bytes(gateway) - before < 2 * AT_MOST
    nothing_is_left(gateway)


def answers_in(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The answers of a batch one by one, each as it was written."""
    text = response.read()
    assert (text[:1], text[-1:]) == (b"[", b"]")
    start = 1
    for found in re.finditer(rb'\},(?=\{"jsonrpc")', text):
        yield text[start : found.start() + 1]
        start = found.end()
    yield text[start:-1]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", LEGACY])
@pytest.mark.parametrize("form", ["json", "stream"])
@pytest.mark.parametrize("server", ["http", "own"])
def test_every_revision_gets_the_same_bytes_from_a_shared_session_as_from_its_own(
    gateway: Gateway, server: str, form: str, version: str
) -> None:
    headers = session_headers(gateway, server, version)
    arguments = {"bytes": SMALLER, "kind": "escapes", "form": form}
    number = 9 if form == "json" else "nine"
    found = Call(gateway, server, arguments, headers, number).digest()
    assert found == expected("escapes", SMALLER, version, number)
    nothing_is_left(gateway)


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("peer_kind", [StreamablePeer, SsePeer, StdioPeer])
def test_clients_with_streams_and_channels_get_it_too(gateway: Gateway, server: str, peer_kind: Any) -> None:
    with peer_kind(gateway, server) as peer:
        slow = peer.start_tool("large", {"bytes": SMALLER, "kind": "lists"})
        quick = peer.start_tool("large", {"bytes": 1})
        found = slow.result()
        assert found["vendorField"] == [1.0, None]
        assert found == json.loads(b"".join(result("lists", SMALLER)))
        assert quick.result()["content"]
    nothing_is_left(gateway)


def test_a_channel_is_not_held_in_memory_for_a_client_that_reads_nothing(gateway: Gateway) -> None:
    before = forget_peak(gateway)
    with SsePeer(gateway, "stdio") as peer, socket.create_connection((gateway.host, gateway.port)) as deaf:
        deaf.sendall(f"GET /mcp/stdio/sse HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\n\r\n".encode())
        heard = b""
        while b"\n\n" not in heard.partition(b"\ndata: /")[2]:
            heard += deaf.recv(1000)
        endpoint = gateway.address + heard.decode().partition("\ndata: ")[2].split()[0]
        hello = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        for message in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": tool_params("large", {"bytes": SIZE})},
        ):
            if message.get("id") == 2:
                eventually(lambda: b'"serverInfo"' in deaf.recv(100_000, socket.MSG_PEEK), "the handshake")
            assert http_request(endpoint, "POST", {"jsonrpc": "2.0", **message}).status == 202
        eventually(lambda: files_on_disk(gateway), "the answer to wait on disk")
        assert peer.tool("large", {"bytes": 1})["content"]
        assert peak_bytes(gateway) - before < AT_MOST
    nothing_is_left(gateway)


def test_an_event_that_its_client_comes_back_for_waits_on_disk(gateway: Gateway, folder: Path) -> None:
    """The stream is cut before the answer; `Last-Event-ID` brings it, from the first byte to the last."""
    headers = session_headers(gateway, "stdio")
    go = folder / "go"
    call = Call(gateway, "stdio", {"bytes": SIZE, "wait": str(go)}, {**headers, "Accept": ACCEPT})
    priming = next(events_of(call.response()))
    assert priming.id
    call.connection.close()
    before = forget_peak(gateway)
    go.touch()
    eventually(lambda: gateway.in_flight("stdio") == 0, "the answer to come")
    for _ in range(2):
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=LIMIT_SECONDS)
        again = {**headers, "Accept": "text/event-stream", "Last-Event-ID": priming.id}
        connection.request("GET", "/mcp/stdio", headers=again)
        with closing(connection):
            response = connection.getresponse()
            assert response.status == 200
            found = b"".join(iter(lambda: response.read(PIECE), b""))  # noqa: B023 - used at once
        data = found.partition(b"data: ")[2].removesuffix(b"\n\n")
        assert digest_of([data]) == expected("text", SIZE, LEGACY)
    assert peak_bytes(gateway) - before < AT_MOST
    assert files_on_disk(gateway), "it can still be asked for"
    http_request(gateway.url("stdio"), "DELETE", headers=headers)
    nothing_is_left(gateway)


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(gateway: Gateway, server: str) -> None:
    call = Call(gateway, server, {"bytes": SIZE, "order": "after"})
    assert call.response().read(PIECE)
    assert files_on_disk(gateway)
    call.connection.close()
    nothing_is_left(gateway)
    assert Call(gateway, server, {"bytes": SMALLER}).digest() == expected("text", SMALLER, MODERN)


def test_a_call_that_is_cancelled_before_its_large_answer_leaves_nothing_behind(
    gateway: Gateway, folder: Path
) -> None:
    go = folder / "go"
    with StreamablePeer(gateway, "stdio") as peer:
        call = peer.start_tool("large", {"bytes": SIZE, "wait": str(go)})
        eventually(lambda: gateway.in_flight("stdio") == 1, "the call to run")
        peer.cancel(call)
        eventually(lambda: gateway.in_flight("stdio") == 0, "the call to be given up")
        go.touch()
        assert peer.tool("large", {"bytes": 1})["content"]
    nothing_is_left(gateway)


@pytest.mark.parametrize("order", ORDERS)
def test_a_server_that_dies_in_the_middle_of_a_line_fails_its_call_and_leaves_nothing_behind(
    gateway: Gateway, order: str
) -> None:
    error = Call(gateway, "stdio", {"bytes": SIZE, "cut": SIZE // 2, "order": order}).error()
    assert "ended with exit code 3" in error["message"]
    nothing_is_left(gateway)
    assert Call(gateway, "stdio", {"bytes": 1}).digest()


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_an_answer_over_the_limit_is_refused_and_leaves_nothing_behind(gateway: Gateway, server: str) -> None:
    error = Call(gateway, server, {"bytes": 80_000_000}).error()
    assert "larger than 67108864 bytes" in error["message"]
    nothing_is_left(gateway)
    assert Call(gateway, server, {"bytes": 1}).digest()


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Room for two megabytes."""
    place.mkdir(parents=True)
    if os.geteuid() != 0:
        yield  # a limit on the size of files has to do
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)


def test_a_full_disk_fails_the_one_call_that_needs_it(folder: Path) -> None:
    servers = [{"id": "stdio", "share": "global", "workload": {"run": [*SERVER, "stdio"]}}]
    with (
        small_disk(folder / "data" / "tmp"),
        running_gateway(folder, servers) as gateway,
        StreamablePeer(gateway, "stdio") as peer,
    ):
        if os.geteuid() != 0:
            resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        for order in ORDERS:
            large = peer.start_tool("large", {"bytes": 10_000_000, "order": order})
            small = peer.start_tool("large", {"bytes": 1_000_000, "order": order})
            with pytest.raises(RpcRefused, match="no room on its disk"):
                large.result()
            assert small.result()["content"]
        nothing_is_left(gateway)
