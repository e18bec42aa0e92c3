"""The short way of guarded calls decides as the whole chain does: the same answers, lines and numbers."""

from __future__ import annotations

import http.client
import json
import random
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import META, MODERN
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.support.waiting import eventually

from mooring.policy.authentication.api_keys import KeyStore

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
WAYS = Path(__file__).parent / "ways.py"
ANSWERED = 15
"""How many of the calls below are as ordinary as the short way wants them, at least."""

AUDIT = {"enabled": True, "include_request_data": True, "include_response_data": True}
METRICS = {"prometheus": True}
KEYS = {"mode": "api_key"}
ALICE = """
permit(principal == Client::"alice", action, resource);
permit(principal == Client::"bob", action == Action::"call_tool", resource == Tool::"look");
"""
ARGUMENTS = """
permit(principal, action == Action::"call_tool", resource == Tool::"look") when { context.arg_text != "no" };
permit(principal == Client::"alice", action == Action::"call_tool", resource == Tool::"take");
forbid(principal, action, resource == Tool::"take") when { context has arg_text && context.arg_text == "no" };
"""
HINTS = """
permit(principal, action, resource) when { resource has readOnlyHint && resource.readOnlyHint };
permit(principal == Client::"alice", action, resource == Tool::"take");
"""
HIDDEN = "looks \u200bharmless"


_WAIT = re.compile(rb'(try again in |"retryAfterSeconds":)\d+')


def everything(policy: str) -> Json:
    return {"auth": KEYS, "audit": AUDIT, "telemetry": METRICS, "policy": policy}


SETTINGS: dict[str, Json] = {
    "nothing but a filter": {"tools": {"deny": ["hid*"]}},
    "a filter": {"audit": AUDIT, "telemetry": METRICS, "tools": {"deny": ["hid*"]}},
    "a list of what is allowed": {"audit": AUDIT, "telemetry": METRICS, "tools": {"allow": ["look", "t*"]}},
    "other names": {
        **everything(ALICE),
        "tools": {"override": {"take": {"name": "grab", "description": "other words"}}, "deny": ["hidden"]},
    },
    "policies": {**everything(ALICE), "tools": {"deny": ["hidden"]}},
    "policies about arguments": everything(ARGUMENTS),
    "policies about hints": everything(HINTS),
    "pinning": {
        **everything(ALICE),
        "core": {"tool_definition_pinning": {"mode": "block", "block_strategy": "baseline_subset"}},
    },
    "pinning that ends the session": {
        "audit": AUDIT,
        "telemetry": METRICS,
        "core": {"tool_definition_pinning": {"mode": "block"}},
    },
    "sanitizing": {**everything(ALICE), "core": {"sanitize": {"mode": "block"}}},
    "rates": {
        **everything(ALICE),
        "limits": {
            "rate": [
                {"count": 30, "seconds": 100_000, "per": ["principal", "tool"], "methods": ["tools/call"]}
            ],
            "concurrency": [{"count": 1, "per": ["principal"]}],
        },
    },
    "approvals": {**everything(ALICE), "approvals": {"tools": ["take"]}},
    "webhooks": {
        **everything(ALICE),
        "webhooks": {
            "validating": [{"name": "gone", "url": "http://127.0.0.1:9/", "failure_policy": "ignore"}]
        },
    },
    "some types only": {
        "audit": {**AUDIT, "include_response_data": False, "exclude_event_types": ["mcp_tools_list"]},
        "telemetry": METRICS,
        "auth": KEYS,
    },
}
IN_BOTH_ERAS = ("other names", "policies about arguments", "pinning", "sanitizing", "rates")
WAITING = {"approvals", "webhooks"}
"""Where calls have to wait in the chain: none of them can take the short way."""

TOOLS = [
    tool("look", annotations={"readOnlyHint": True}),
    tool("take", annotations={"readOnlyHint": False}),
    tool("hidden"),
    tool("broken"),
    tool("odd", HIDDEN),
]
CHANGED = [tool("look", "other words than before"), *TOOLS[1:], tool("later")]
NAMES = ("look", "look", "look", "take", "grab", "hidden", "broken", "odd", "later", "nothing", "LOOK")
ARGUMENT_TEXTS = (
    '{"text":"yes"}',
    '{"text":"yes"}',
    '{"text":"no"}',
    "{}",
    '{"text":"yes","more":[1,{"text":"no"}]}',
    '{"text":"yes","text":"no"}',
    '{"text":"no","text":"yes"}',
    '{"text" : "yes"}',
    '{"te\\u0078t":"no"}',
    '{"text":"é"}',
    '{"password":"hunter2","text":"yes"}',
    "null",
    "[1]",
    '{"task":{}}',
)


def bodies(seed: str) -> Iterator[bytes | list[Json]]:
    """What a client says, and in between what the server puts on its shelf."""
    chance = random.Random(seed)
    for number in range(1, 161):
        name, arguments = chance.choice(NAMES), chance.choice(ARGUMENT_TEXTS)
        ordinary = f'{{"name":"{name}","arguments":{arguments}}}'
        odd = (
            f'{{"name":"look","name":"{name}","arguments":{arguments}}}',
            f'{{"name":"{name}","name":"look","arguments":{arguments}}}',
            f'{{"arguments":{arguments},"name":"{name}"}}',
            f'{{"name":"{name}","arguments":{arguments},"_meta":{{"progressToken":{number}}}}}',
            f'{{"name":"{name}"}}',
            '{"arguments":{}}',
            '{"name":7,"arguments":{}}',
            '{"name":"l\\u006fok","arguments":{}}',
            f'{{ "name": "{name}", "arguments": {arguments} }}',
        )
        params = ordinary if chance.random() < 0.7 else chance.choice(odd)
        message = f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}'
        match chance.randrange(40):
            case 0:
                message = f'{{"jsonrpc":"2.0","id":{number},"method":"tools/list"}}'
            case 1:
                message = f'{{"jsonrpc":"2.0","id":"{number}","method":"tools/call","params":{params}}}'
            case 2:
                message = message[:-1] + ',"params":{"name":"hidden","arguments":{}}}'
            case 3:
                message = message[:-1] + ',"Params":{"name":"hidden","arguments":{}}}'
            case 4:
                message = f'{{"jsonrpc":"2.0","id":{number},"method":"ping"}}'
            case _:
                pass
        yield message.encode()
        if number == 120:  # and the list is asked for, because how soon the gateway does is a matter of time
            yield CHANGED
            yield b'{"jsonrpc":"2.0","id":1000,"method":"tools/list"}'


class Sender:
    """One connection, one session, one head."""

    def __init__(self, gateway: Gateway, key: str | None) -> None:
        self._socket = socket.create_connection((gateway.host, gateway.port), timeout=20)
        self._headers = {"Host": f"{gateway.host}:{gateway.port}"}
        self._headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self.introduce()

    def introduce(self) -> None:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        self._headers.pop("Mcp-Session-Id", None)
        _, headers, _ = self._exchange(json.dumps(hello).encode())
        self._headers["Mcp-Session-Id"] = headers["mcp-session-id"]
        self._exchange(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    @property
    def session(self) -> Json:
        return {"Mcp-Session-Id": self._headers["Mcp-Session-Id"]}

    def say(self, body: bytes) -> tuple[int, bytes]:
        status, _, answer = self._exchange(body)
        return status, _WAIT.sub(rb"\g<1>0", answer)

    def _exchange(self, body: bytes) -> tuple[int, Json, bytes]:
        return self._send("POST /mcp/one", body)

    def _send(self, what: str, body: bytes) -> tuple[int, Json, bytes]:
        """In one piece, as most clients do it: only then is a head recognised."""
        headers = {**self._headers, "Content-Length": str(len(body))}
        lines = [f"{what} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        answer = response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, answer

    def page(self) -> str:
        return self._send("GET /metrics", b"")[2].decode()

    def close(self) -> None:
        self._socket.close()


class ModernSender(Sender):
    """The same for 2026-07-28: no session, and headers that name what is called."""

    def introduce(self) -> None:
        self._headers["MCP-Protocol-Version"] = MODERN

    def say(self, body: bytes) -> tuple[int, bytes]:
        found = re.search(rb'"method":"([^"]+)"', body)
        assert found is not None
        self._headers["Mcp-Method"] = found[1].decode()
        self._headers.pop("Mcp-Name", None)
        if found[1] == b"tools/call" and isinstance(name := json.loads(body)["params"].get("name"), str):
            self._headers["Mcp-Name"] = name
        own = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        stamp = b'"_meta":' + json.dumps(own, separators=(",", ":")).encode()
        if b'"params":{' in body:
            return super().say(body.replace(b'"params":{', b'"params":{' + stamp + b",", 1))
        return super().say(body[:-1] + b',"params":{' + stamp + b"}}")


SENDERS = {"legacy": Sender, "modern": ModernSender}


class Run:
    """A gateway that takes one way, and everything that can be seen of it."""

    def __init__(
        self, way: str, gateway: Gateway, shelf: Shelf, keys: dict[str, str | None], era: str
    ) -> None:
        self.way = way
        self.gateway = gateway
        self.shelf = shelf
        self.senders = {name: SENDERS[era](gateway, key) for name, key in keys.items()}

    def lines(self) -> list[Json]:
        path = self.gateway.folder / "data" / "audit.log"
        text = _WAIT.sub(rb"\g<1>0", path.read_bytes() if path.exists() else b"")
        found = [json.loads(line) for line in text.splitlines()]
        for line in found:
            for varying in ("seq", "prev", "audit_id", "logged_at"):
                del line[varying]
            line.get("metadata", {}).get("extra", {}).pop("duration_ms", None)
        return [line for line in found if line["type"] != "checkpoint"]

    def numbers(self) -> list[str]:
        page = next(iter(self.senders.values())).page().splitlines()
        return sorted(line for line in page if not re.search(r"_(bucket|sum)\{", line))

    def reached(self) -> list[Json]:
        return self.shelf.calls()

    @property
    def answered_shortly(self) -> int:
        place = self.gateway.folder / "answered"
        return place.stat().st_size if place.exists() else 0


@contextmanager
def running(
    folder: Path, way: str, wanted: Json, keys: Path, texts: dict[str, str], era: str = "legacy"
) -> Iterator[Run]:
    settings = dict(wanted)
    more = {name: settings.pop(name) for name in ("tools", "approvals") if name in settings}
    policy = settings.pop("policy", None)
    data = folder / "data"
    data.mkdir(parents=True)
    shutil.copy(keys, data / "keys.json")
    if policy is not None:
        (folder / "rules.cedar").write_text(policy)
        settings["authorization"] = {"type": "cedarv1", "policies": [str(folder / "rules.cedar")]}
    launcher = [sys.executable, str(WAYS), way, str(folder / "answered")]
    shelf = Shelf(folder / "shelf", *TOOLS)
    known: dict[str, str | None] = dict(texts) if "auth" in settings else {"anybody": None}
    with (
        shelf.http("one", era, **more) as server,
        running_gateway(folder, [server], launcher, **settings) as gateway,
    ):
        run = Run(way, gateway, shelf, known, era)
        try:
            yield run
        finally:
            for sender in run.senders.values():
                sender.close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The same keys for all gateways."""
    store = KeyStore(tmp_path_factory.mktemp("keys") / "keys.json")
    texts = {name: store.create(name, scopes=(), servers=(), expires=None)[1] for name in ("alice", "bob")}
    return store.path, texts


@pytest.mark.parametrize(
    ("era", "name"), [*(("legacy", name) for name in SETTINGS), *(("modern", name) for name in IN_BOTH_ERAS)]
)
def test_both_ways_say_write_and_count_the_same(
    tmp_path: Path, keys: tuple[Path, dict[str, str]], era: str, name: str
) -> None:
    with ExitStack() as stack:
        runs = [
            stack.enter_context(running(tmp_path / way, way, SETTINGS[name], *keys, era))
            for way in ("short", "whole")
        ]
        short, whole = runs
        for body in bodies(name):
            if isinstance(body, list):
                for run in runs:
                    run.shelf.put(*body)
                continue
            for who in short.senders:
                said = [run.senders[who].say(body) for run in runs]
                assert said[0] == said[1], (who, body)
                if said[0][0] == 404 and era == "legacy":  # the session was ended
                    for run in runs:
                        run.senders[who].introduce()
        assert short.reached() == whole.reached()
        assert short.numbers() == whole.numbers()
        for number, (one, other) in enumerate(zip(short.lines(), whole.lines(), strict=False)):
            assert one == other, number
        assert short.lines() == whole.lines()
        assert (short.answered_shortly == 0) if name in WAITING else (short.answered_shortly > ANSWERED)
        assert whole.answered_shortly == 0


def test_a_key_that_is_revoked_stops_counting_on_an_open_connection(
    tmp_path: Path, keys: tuple[Path, dict[str, str]]
) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}'
    with running(tmp_path / "short", "short", SETTINGS["policies"], *keys) as run:
        alice, bob = run.senders["alice"], run.senders["bob"]
        for _ in range(5):
            assert (alice.say(call)[0], bob.say(call)[0]) == (200, 200)
        assert run.answered_shortly > 0
        KeyStore(run.gateway.folder / "data" / "keys.json").revoke("alice")
        eventually(lambda: alice.say(call)[0] == 401, "the key to be gone")
        assert bob.say(call)[0] == 200
        assert run.lines()[-2]["outcome"] == "denied"


def test_a_changed_policy_counts_on_an_open_connection(
    tmp_path: Path, keys: tuple[Path, dict[str, str]]
) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}'
    with running(tmp_path / "short", "short", SETTINGS["policies"], *keys) as run:
        bob = run.senders["bob"]
        for _ in range(5):
            assert b'"result"' in bob.say(call)[1]
        assert run.answered_shortly > 0
        (run.gateway.folder / "rules.cedar").write_text(
            'permit(principal == Client::"alice", action, resource);'
        )
        eventually(lambda: b"Unknown tool: look" in bob.say(call)[1], "the new policies", limit=20)
        assert b'"result"' in run.senders["alice"].say(call)[1]
