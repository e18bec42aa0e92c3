"""The chain: one order, in the code and in the guide; what is off is not in it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.unit.people import Files, Mailbox, Person

from mooring.errors import RpcError
from mooring.gateway.exchange import Exchange, Handler, compose
from mooring.gateway.normalizing import normalize
from mooring.policy.chain import ORDER, Step, build
from mooring.policy.telemetry.metrics import DESCRIPTIONS
from mooring.protocol import jsonrpc
from mooring.transports.wire import Answer

GUIDE = (Path(__file__).parents[2] / "docs/guides/guard.md").read_text(encoding="utf-8")


def test_the_table_in_the_guide_is_the_order_in_the_code() -> None:
    assert tuple(re.findall(r"^\| \d+ \| ([a-z -]+) \|", GUIDE, re.MULTILINE)) == ORDER


def test_every_metric_is_in_the_guide() -> None:
    assert set(re.findall(r"^\| `(mooring_\w+)`", GUIDE, re.MULTILINE)) == set(DESCRIPTIONS)


def exchange(method: str = "tools/call") -> Exchange:
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"name":"x"}}' % method.encode()
    return Exchange(Files(), Person(), jsonrpc.decode(body), method, body, Mailbox())


class Watcher:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def began(self, exchange: Exchange) -> None:
        self.log.append(f"{self.name} began")

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        self.log.append(f"{self.name} ended")
        return answer

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        self.log.append(f"{self.name} failed")


def steps(log: list[str], refusing: str = "") -> list[Step]:
    def check(name: str) -> Step:
        def look(exchange: Exchange) -> None:
            log.append(name)
            if name == refusing:
                raise RpcError("no")

        return Step(name, check=look)

    async def webhook(exchange: Exchange, handler: Handler) -> Answer | None:
        log.append("validating webhooks")
        return await handler(exchange)

    return [
        check("authorization"),
        Step("validating webhooks", middleware=webhook),
        check("rate limits"),
        Step("audit", observer=Watcher("audit", log)),
        Step("telemetry", observer=Watcher("telemetry", log)),
    ]


def spelled(draw: st.DrawFn, members: list[tuple[str, str]]) -> str:
    """An object as somebody might write it: members given twice, white space, escapes in names."""
    space = draw(st.sampled_from(["", "", " ", "\n"]))
    written = [f'"{name}"{space}:{space}{value}' for name, value in members]
    return "{" + f"{space},{space}".join(written) + "}"


@st.composite
def params(draw: st.DrawFn) -> str:
    names = st.sampled_from(["text", "more", "te\\u0078t", "é"])
    values = st.sampled_from(['"yes"', '"no"', "1", '{"text":"no"}', "[]"])
    arguments = spelled(draw, draw(st.lists(st.tuples(names, values), max_size=3)))
    known = st.sampled_from(
        [
            ("name", '"x"'),
            ("name", '"y"'),
            ("arguments", arguments),
            ("arguments", "{}"),
            ("n\\u0061me", '"z"'),
        ]
    )
    return spelled(draw, draw(st.lists(known, max_size=4)))


def read(text: bytes, which: int) -> Any:
    """As a parser reads it that takes the first (0) or the last (-1) of members with the same name."""

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: [value for each, value in pairs if each == name][which] for name, _ in pairs}

    return json.loads(text, object_pairs_hook=collect)


@given(params(), st.sampled_from(["", ',"params":{"name":"smuggled"}', ',"Params":{"name":"smuggled"}']))
def test_what_a_rule_has_read_is_what_every_server_reads(text: str, more: str) -> None:
    data = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{text}{more}}}'.encode()
    envelope = jsonrpc.decode(data)
    asked = Exchange(
        Files(), Person(), envelope, "tools/call", jsonrpc.forwardable(data, envelope), Mailbox()
    )
    normalize(asked)
    sent = read(asked.body, 0)
    assert sent == read(asked.body, -1)
    assert list(sent) in (["jsonrpc", "id", "method", "params"], ["jsonrpc", "id", "method"])
    assert sent.get("params", {}) == json.loads(bytes(asked.envelope.params) or b"{}")
    assert asked.read_name() == sent.get("params", {}).get("name")


async def final(exchange: Exchange) -> Answer:
    return Answer(version="2026-07-28", result=b"{}")


def test_steps_run_in_the_one_order_however_they_are_given() -> None:
    log: list[str] = []
    chain = build(steps(log))
    assert chain.names == ("telemetry", "audit", "rate limits", "validating webhooks", "authorization")
    assert len(chain.middlewares) == 3  # two groups that need no waiting, around the webhook
    asyncio.run(_run(chain.middlewares))
    assert log == [
        "telemetry began",
        "audit began",
        "rate limits",
        "validating webhooks",
        "authorization",
        "audit ended",
        "telemetry ended",
    ]


async def _run(middlewares: list) -> None:
    await compose(middlewares, final)(exchange())


def test_a_refusal_anywhere_is_seen_by_those_who_write_it_down() -> None:
    log: list[str] = []
    with pytest.raises(RpcError):
        asyncio.run(_run(build(steps(log, refusing="authorization")).middlewares))
    assert log[-2:] == ["audit failed", "telemetry failed"]


def test_without_steps_there_is_no_chain() -> None:
    chain = build([])
    assert (chain.middlewares, chain.concerns("tools/call")) == ([], False)


def test_steps_about_some_methods_leave_the_others_alone() -> None:
    chain = build([Step("pinning and lock", check=lambda _: None, methods=frozenset({"tools/list"}))])
    assert chain.concerns("tools/list")
    assert not chain.concerns("tools/call")


@pytest.mark.e2e
def test_what_is_run_passes_the_same_chain_as_what_is_served(tmp_path: Path) -> None:
    """One conversation with a server of the file and with one that `mooring run` started: the same answers,
    and the same lines in the audit."""
    shelves = {name: Shelf(tmp_path / name, *TOOLS) for name in ("filed", "started")}
    (tmp_path / "p.cedar").write_text(POLICY)
    settings: dict[str, Any] = {
        "authorization": {"type": "cedarv1", "policies": [str(tmp_path / "p.cedar")]},
        "audit": {"enabled": True, "include_request_data": True},
        "limits": {"rate": [{"count": 1, "per": ["server", "tool"], "tools": ["rare"]}]},
        "core": {"sanitize": {"mode": "strip"}, "tool_definition_lock": {"mode": "warn"}},
        "telemetry": {"prometheus": True},
    }
    filed = shelves["filed"].stdio("filed", tools={"allow": ["read", "rare", "sly", "pay"]})
    with running_gateway(tmp_path, [filed], **settings) as gateway:
        shown = [word for name in ("read", "rare", "sly", "pay") for word in ("--tool", name)]
        line = ["run", "--name", "started", "--sandbox", "off", *shown, "--"]
        done = gateway.command(*line, *shelves["started"].command("stdio", "legacy"))
        assert done.returncode == 0, done.stderr
        said = {name: conversation(gateway, name, shelf) for name, shelf in shelves.items()}
        assert said["filed"] == said["started"]
        assert [kind for kind, *_ in recorded(gateway, "filed")].count("tool_drift") >= 1
        assert recorded(gateway, "filed") == recorded(gateway, "started")
        assert shelves["filed"].calls() == shelves["started"].calls()
        numbers = Caller(gateway.address, "filed").send("GET", "/metrics", b"", {}).body.decode()
        assert numbers.replace("started", "filed").count('server="filed",tool="read"') == 2


TOOLS = [tool("read"), tool("rare"), tool("sly", "adds\u200b numbers"), tool("pay"), tool("hidden")]
POLICY = """
permit(principal, action == Action::"call_tool", resource) unless { resource == Tool::"pay" };
permit(principal, action == Action::"call_tool", resource == Tool::"pay") when { context.arg_text == "1" };
"""


def conversation(gateway: Gateway, name: str, shelf: Shelf) -> list[Any]:
    caller = Caller(gateway.address, name)
    caller.initialize()
    found: list[Any] = [caller.request("tools/list").result["tools"]]
    for called, text in (
        ("read", "x"),
        ("hidden", "x"),
        ("pay", "1"),
        ("pay", "2"),
        ("rare", "x"),
        ("rare", "x"),
    ):
        found.append(timeless(caller.tool(called, {"text": text}).message))
    shelf.put(tool("read", "and tells everybody"), *TOOLS[1:])
    found.append(caller.request("tools/list").result["tools"])
    return found


def timeless(message: dict[str, Any]) -> dict[str, Any]:
    message.get("error", {}).get("data", {}).pop("retryAfterSeconds", None)
    if "error" in message:
        message["error"]["message"] = re.sub(r"\d+(\.\d+)? s", "n s", message["error"]["message"])
    return message


def recorded(gateway: Gateway, name: str) -> list[tuple[Any, ...]]:
    lines = (gateway.folder / "data" / "audit.log").read_text().splitlines()
    events = [
        event for event in map(json.loads, lines) if event.get("target", {}).get("endpoint") == f"/mcp/{name}"
    ]
    return [
        (
            event["type"],
            event["outcome"],
            event["target"].get("name"),
            event.get("definition_hash"),
            event.get("data"),
        )
        for event in events
    ]
