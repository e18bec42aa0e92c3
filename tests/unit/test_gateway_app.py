"""Claims about what the app does for all of its servers at once; the clock is an argument."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.test_sessions import Place
from tests.unit.test_streams import Connection

from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.gateway_app import GatewayApp, Rules
from mooring.interfaces.web_guard import WebGuard
from mooring.protocol.sse import KEEP_ALIVE
from mooring.transports.event_streams import KEEP_ALIVE_SECONDS
from mooring.transports.http_endpoint import Buffered
from mooring.transports.sealing import Seal


def new_app() -> GatewayApp:
    rules = Rules(WebGuard("127.0.0.1", 1, None, []), 1000, False)
    return GatewayApp(SessionTable(Seal(bytes(32)), 60.0), Dispatcher(), rules, cast("Any", None))


def add_server(app: GatewayApp, name: str) -> Server:
    place = cast("Any", Place())
    place.id, place.endpoint_prefix, place.forwards, place.requires = name, b"", (), ()
    app.add(cast("Server", place))
    return place


def open_stream(app: GatewayApp, path: bytes) -> Connection:
    connection = Connection()
    request = connection.reply.request
    request.path, request.first = path, {b"host": b"127.0.0.1:1"}
    endpoint = app.accept(request)
    assert isinstance(endpoint, Buffered)
    endpoint.handler(request, connection.reply)
    return connection


def kept_alive(connection: Connection) -> int:
    return connection.wire.data.count(KEEP_ALIVE)


@pytest.mark.anyio
async def test_the_older_streams_of_every_server_are_kept_alive() -> None:
    app = new_app()
    for name in ("one", "two", "three"):
        add_server(app, name)
    one, two = (open_stream(app, path) for path in (b"/mcp/one/sse", b"/mcp/two/sse"))
    for moment, times in ((100.0, 1), (100.0 + KEEP_ALIVE_SECONDS / 2, 1), (101.0 + KEEP_ALIVE_SECONDS, 2)):
        app.keep_alive(moment)
        assert (kept_alive(one), kept_alive(two)) == (times, times)
    assert one.reply.on_closed is not None
    one.reply.on_closed()
    app.keep_alive(102.0 + 2 * KEEP_ALIVE_SECONDS)
    assert (kept_alive(one), kept_alive(two)) == (2, 3)


PATHS = (b"/mcp/one", b"/mcp/one/sse", b"/mcp/one/messages")


def repeats(app: GatewayApp) -> list[bool | None]:
    """Whether requests may go on without asking again, at each address of a server that has any."""
    return [None if (route := app.route(path)) is None else route.repeats for path in PATHS]


def test_an_address_ends_with_the_last_call_of_its_server() -> None:
    app = new_app()
    server = add_server(app, "one")
    app.see_out("one")
    assert repeats(app) == [False, False, False]
    app.use(app.rules)
    assert repeats(app) == [False, False, False]
    app.part(server)
    assert repeats(app) == [None, None, None]
    app.use(app.rules)
    assert repeats(app) == [None, None, None]


def test_a_successor_has_its_address_to_itself_after_the_last_call() -> None:
    app = new_app()
    first = add_server(app, "one")
    before = app.route(PATHS[0])
    app.see_out("one")
    assert before is not None
    assert not before.repeats  # open connections must ask again
    second = add_server(app, "one")
    assert repeats(app) == [False, False, False]
    app.part(second)  # which is not on its way out
    assert repeats(app) == [False, False, False]
    app.part(first)
    assert repeats(app) == [True, False, False]


def test_a_successor_that_goes_first_leaves_the_last_calls_their_address() -> None:
    app = new_app()
    first = add_server(app, "one")
    app.see_out("one")
    add_server(app, "one")
    app.remove("one")
    assert repeats(app) == [False, False, False]
    app.part(first)
    assert repeats(app) == [None, None, None]
