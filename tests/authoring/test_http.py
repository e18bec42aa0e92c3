"""An authored server over HTTP: sessions, streams that can be picked up again, headers, and who may call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from mooring.authoring import Context, HttpSettings, Server

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]
LIMIT_SECONDS = 15
META = "io.modelcontextprotocol/"
Json = dict[str, Any]


class Peer:
    """A client that says exactly what it is told."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http = http
        self.url = url
        self.headers = {"accept": "application/json, text/event-stream"}
        self._next = 0

    def message(self, method: str, **params: Any) -> Json:
        self._next += 1
        return {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}

    def modern(self, method: str, **params: Any) -> tuple[Json, dict[str, str]]:
        meta = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        name = params.get("name") or params.get("uri")
        if name:
            headers["mcp-name"] = name
        return self.message(method, _meta={**meta, **params.pop("_meta", {})}, **params), headers

    async def post(self, body: Any, **headers: str) -> httpx2.Response:
        return await self.http.post(self.url, json=body, headers={**self.headers, **headers})

    async def initialize(self, version: str = "2025-11-25") -> httpx2.Response:
        client = {"name": "test", "version": "1"}
        message = self.message("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        response = await self.post(message)
        self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
        return response

    @asynccontextmanager
    async def stream(self, method: str, body: Any = None, **headers: str) -> AsyncGenerator[httpx2.Response]:
        async with self.http.stream(
            method, self.url, json=body, headers={**self.headers, **headers}
        ) as response:
            yield response


async def events(response: httpx2.Response) -> AsyncIterator[tuple[str, Json | None]]:
    """Id and message of each event."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields.get("id", ""), json.loads(fields["data"]) if fields.get("data") else None
            fields = {}


def authored() -> Server:
    server = Server("web")
    server.ended = asyncio.Event()  # pyright: ignore[reportAttributeAccessIssue]

    @server.tool
    async def report(ctx: Context, steps: int = 2, pause: float = 0.0) -> str:
        for step in range(steps):
            await ctx.progress(step + 1, steps)
            await asyncio.sleep(pause)
        return "reported"

    @server.tool
    async def wait(ctx: Context) -> str:
        try:
            await ctx.progress(1)
            await asyncio.sleep(60)
        finally:
            server.ended.set()  # pyright: ignore[reportAttributeAccessIssue]
        return "done"

    @server.tool
    def change() -> None:
        server.remove_tool("change")

    return server


@asynccontextmanager
async def serving(server: Server | None = None, **settings: Any) -> AsyncGenerator[Peer]:
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        (server or authored()).serving_http(HttpSettings(port=0, **settings)) as url,
        httpx2.AsyncClient(timeout=LIMIT_SECONDS) as http,
    ):
        yield Peer(http, url)


async def test_a_session_begins_is_needed_and_ends() -> None:
    async with serving() as peer:
        listing = peer.message("tools/list")
        assert (await peer.post(listing)).status_code == 400
        assert (await peer.initialize()).json()["result"]["serverInfo"]["name"] == "web"
        assert (await peer.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status_code == 202
        assert len((await peer.post(listing)).json()["result"]["tools"]) == 3
        wrong = await peer.post(listing, **{"mcp-protocol-version": "1999-01-01"})
        assert wrong.status_code == 400
        unknown = await peer.post(peer.message("no/such"))
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (200, -32601)
        assert (await peer.http.delete(peer.url, headers=peer.headers)).status_code == 200
        assert (await peer.post(listing)).status_code == 404


async def test_a_failed_handshake_leaves_no_session() -> None:
    async with serving() as peer:
        refused = await peer.post(peer.message("initialize", protocolVersion=3))
        assert refused.json()["error"]["code"] == -32602
        peer.headers["mcp-session-id"] = refused.headers.get("mcp-session-id", "none")
        assert (await peer.post(peer.message("ping"))).status_code == 404


async def test_a_lost_stream_goes_on_where_it_broke_off() -> None:
    async with serving() as peer:
        await peer.initialize()
        call = peer.message(
            "tools/call", name="report", arguments={"steps": 3, "pause": 0.1}, _meta={"progressToken": 1}
        )
        async with peer.stream("POST", call) as response:
            assert response.headers["content-type"] == "text/event-stream"
            seen = events(response)
            first, nothing = await anext(seen)
            assert nothing is None  # only says where the stream is
            last, message = await anext(seen)
            assert message is not None
            assert message["params"]["progress"] == 1
        async with peer.stream("GET", **{"last-event-id": last}) as response:
            rest = [message async for _, message in events(response)]
        assert [message["params"]["progress"] for message in rest[:-1] if message] == [2, 3]
        assert rest[-1] is not None
        assert rest[-1]["result"]["content"][0]["text"] == "reported"
        async with peer.stream("GET", **{"last-event-id": first}) as response:
            assert len([event async for event in events(response)]) == 4
        async with peer.stream("GET", **{"last-event-id": "9-9"}) as response:
            assert response.status_code == 400


async def test_older_clients_get_no_events_without_a_message() -> None:
    async with serving() as peer:
        await peer.initialize("2025-06-18")
        call = peer.message("tools/call", name="report", _meta={"progressToken": 1})
        async with peer.stream("POST", call) as response:
            assert all([message async for _, message in events(response)])


async def test_a_legacy_client_that_closes_its_stream_has_not_cancelled() -> None:
    server = authored()
    async with serving(server) as peer:
        await peer.initialize()
        call = peer.message("tools/call", name="wait", _meta={"progressToken": 1})
        async with peer.stream("POST", call) as response:
            await anext(events(response))
        assert (await peer.post(peer.message("ping"))).json()["result"] == {}
        assert not server.ended.is_set()  # pyright: ignore[reportAttributeAccessIssue]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call["id"]}}
        assert (await peer.post(cancel)).status_code == 202
        await server.ended.wait()  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_modern_client_that_closes_its_stream_has_cancelled() -> None:
    server = authored()
    async with serving(server) as peer:
        body, headers = peer.modern("tools/call", name="wait", _meta={"progressToken": 1})
        async with peer.stream("POST", body, **headers) as response:
            await anext(events(response))
        await server.ended.wait()  # pyright: ignore[reportAttributeAccessIssue]


async def test_changes_come_on_the_stream_that_belongs_to_no_call() -> None:
    async with serving() as peer:
        await peer.initialize()
        await peer.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        async with peer.stream("GET") as response:
            seen = events(response)
            await anext(seen)
            await peer.post(peer.message("tools/call", name="change"))
            _, message = await anext(seen)
            async with peer.stream("GET"):
                assert [event async for event in seen] == []  # the newest stream takes the place of this one
            assert message is not None
            assert message["method"] == "notifications/tools/list_changed"


async def test_a_modern_request_stands_alone_and_its_headers_must_match() -> None:
    async with serving() as peer:
        body, headers = peer.modern("server/discover")
        answer = (await peer.post(body, **headers)).json()["result"]
        assert answer["resultType"] == "complete"
        assert answer["supportedVersions"] == ["2026-07-28"]
        assert answer["_meta"][META + "serverInfo"]["name"] == "web"
        body, headers = peer.modern("tools/call", name="report", arguments={})
        assert (await peer.post(body, **headers)).json()["result"]["content"][0]["text"] == "reported"
        for change in ({"mcp-name": "wait"}, {"mcp-method": "tools/list"}):
            wrong = await peer.post(body, **{**headers, **change})
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32020)
        body, headers = peer.modern("no/such")
        assert (await peer.post(body, **headers)).status_code == 404
        body, headers = peer.modern("tools/list")
        later = {
            **body,
            "params": {"_meta": {**body["params"]["_meta"], META + "protocolVersion": "2099-01-01"}},
        }
        unspoken = await peer.post(later, **{**headers, "mcp-protocol-version": "2099-01-01"})
        assert (unspoken.status_code, unspoken.json()["error"]["code"]) == (400, -32022)
        for method in ("GET", "DELETE"):
            response = await peer.http.request(method, peer.url, headers=headers)
            assert response.status_code == 405


async def test_a_listening_client_gets_an_orderly_end_when_the_server_stops() -> None:
    frames: list[Any] = []
    acknowledged = asyncio.Event()

    async def listen(peer: Peer) -> None:
        body, headers = peer.modern("subscriptions/listen", notifications={"toolsListChanged": True})
        async with peer.stream("POST", body, **headers) as response:
            async for _, message in events(response):
                frames.append(message)
                acknowledged.set()

    async with httpx2.AsyncClient(timeout=LIMIT_SECONDS) as http:
        async with authored().serving_http(HttpSettings(port=0)) as url:
            task = asyncio.create_task(listen(Peer(http, url)))
            await asyncio.wait_for(acknowledged.wait(), LIMIT_SECONDS)
        await asyncio.wait_for(task, LIMIT_SECONDS)
    assert frames[0]["method"] == "notifications/subscriptions/acknowledged"
    assert frames[-1]["result"]["resultType"] == "complete"


async def test_foreign_names_and_pages_are_turned_away() -> None:
    async with serving(allowed_origins=("https://good.example",)) as peer:
        body = peer.message("ping")
        assert (await peer.post(body, host="evil.example")).status_code == 403
        assert (await peer.post(body, origin="https://evil.example")).status_code == 403
        welcome = await peer.post(body, origin="https://good.example")
        assert welcome.headers["access-control-allow-origin"] == "https://good.example"
        asked = {"origin": "https://good.example", "access-control-request-headers": "mcp-session-id"}
        preflight = await peer.http.options(peer.url, headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-headers"] == "mcp-session-id"


def test_other_machines_are_not_served_by_accident() -> None:
    with pytest.raises(ValueError, match="insecure_allow_anonymous"):
        HttpSettings(host="0.0.0.0")


async def test_odd_requests_are_refused_and_harm_nobody() -> None:
    async with serving(max_body_bytes=1000) as peer:
        await peer.initialize()
        plain = await peer.http.post(peer.url, content=b"{}", headers={"content-type": "text/plain"})
        assert plain.status_code == 415
        broken = await peer.http.post(peer.url, content=b"{", headers={"content-type": "application/json"})
        assert (broken.status_code, broken.json()["error"]["code"]) == (400, -32700)
        assert (await peer.post(peer.message("ping", x="x" * 2000))).status_code == 413
        assert (await peer.http.get(peer.url.replace("/mcp", "/other"))).status_code == 404
        assert (await peer.http.put(peer.url)).status_code == 405
        assert (await peer.post([peer.message("ping")])).status_code == 400
        assert (await peer.post(peer.message("ping"))).status_code == 200


async def test_batches_are_answered_where_the_revision_has_them() -> None:
    async with serving() as peer:
        await peer.initialize("2025-03-26")
        batch = [peer.message("ping"), peer.message("tools/call", name="report"), peer.message("tools/list")]
        answer = (await peer.post(batch)).json()
        assert {each["id"] for each in answer} == {message["id"] for message in batch}


async def test_an_idle_session_is_forgotten() -> None:
    async with serving(session_idle_seconds=0.0, sweep_seconds=0.05) as peer:
        await peer.initialize()
        status = 200
        while status == 200:
            await asyncio.sleep(0.2)
            status = (await peer.post(peer.message("ping"))).status_code
        assert status == 404


async def test_the_stream_of_the_first_http_transport_is_the_session() -> None:
    server = authored()
    async with serving(server) as peer:
        base = peer.url.removesuffix("/mcp")
        async with peer.http.stream("GET", base + "/sse") as response:
            lines = response.aiter_lines()
            assert await anext(lines) == "event: endpoint"
            address = base + (await anext(lines)).removeprefix("data: ")

            async def heard() -> Any:
                async for line in lines:
                    if line.startswith("data: "):
                        return json.loads(line.removeprefix("data: "))
                return None

            client = {"name": "test", "version": "1"}
            hello = peer.message(
                "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo=client
            )
            assert (await peer.http.post(address, json=hello)).status_code == 202
            assert (await heard())["result"]["protocolVersion"] == "2024-11-05"
            await peer.http.post(
                address, json=peer.message("tools/call", name="wait", _meta={"progressToken": 1})
            )
            assert (await heard())["method"] == "notifications/progress"
        await server.ended.wait()  # pyright: ignore[reportAttributeAccessIssue]
        assert (await peer.http.post(address, json=hello)).status_code == 404
