"""What one client can make us keep has a limit, and at the limit an answer that says so."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.support.channels import ACCEPT, Response, http_request
from tests.support.gateway import Gateway, Journal, http_server, running_gateway, stdio_server
from tests.support.peers import META, ModernHttpPeer, Peer, RpcRefused, SsePeer, StreamablePeer, tool_params
from tests.support.waiting import LIMIT_SECONDS, eventually

INVALID_PARAMS = -32602
MAX_BATCH = 100
MAX_SUBSCRIPTIONS = 1_000
MAX_TASKS_PER_CLIENT = 100
MAX_TASKS = 1_000
MAX_SUSPENDED_PER_CALLER = 100
RATE_LIMITED = -31005


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    return Journal(tmp_path_factory.mktemp("bounds") / "journal")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, journal: Journal) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("bounds-gateway")
    with http_server("http", journal.path) as http:
        servers = [stdio_server("stdio", journal.path), http, {**http, "id": "tasks"}]
        with running_gateway(folder, servers) as gateway:
            yield gateway


def echoes(count: int) -> list[dict[str, Any]]:
    return [
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": tool_params("echo", {"text": n})}
        for n in range(count)
    ]


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_a_batch_over_the_limit_is_refused_and_none_of_it_runs(
    gateway: Gateway, journal: Journal, server: str
) -> None:
    with StreamablePeer(gateway, server, "2025-03-26") as peer:
        journal.forget()
        refused = http_request(peer.channel.url, "POST", echoes(MAX_BATCH + 1), peer.headers_for({}))
        assert refused.status == 400
        assert f"at most {MAX_BATCH} messages" in refused.json()["error"]["message"]
        taken = http_request(peer.channel.url, "POST", echoes(MAX_BATCH), peer.headers_for({}))
        answers = taken.json() if taken.body else json.loads(taken.events[-1].data)
        assert sorted(answer["id"] for answer in answers) == list(range(MAX_BATCH))
        assert len(journal.events("ran")) == MAX_BATCH


def test_a_client_keeps_so_many_tasks_and_gets_room_when_they_are_over(gateway: Gateway) -> None:
    def start(peer: Peer) -> str:
        wish = {**tool_params("wait"), "task": {"ttl": 0}}
        return peer.request("tools/call", wish)["task"]["taskId"]

    with StreamablePeer(gateway, "http") as peer, StreamablePeer(gateway, "http") as other:
        tasks = [start(peer) for _ in range(MAX_TASKS_PER_CLIENT)]
        with pytest.raises(RpcRefused, match="too many tasks of this client") as refused:
            start(peer)
        assert refused.value.code == INVALID_PARAMS
        assert peer.request("tasks/get", {"taskId": tasks[0]})["status"] == "working"
        assert start(other), "what one client keeps is no limit for another"
        for task in tasks:
            peer.request("tasks/cancel", {"taskId": task})

        def has_room() -> bool:
            with suppress(RpcRefused):
                return bool(start(peer))
            return False

        eventually(has_room, "the cancelled tasks to be forgotten")


def test_a_server_keeps_so_many_tasks_of_all_its_clients_and_gets_room_when_one_is_over(
    gateway: Gateway,
) -> None:
    def start(peer: Peer, tool: str, ttl: int) -> str:
        return peer.request("tools/call", {**tool_params(tool), "task": {"ttl": ttl}})["task"]["taskId"]

    def kept(peer: Peer, count: int) -> None:
        for _ in range(count):
            start(peer, "echo", 3_600_000)

    with ExitStack() as stack:
        peers = [stack.enter_context(StreamablePeer(gateway, "tasks")) for _ in range(12)]
        for peer in peers[:9]:
            kept(peer, MAX_TASKS_PER_CLIENT)
        kept(peers[9], MAX_TASKS - 9 * MAX_TASKS_PER_CLIENT - 1)
        last = start(peers[10], "wait", 0)
        with pytest.raises(RpcRefused, match="too many tasks; wait for some to finish") as refused:
            start(peers[11], "echo", 0)
        assert refused.value.code == INVALID_PARAMS
        assert peers[11].tool("echo", {"text": "x"})["content"][0]["text"] == "x", "plain calls go on"
        assert len(peers[0].request("tasks/list")["tasks"]) == MAX_TASKS_PER_CLIENT
        peers[10].request("tasks/cancel", {"taskId": last})

        def has_room() -> bool:
            with suppress(RpcRefused):
                return bool(start(peers[11], "echo", 0))
            return False

        eventually(has_room, "the cancelled task to be forgotten")


ASKING = tool_params("ask", {"kind": "elicitation"})
ANSWERED = {"colour": {"action": "accept", "content": {"colour": "blue"}}}


def ask_from(address: str, gateway: Gateway, peer: ModernHttpPeer, **more: Any) -> Response:
    """A call whose server asks its client something, from this address."""
    params = peer.prepare({**ASKING, **more})
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return http_request(gateway.url("http"), "POST", message, peer.headers_for(message), source=address)


def test_so_many_calls_of_one_address_wait_for_input_and_there_is_room_when_one_is_answered(
    gateway: Gateway, journal: Journal
) -> None:
    with ModernHttpPeer(gateway, "http", handlers={"elicitation/create": lambda _: {}}) as peer:
        peer.tool("echo", {"text": "so that it is known how its server speaks"})
        first = [peer.start("tools/call", ASKING) for _ in range(MAX_SUSPENDED_PER_CALLER)]
        waiting = [call.result() for call in first]
        assert {result["resultType"] for result in waiting} == {"input_required"}
        journal.forget()
        refused = ask_from("127.0.0.1", gateway, peer)
        assert (refused.status, refused.json()["error"]["code"]) == (429, RATE_LIMITED)
        assert "100 calls of this caller wait for its input already" in refused.json()["error"]["message"]
        eventually(lambda: journal.messages("notifications/cancelled"), "the server to hear of it")
        assert peer.tool("echo", {"text": "x"})["content"][0]["text"] == "x", "other calls go on"
        other = ask_from("127.0.0.2", gateway, peer).json()["result"]
        assert other["resultType"] == "input_required", "what one keeps is no limit for another"
        for state in (waiting[0]["requestState"], other["requestState"]):
            answered = peer.start(
                "tools/call", {**ASKING, "requestState": state, "inputResponses": ANSWERED}
            ).result()
            assert answered["structuredContent"]["heard"]["action"] == "accept"
        assert ask_from("127.0.0.1", gateway, peer).json()["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("member", ["resourceSubscriptions", "taskIds"])
def test_a_stream_of_changes_has_so_many_subscriptions(
    gateway: Gateway, journal: Journal, member: str
) -> None:
    with ModernHttpPeer(gateway, "http") as peer:
        journal.forget()
        wish = {member: [f"item://{number}" for number in range(MAX_SUBSCRIPTIONS + 1)]}
        with pytest.raises(RpcRefused, match=f"at most {MAX_SUBSCRIPTIONS} subscriptions") as refused:
            peer.request("subscriptions/listen", {"notifications": wish})
        assert refused.value.code == INVALID_PARAMS
        assert not journal.messages("resources/subscribe")


def test_a_session_has_so_many_subscriptions(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "stdio", "2025-03-26") as peer:

        def subscribe(numbers: range) -> list[Any]:
            batch = [
                {"jsonrpc": "2.0", "id": n, "method": "resources/subscribe", "params": {"uri": f"item://{n}"}}
                for n in numbers
            ]
            answer = http_request(peer.channel.url, "POST", batch, peer.headers_for({}))
            return answer.json() if answer.body else json.loads(answer.events[-1].data)

        for start in range(0, MAX_SUBSCRIPTIONS, MAX_BATCH):
            assert all("result" in answer for answer in subscribe(range(start, start + MAX_BATCH)))
        with pytest.raises(RpcRefused, match=f"at most {MAX_SUBSCRIPTIONS} subscriptions"):
            peer.subscribe("item://one-too-many")
        peer.unsubscribe("item://7")
        peer.subscribe("item://7")


def read_to_the_end(connection: socket.socket) -> int:
    """How much still comes before the other side is found to have hung up."""
    size = 0
    connection.settimeout(LIMIT_SECONDS)
    with suppress(ConnectionError):
        while data := connection.recv(1_000_000):
            size += len(data)
    return size


FLOOD = {"steps": 600, "padding": 100_000, "pause": 0.001}
FLOOD_BYTES = 600 * 100_000


def test_a_modern_stream_that_overflows_is_closed_and_its_call_cancelled(
    gateway: Gateway, journal: Journal
) -> None:
    journal.forget()
    params = tool_params("count", FLOOD, **{META + "clientCapabilities": {}}, progressToken="t")
    params["_meta"][META + "protocolVersion"] = "2026-07-28"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    with socket.create_connection((gateway.host, gateway.port)) as connection:
        head = (
            f"POST /mcp/stdio HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\nAccept: {ACCEPT}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: count\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        eventually(lambda: journal.events("stopped", "count"), "the call to be cancelled")
        assert read_to_the_end(connection) < FLOOD_BYTES


def test_a_channel_that_overflows_is_closed_and_its_session_ends(gateway: Gateway, journal: Journal) -> None:
    journal.forget()
    with (
        SsePeer(gateway, "http") as peer,
        socket.create_connection((gateway.host, gateway.port)) as deaf,
    ):
        deaf.sendall(
            f"GET /mcp/stdio/sse HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\n"
            "Accept: text/event-stream\r\n\r\n".encode()
        )
        heard = b""
        while b"\n\n" not in heard.partition(b"\ndata: /")[2]:
            heard += deaf.recv(1000)
        endpoint = gateway.address + heard.decode().partition("\ndata: ")[2].split()[0]
        hello = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        params = tool_params("count", FLOOD, progressToken="t")
        for message in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": params},
        ):
            if message.get("id") == 2:
                eventually(lambda: b'"serverInfo"' in deaf.recv(100_000, socket.MSG_PEEK), "the handshake")
            assert http_request(endpoint, "POST", {"jsonrpc": "2.0", **message}).status == 202
        eventually(
            lambda: (
                http_request(endpoint, "POST", {"jsonrpc": "2.0", "id": 3, "method": "ping"}).status == 404
            ),
            "the session to end",
        )
        assert read_to_the_end(deaf) < FLOOD_BYTES
        assert peer.tool("echo", {"text": "x"})["content"][0]["text"] == "x"


SIZE = 20_000_000


def test_large_answers_that_nobody_reads_wait_on_disk_and_arrive_whole(gateway: Gateway) -> None:
    own = {META + "clientCapabilities": {}, META + "protocolVersion": "2026-07-28"}
    params = tool_params("big", {"bytes": SIZE}, **own)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp/stdio HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\nAccept: application/json\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: big\r\n\r\n"
    ).encode()
    with ExitStack() as stack:
        before = gateway.memory_bytes
        deaf: list[socket.socket] = []
        for number in range(10):
            connection = stack.enter_context(socket.create_connection((gateway.host, gateway.port)))
            connection.sendall(head + body)
            deaf.append(connection)
            eventually(lambda: deaf[-1].recv(1, socket.MSG_PEEK), f"answer {number} to begin")
        eventually(lambda: gateway.memory_bytes - before < 3 * SIZE, "the answers to leave memory", limit=10)
        for connection in deaf:
            whole = b""
            connection.settimeout(LIMIT_SECONDS)
            while data := connection.recv(1_000_000):
                whole += data
            answer = json.loads(whole.partition(b"\r\n\r\n")[2])
            assert answer["result"]["content"][0]["text"] == "x" * SIZE
