"""What legacy clients hear of, whatever happens to the session that tells them."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Harbour
from tests.support.peers import RpcRefused, StreamablePeer
from tests.support.waiting import eventually


def test_a_subscription_made_before_there_was_a_stream_survives_the_server(harbour: Harbour) -> None:
    updated = "notifications/resources/updated"
    with StreamablePeer(harbour.gateway, "stdio-legacy") as peer:
        peer.subscribe("item://1")
        peer.watch()
        peer.tool("touch", {"uri": "item://1"})
        peer.wait_for(updated)
        with pytest.raises(RpcRefused):
            peer.tool("crash")

        def told_again() -> bool:
            peer.tool("touch", {"uri": "item://1"})
            return len(peer.of(updated)) > 1

        eventually(told_again, "an update from the server that is back")
