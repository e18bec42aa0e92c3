"""A server on its way out, as its clients see it: what a reload makes of it, and a call that waits for its
user."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.channels import Response, http_request
from tests.support.gateway import Gateway, ask_socket
from tests.support.peers import Pending, StreamablePeer
from tests.support.waiting import LIMIT_SECONDS, eventually

from mooring.policy.authentication.api_keys import KeyStore

Json = dict[str, Any]
ANSWER: Json = {"action": "accept", "content": {"colour": "blue"}}


class Slow:
    """A client's user, who answers when the test wants it."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ready = threading.Event()
        self.handlers = {"elicitation/create": self.answer}

    def answer(self, _: Json) -> Json:
        self.asked.set()
        assert self.ready.wait(LIMIT_SECONDS)
        return ANSWER


def drain(gateway: Gateway, fate: str, **settings: Any) -> None:
    """Reload, and wait until what was there begins nothing more; its last calls still run."""
    file = gateway.folder / "mooring.yaml"
    config = json.loads(file.read_text())
    servers = [
        {**entry, "timeouts": {"call_seconds": 77}} for entry in config["servers"] if fate == "changed"
    ]
    file.write_text(json.dumps({**config, "servers": servers, **settings}))
    os.kill(gateway.process.pid, signal.SIGHUP)
    count = len(servers)

    def is_under_way() -> bool:
        found = ask_socket(gateway.socket, "/api/v1/status")["servers"]
        return len(found) == count and not any(entry["in_flight"] for entry in found)

    eventually(is_under_way, "the new configuration to be in force")
    assert "was reloaded" not in gateway.log()


def ended(gateway: Gateway) -> None:
    eventually(lambda: "was reloaded" in gateway.log(), "the end of the drain")


def forget_session(peer: Any) -> None:
    """It ended with its server; there is nothing left to take leave of."""
    if isinstance(peer, StreamablePeer):
        peer.channel.session = None


def post(peer: StreamablePeer, message: Json | list[Json], **headers: str) -> Response:
    return http_request(peer.channel.url, "POST", message, {**peer.headers_for({}), **headers})


class QuietPeer(StreamablePeer):
    """A client that leaves the answers to the test; `shown` are headers of all of its requests."""

    shown: Json = {}  # noqa: RUF012 - a test makes a class with others

    def headers_for(self, message: Json) -> Json:
        return {**super().headers_for(message), **self.shown}

    def serve(self, message: Json) -> None:
        self.heard.append(message)


def keys(folder: Path, *names: str) -> list[str]:
    store = KeyStore(folder / "data" / "keys.json")
    return [store.create(name, scopes=(), servers=(), expires=None)[1] for name in names]


def bearer(key: str) -> Json:
    return {"Authorization": f"Bearer {key}"}


def shown_as(headers: Json) -> type[QuietPeer]:
    """Clients who show who they are."""
    return type("Peer", (QuietPeer,), {"shown": headers})


@contextmanager
def asked(
    gateway: Gateway, shown: Json | None = None, version: str = "2025-11-25"
) -> Iterator[tuple[QuietPeer, Pending, Json]]:
    """A client whose call waits for an answer, and that answer."""
    with shown_as(shown or {})(gateway, "one", version, handlers=Slow().handlers) as peer:
        call = peer.start_tool("ask", {"kind": "elicitation"})
        question = peer.wait_for("elicitation/create")[0]
        yield peer, call, {"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}
        forget_session(peer)
