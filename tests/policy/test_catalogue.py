"""What callers were shown is remembered once, however many they are, and nothing that they made up."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakValueDictionary

import pytest
from msgspec import Raw
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import running_gateway

from mooring.policy.catalogue import Shown, View
from mooring.policy.items import TOOLS, Item, Listing

MEGABYTE = 1024 * 1024


def shown(*raws: bytes) -> Listing:
    return Listing(TOOLS, True, True, [Item(str(n), Raw(raw)) for n, raw in enumerate(raws)], {})


def test_the_same_list_is_one_thing_and_another_is_not() -> None:
    lists: WeakValueDictionary[bytes, Shown] = WeakValueDictionary()
    views = [View(lists) for _ in range(3)]
    views[0].learn(shown(b'{"name":"0"}'))
    views[1].learn(shown(b'{"name":"0"}'))
    views[2].learn(shown(b'{"name":"0","annotations":{"readOnlyHint":true}}'))
    assert views[0].shown is views[1].shown
    assert views[2].annotations("0") == {"readOnlyHint": True}
    assert views[1].annotations("0") == {}
    views[1].learn(shown())
    assert "0" in views[0].items
    assert "0" not in views[1].items


def test_a_name_that_was_made_up_is_not_remembered() -> None:
    view = View(WeakValueDictionary())
    view.learn(shown(b'{"name":"0"}'))
    for number in range(1000, 3000):
        assert view.annotations(str(number)) == {}
        assert view.digest(str(number)) == ""
    assert len(view.shown.hints) + len(view.shown.digests) == 0


@pytest.mark.e2e
def test_sessions_that_come_and_go_leave_no_lists_behind(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", *(tool(f"tool-{n}", "many words " * 150) for n in range(250)))
    with shelf.http("one") as server, running_gateway(tmp_path, [server]) as gateway:

        def come_and_go(times: int) -> int:
            for _ in range(times):
                caller = Caller(gateway.address, "one")
                caller.initialize()
                assert len(caller.request("tools/list").body) > 400_000
                caller.send("DELETE", "/mcp/one", b"", caller.session)
            return gateway.memory_bytes

        before = come_and_go(20)
        assert come_and_go(100) - before < 15 * MEGABYTE
